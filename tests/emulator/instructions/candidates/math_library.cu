// SPDX-License-Identifier: Apache-2.0
// Functions of the CUDA math library as the compiler inlines them: exp, log, pow, erf, sin, tanh, cbrt.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float out = 0.0f;
    const float s = f[i], t = g[i];
    switch (i % 10) {
        case 0: out = expf(s); break;
        case 1: out = logf(t); break;
        case 2: out = powf(t, s); break;
        case 3: out = erff(s * 0.3f); break;
        case 4: out = sinf(s * 10.0f); break;
        case 5: out = tanhf(s * 0.2f); break;
        case 6: out = cbrtf(s); break;
        case 7: out = log1pf(t); break;
        case 8: out = expm1f(s * 0.1f); break;
        default: out = atan2f(s, t); break;
    }
    r[i] = out;
}
