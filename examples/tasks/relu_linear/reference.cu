//@kernelforge 1
//@launch reference<<<(cdiv(N, 32), cdiv(M, 32)), (32, 32)>>>(x, w, b, y, M:i32)
#include <cuda_bf16.h>

// One thread an output, tiles in shared memory, sums in double.
extern "C" __global__ void reference(const __nv_bfloat16* x, const __nv_bfloat16* w,
                                     const __nv_bfloat16* b, __nv_bfloat16* y, int m) {
    __shared__ float xs[32][33];
    __shared__ float ws[32][33];
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int w_row = blockIdx.x * 32 + threadIdx.y;
    double sum = 0.0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        const int k = k0 + threadIdx.x;
        xs[threadIdx.y][threadIdx.x] = row < m && k < K ? __bfloat162float(x[(long long)row * K + k]) : 0.0f;
        ws[threadIdx.y][threadIdx.x] = w_row < N && k < K ? __bfloat162float(w[(long long)w_row * K + k]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += double(xs[threadIdx.y][i]) * double(ws[threadIdx.x][i]);
        __syncthreads();
    }
    if (row >= m || column >= N) return;
    const double value = sum + double(__bfloat162float(b[column]));
    y[(long long)row * N + column] = __float2bfloat16(float(value > 0.0 ? value : 0.0));
}
