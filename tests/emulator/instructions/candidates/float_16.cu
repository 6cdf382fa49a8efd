// SPDX-License-Identifier: Apache-2.0
// f16, alone and in pairs: arithmetic, fma, minima, comparisons, division.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, __half value) {
    into = (into ^ (__hisnan(value) ? 0x7fff : __half_as_ushort(value))) * 16777619u;
}
__device__ __forceinline__ void fold(unsigned& into, __half2 value) {
    fold(into, __low2half(value));
    fold(into, __high2half(value));
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half p = h[i], q = __ushort_as_half(static_cast<unsigned short>(a[i])), s = __float2half_rn(g[i]);
    const __half2 x2 = __halves2half2(p, q), y2 = __halves2half2(s, p);
    unsigned out = 2166136261u;
    fold(out, __hadd_rn(p, q));
    fold(out, __hmul_rn(p, s));
    fold(out, __hfma(p, s, p));
    fold(out, __hfma_sat(p, s, p));
    fold(out, __hsub_rn(q, s));
    fold(out, __hmin(p, q));
    fold(out, __hmax(p, s));
    fold(out, __hneg(p));
    fold(out, __habs(p));
    fold(out, __hadd2_rn(x2, y2));
    fold(out, __hmul2_rn(x2, y2));
    fold(out, __hfma2(x2, y2, x2));
    fold(out, __hfma2_relu(x2, y2, x2));
    fold(out, __hmin2(x2, y2));
    fold(out, __hmax2(x2, y2));
    fold(out, __hgt2(x2, y2));
    out = (out ^ (__hlt(p, q) | __hequ(p, q) << 1 | __hge(p, s) << 2)) * 16777619u;
    y[i] = out;
}
