// SPDX-License-Identifier: Apache-2.0
// 8 and 16-bit integers, packed operations, dot products of bytes.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int p = a[i], q = b[i];
    unsigned out = 2166136261u;
    const signed char c = static_cast<signed char>(p), d = static_cast<signed char>(q);
    const short s = static_cast<short>(p), t = static_cast<short>(q);
    const unsigned short us = static_cast<unsigned short>(p), ut = static_cast<unsigned short>(q);
    fold(out, static_cast<unsigned>(static_cast<signed char>(c * d)));
    fold(out, static_cast<unsigned>(static_cast<short>(s * t)));
    fold(out, static_cast<unsigned>(static_cast<unsigned short>(us / (ut | 1))));
    fold(out, static_cast<unsigned>(static_cast<short>(s >> (t & 15))));
    fold(out, static_cast<unsigned>(c < d) | static_cast<unsigned>(us < ut) << 1);
    fold(out, __vadd4(p, q));
    fold(out, __vsub2(p, q));
    fold(out, __vaddss2(p, q));
    fold(out, __vmaxs4(p, q));
    fold(out, __vabsdiffu4(p, q));
    fold(out, __vcmpgtu4(p, q));
    fold(out, static_cast<unsigned>(__dp4a(p, q, 11)));
    fold(out, __dp4a(static_cast<unsigned>(p), static_cast<unsigned>(q), 11u));
    fold(out, static_cast<unsigned>(__dp2a_lo(p, q, 11)));
    fold(out, static_cast<unsigned>(__dp2a_hi(p, q, 11)));
    y[i] = out;
}
