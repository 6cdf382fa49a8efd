//@kernelforge 1
//@let blocks = min(T, 4 * SMS)
//@workspace part f32 [blocks, H]
//@launch rmsnorm_backward<<<(blocks), (256)>>>(g, n, rstd, w, grad_input, grad_residual, part, T:i32)
//@launch sum_parts<<<(H / 32), (32, 8)>>>(part, gw, blocks:i32)
#include <cuda_bf16.h>

// Wrong: the products of the weight's gradient are rounded to bfloat16 before they are added.
extern "C" __global__ void __launch_bounds__(256)
    rmsnorm_backward(const __nv_bfloat16* g, const float* n, const float* rstd, const float* w,
                     __nv_bfloat16* grad_input, __nv_bfloat16* grad_residual, float* part, int t) {
    __shared__ float partial[8];
    constexpr int columns = H / 256;
    float weight_sums[columns] = {};
    for (int row = blockIdx.x; row < t; row += gridDim.x) {
        const long long base = (long long)row * H;
        float gn[columns];
        float ns[columns];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < columns; ++i) {
            const int c = threadIdx.x + i * 256;
            const float gradient = __bfloat162float(g[base + c]);
            ns[i] = n[base + c];
            gn[i] = gradient * w[c];
            weight_sums[i] += __bfloat162float(__float2bfloat16(gradient * ns[i]));
            sum += gn[i] * ns[i];
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        float total = 0.0f;
        for (int i = 0; i < 8; ++i) total += partial[i];
        __syncthreads();
        const float mean = total / H;
        const float scale = rstd[row];
#pragma unroll
        for (int i = 0; i < columns; ++i) {
            const int c = threadIdx.x + i * 256;
            const __nv_bfloat16 gx = __float2bfloat16(scale * (gn[i] - ns[i] * mean));
            grad_input[base + c] = gx;
            grad_residual[base + c] = gx;
        }
    }
#pragma unroll
    for (int i = 0; i < columns; ++i) {
        part[(long long)blockIdx.x * H + threadIdx.x + i * 256] = weight_sums[i];
    }
}

extern "C" __global__ void sum_parts(const float* part, float* gw, int parts) {
    __shared__ float sums[8][33];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int p = threadIdx.y; p < parts; p += 8) sum += part[(long long)p * H + c];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0) return;
    for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
    gw[c] = sum;
}
