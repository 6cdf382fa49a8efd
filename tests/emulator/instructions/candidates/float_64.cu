// SPDX-License-Identifier: Apache-2.0
// f64 as IEEE 754: arithmetic, division, square root, fma, conversions; of any bits.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, double value) {
    const unsigned long long bits = value != value ? 0x7fffffffffffffffull : __double_as_longlong(value);
    into = (into ^ static_cast<unsigned>(bits)) * 16777619u;
    into = (into ^ static_cast<unsigned>(bits >> 32)) * 16777619u;
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double p = __longlong_as_double(static_cast<long long>(a[i]) << 32 | static_cast<unsigned>(b[i]));
    const double q = __longlong_as_double(static_cast<long long>(b[i]) << 32 | static_cast<unsigned>(a[i]));
    const double s = f[i], t = g[i];
    unsigned out = 2166136261u;
    fold(out, p + q);
    fold(out, p * q);
    fold(out, fma(p, s, q));
    fold(out, s / t);
    fold(out, p / q);
    fold(out, sqrt(t));
    fold(out, __dadd_ru(s, t));
    fold(out, __dmul_rz(s, t));
    fold(out, __fma_rd(s, t, s));
    fold(out, fmin(p, q));
    fold(out, fmax(p, s));
    fold(out, floor(s * 1e5));
    fold(out, rint(s * 1e5));
    out = (out ^ __double2int_rn(s * 1e7)) * 16777619u;
    out = (out ^ static_cast<unsigned>(__double2ll_rz(s * 1e17))) * 16777619u;
    out = (out ^ __float_as_uint(__double2float_ru(s / t))) * 16777619u;
    fold(out, __ll2double_rn(static_cast<long long>(a[i]) * b[i]));
    y[i] = out;
}
