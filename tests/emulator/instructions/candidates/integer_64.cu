// SPDX-License-Identifier: Apache-2.0
// 64-bit integers: arithmetic, high products, division, shifts, comparisons.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }
__device__ __forceinline__ void fold(unsigned& into, unsigned long long value) {
    fold(into, static_cast<unsigned>(value));
    fold(into, static_cast<unsigned>(value >> 32));
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const long long p = static_cast<long long>(a[i]) << 32 | static_cast<unsigned>(b[i]);
    const long long q = static_cast<long long>(b[i]) << 32 | static_cast<unsigned>(a[i] * 7);
    const unsigned long long u = p, v = q;
    unsigned out = 2166136261u;
    fold(out, u + v);
    fold(out, u - v);
    fold(out, u * v);
    fold(out, static_cast<unsigned long long>(__mul64hi(p, q)));
    fold(out, __umul64hi(u, v));
    fold(out, static_cast<unsigned long long>(p / (q >> 40 | 1)));
    fold(out, static_cast<unsigned long long>(p % (q >> 24 | 1)));
    fold(out, u / (v >> 33 | 1));
    fold(out, u % (v >> 17 | 1));
    fold(out, u << (a[i] & 63));
    fold(out, u >> (b[i] & 63));
    fold(out, static_cast<unsigned long long>(p >> (b[i] & 63)));
    fold(out, static_cast<unsigned long long>(min(p, q)));
    fold(out, max(u, v));
    fold(out, static_cast<unsigned long long>(llabs(p)));
    fold(out, static_cast<unsigned>(__clzll(p)));
    fold(out, static_cast<unsigned>(__popcll(p)));
    fold(out, __brevll(p));
    fold(out, static_cast<unsigned>(__ffsll(p)));
    fold(out, static_cast<unsigned>((p < q) | (u < v) << 1 | (p == q) << 2));
    y[i] = out;
}
