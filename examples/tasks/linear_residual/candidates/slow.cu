//@kernelforge 1
//@launch linear_residual<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>(x, w, r, y, M:i32)
#include <cuda_bf16.h>

// Right, but without matrix units.
extern "C" __global__ void linear_residual(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                       const __nv_bfloat16* r, __nv_bfloat16* y, int m) {
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
    if (row < m) {
        const long long at = (long long)row * N + column;
        y[at] = __float2bfloat16(sum + __bfloat162float(r[at]));
    }
}
