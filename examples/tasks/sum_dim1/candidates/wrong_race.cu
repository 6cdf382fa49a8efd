//@kernelforge 1
//@memset y 0
//@launch sum_dim1<<<(8, cdiv(N, 128), B), (128)>>>(x, y, M:i32, N:i32)

// Wrong: eight blocks add to the same element without an atomic operation.
extern "C" __global__ void sum_dim1(const float* x, float* y, int m, int n) {
    const int column = blockIdx.y * 128 + threadIdx.x;
    if (column >= n) return;
    const float* p = x + (long long)blockIdx.z * m * n + column;
    float sum = 0.0f;
    for (int i = blockIdx.x; i < m; i += 8) sum += p[(long long)i * n];
    y[(long long)blockIdx.z * n + column] += sum;
}
