//@kernelforge 1
//@launch gemm<<<(N / 32, cdiv(M, 32)), (32, 32)>>>(a, b, c, M:i32)

// Right, but one output a thread.
extern "C" __global__ void gemm(const float* a, const float* b, float* c, int m) {
    __shared__ float left[32][33];
    __shared__ float right[32][33];
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        left[threadIdx.y][threadIdx.x] = row < m ? a[(long long)row * K + k0 + threadIdx.x] : 0.0f;
        right[threadIdx.y][threadIdx.x] = b[(long long)(k0 + threadIdx.y) * N + column];
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m) c[(long long)row * N + column] = sum;
}
