// SPDX-License-Identifier: Apache-2.0
// f32 as IEEE 754: the four roundings, division, square root, fma, minima, classification; of any bits.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
/// A NaN is one value: what its bits are is not said.
__device__ __forceinline__ void fold(unsigned& into, float value) {
    into = (into ^ (value != value ? 0x7fffffffu : __float_as_uint(value))) * 16777619u;
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float p = __int_as_float(a[i]), q = __int_as_float(b[i]), s = f[i], t = g[i];
    unsigned out = 2166136261u;
    fold(out, p + q);
    fold(out, __fadd_rn(p, s));
    fold(out, __fadd_rz(s, t));
    fold(out, __fadd_ru(s, t));
    fold(out, __fadd_rd(s, t));
    fold(out, __fmul_rn(p, q));
    fold(out, __fmul_rz(s, t));
    fold(out, __fmul_ru(s, t));
    fold(out, __fmul_rd(s, t));
    fold(out, __fmaf_rn(p, s, q));
    fold(out, __fmaf_rz(s, t, p));
    fold(out, __fmaf_ru(s, t, s));
    fold(out, __fmaf_rd(s, t, s));
    fold(out, __fdiv_rn(p, q));
    fold(out, __fdiv_rz(s, t));
    fold(out, __fdiv_ru(s, t));
    fold(out, __frcp_rn(p));
    fold(out, __fsqrt_rn(p));
    fold(out, __fsqrt_ru(t));
    fold(out, fminf(p, s));
    fold(out, fmaxf(p, q));
    fold(out, fabsf(p));
    fold(out, -p);
    fold(out, __saturatef(p));
    fold(out, floorf(s));
    fold(out, ceilf(s));
    fold(out, truncf(s));
    fold(out, rintf(s));
    fold(out, copysignf(p, q));
    out = (out ^ (isnan(p) | isinf(p) << 1 | signbit(p) << 2 | (p < q) << 3 | (p == q) << 4 | !(p >= q) << 5)) * 16777619u;
    y[i] = out;
    r[i] = __fsqrt_rn(__fdiv_rn(fabsf(s), t));
}
