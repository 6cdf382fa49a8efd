// SPDX-License-Identifier: Apache-2.0
// Approximate functions: ex2, lg2, sin, cos, rcp, rsqrt, sqrt, tanh, division.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float out = 0.0f;
    const float s = f[i], t = g[i];
    switch (i % 12) {
        case 0: out = exp2f(s); break;
        case 1: out = __log2f(t); break;
        case 2: out = __sinf(s); break;
        case 3: out = __cosf(s); break;
        case 4: asm("rcp.approx.f32 %0, %1;" : "=f"(out) : "f"(s)); break;
        case 5: out = rsqrtf(t); break;
        case 6: asm("sqrt.approx.f32 %0, %1;" : "=f"(out) : "f"(t)); break;
        case 7: asm("tanh.approx.f32 %0, %1;" : "=f"(out) : "f"(s)); break;
        case 8: out = __fdividef(s, t); break;
        case 9: asm("div.full.f32 %0, %1, %2;" : "=f"(out) : "f"(s), "f"(t)); break;
        case 10: out = __expf(s); break;
        default: out = __powf(t, 1.7f); break;
    }
    r[i] = out;
}
