// SPDX-License-Identifier: Apache-2.0
// Accesses of 2, 4, 8 and 16 bytes, cache hints, volatile and read-only loads.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int n = gridDim.x * blockDim.x;
    unsigned out = 2166136261u;
    const int4 four = reinterpret_cast<const int4*>(a)[i % (n / 4)];
    const int2 two = __ldg(reinterpret_cast<const int2*>(b) + i % (n / 2));
    const float4 more = __ldcs(reinterpret_cast<const float4*>(f) + (i * 3) % (n / 4));
    const double2 eights = __ldcg(reinterpret_cast<const double2*>(a) + (i * 5) % (n / 4));
    fold(out, four.x ^ four.y * 3 ^ four.z * 5 ^ four.w * 7);
    fold(out, two.x + two.y);
    fold(out, __float_as_uint(more.x) + __float_as_uint(more.w));
    fold(out, static_cast<unsigned>(__double_as_longlong(eights.y) >> 32));
    fold(out, reinterpret_cast<const unsigned char*>(b)[i]);
    fold(out, static_cast<unsigned>(reinterpret_cast<const short*>(b)[i]));
    fold(out, *reinterpret_cast<const volatile unsigned*>(a + i));
    unsigned short both[2] = {static_cast<unsigned short>(out), static_cast<unsigned short>(out >> 16)};
    reinterpret_cast<ushort2*>(y)[i] = make_ushort2(both[1], both[0]);
    if (i % 4 == 0) __stcs(reinterpret_cast<float4*>(r + i), make_float4(more.x, more.y, more.z, two.x));
}
