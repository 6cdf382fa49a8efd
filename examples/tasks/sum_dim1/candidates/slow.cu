//@kernelforge 1
//@launch sum_dim1<<<(N, B), (32)>>>(x, y, M:i32, N:i32)

// Right, but a warp walks down one column, so that each load touches its own sector.
extern "C" __global__ void sum_dim1(const float* x, float* y, int m, int n) {
    const float* p = x + (long long)blockIdx.y * m * n + blockIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < m; i += 32) sum += p[(long long)i * n];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[(long long)blockIdx.y * n + blockIdx.x] = sum;
}
