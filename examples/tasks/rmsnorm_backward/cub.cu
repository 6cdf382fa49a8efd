//@kernelforge 1
//@workspace products f32 [T, H]
//@launch rows<<<(T), (256)>>>(g, n, rstd, w, grad_input, grad_residual, products)
//@call reduce(D=gw, A=products, op=sum, outer=1, n=T, inner=H)
#include <cuda_bf16.h>

// An elementwise kernel that also writes g * n, whose columns the library adds.
extern "C" __global__ void __launch_bounds__(256)
    rows(const __nv_bfloat16* g, const float* n, const float* rstd, const float* w,
         __nv_bfloat16* grad_input, __nv_bfloat16* grad_residual, float* products) {
    __shared__ float partial[8];
    constexpr int columns = H / 256;
    const long long base = (long long)blockIdx.x * H;
    float gn[columns];
    float ns[columns];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < columns; ++i) {
        const int c = threadIdx.x + i * 256;
        const float gradient = __bfloat162float(g[base + c]);
        ns[i] = n[base + c];
        gn[i] = gradient * w[c];
        products[base + c] = gradient * ns[i];
        sum += gn[i] * ns[i];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < 8; ++i) total += partial[i];
    const float mean = total / H;
    const float scale = rstd[blockIdx.x];
#pragma unroll
    for (int i = 0; i < columns; ++i) {
        const int c = threadIdx.x + i * 256;
        const __nv_bfloat16 gx = __float2bfloat16(scale * (gn[i] - ns[i] * mean));
        grad_input[base + c] = gx;
        grad_residual[base + c] = gx;
    }
}
