//@kernelforge 1
//@workspace h f32 [M, N]
//@launch linear<<<(N / 32, cdiv(M, 32)), (32, 32)>>>(x, w, h, M:i32)
//@launch silu_groupnorm<<<(M), (N / 4)>>>(h, b1, b2, gamma, beta, y)
#include <cuda_bf16.h>

// Right, but without matrix units.
extern "C" __global__ void linear(const __nv_bfloat16* x, const __nv_bfloat16* w, float* h, int m) {
    __shared__ float xs[32][33];
    __shared__ float ws[32][33];
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        xs[threadIdx.y][threadIdx.x] =
            row < m ? __bfloat162float(x[(long long)row * K + k0 + threadIdx.x]) : 0.0f;
        ws[threadIdx.y][threadIdx.x] =
            __bfloat162float(w[(long long)(blockIdx.x * 32 + threadIdx.y) * K + k0 + threadIdx.x]);
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += xs[threadIdx.y][i] * ws[threadIdx.x][i];
        __syncthreads();
    }
    if (row < m) h[(long long)row * N + column] = sum;
}

__device__ float group_sum(float value) {
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// A block a row, four columns a thread, a half-warp a group.
extern "C" __global__ void __launch_bounds__(N / 4)
    silu_groupnorm(const float* h, const __nv_bfloat16* b1, const __nv_bfloat16* b2,
                   const __nv_bfloat16* gamma, const __nv_bfloat16* beta, __nv_bfloat16* y) {
    const int column = threadIdx.x * 4;
    const long long at = (long long)blockIdx.x * N + column;
    float values[4];
    float sum = 0.0f;
    for (int j = 0; j < 4; ++j) {
        const float value = h[at + j] + __bfloat162float(b1[column + j]);
        values[j] = value / (1.0f + expf(-value)) + __bfloat162float(b2[column + j]);
        sum += values[j];
    }
    const float mean = group_sum(sum) / 64.0f;
    float squares = 0.0f;
    for (int j = 0; j < 4; ++j) squares += (values[j] - mean) * (values[j] - mean);
    const float scale = rsqrtf(group_sum(squares) / 64.0f + 1e-5f);
    for (int j = 0; j < 4; ++j) {
        y[at + j] = __float2bfloat16((values[j] - mean) * scale * __bfloat162float(gamma[column + j]) +
                                     __bfloat162float(beta[column + j]));
    }
}
