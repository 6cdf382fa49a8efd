// SPDX-License-Identifier: Apache-2.0
// f32 with denormals flushed to zero.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@option --ftz=true
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, float value) {
    into = (into ^ __float_as_uint(value)) * 16777619u;
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float p = __int_as_float(a[i] & 0x81ffffff), q = __int_as_float(b[i] & 0xbfffffff), s = f[i] * 1e-38f;
    unsigned out = 2166136261u;
    fold(out, p + q);
    fold(out, p * q);
    fold(out, __fmaf_rn(p, q, s));
    fold(out, s + p);
    fold(out, fminf(p, s));
    fold(out, fabsf(p));
    fold(out, p < s ? 1.0f : 2.0f);
    y[i] = out;
}
