//@kernelforge 1
//@let parts = min(T, 16)
//@workspace part f64 [parts, H]
//@launch rows<<<(T), (32)>>>(g, n, rstd, w, grad_input, grad_residual)
//@launch columns<<<(H / 32, parts), (32)>>>(g, n, part, T:i32)
//@launch finish<<<(H / 32), (32)>>>(part, gw, parts:i32)
#include <cuda_bf16.h>

// Right, but a single warp walks a whole row, and everything is read twice.
extern "C" __global__ void rows(const __nv_bfloat16* g, const float* n, const float* rstd, const float* w,
                                __nv_bfloat16* grad_input, __nv_bfloat16* grad_residual) {
    const long long base = (long long)blockIdx.x * H;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < H; c += 32) {
        sum += __bfloat162float(g[base + c]) * w[c] * n[base + c];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const float mean = sum / H;
    for (int c = threadIdx.x; c < H; c += 32) {
        const float gn = __bfloat162float(g[base + c]) * w[c];
        const __nv_bfloat16 gx = __float2bfloat16(rstd[blockIdx.x] * (gn - n[base + c] * mean));
        grad_input[base + c] = gx;
        grad_residual[base + c] = gx;
    }
}

extern "C" __global__ void columns(const __nv_bfloat16* g, const float* n, double* part, int t) {
    const int c = blockIdx.x * 32 + threadIdx.x;
    double sum = 0.0;
    for (int row = blockIdx.y; row < t; row += gridDim.y) {
        const long long i = (long long)row * H + c;
        sum += double(__bfloat162float(g[i])) * double(n[i]);
    }
    part[blockIdx.y * H + c] = sum;
}

extern "C" __global__ void finish(const double* part, float* gw, int parts) {
    const int c = blockIdx.x * 32 + threadIdx.x;
    double sum = 0.0;
    for (int p = 0; p < parts; ++p) sum += part[p * H + c];
    gw[c] = float(sum);
}
