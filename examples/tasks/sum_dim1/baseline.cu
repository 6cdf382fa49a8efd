//@kernelforge 1
//@launch sum_dim1<<<(cdiv(N, 128), B), (128)>>>(x, y, M:i32, N:i32)

// What one writes first: a thread a column, neighbouring threads read neighbouring columns.
extern "C" __global__ void sum_dim1(const float* x, float* y, int m, int n) {
    const int column = blockIdx.x * 128 + threadIdx.x;
    if (column >= n) return;
    const float* p = x + (long long)blockIdx.y * m * n + column;
    float sum = 0.0f;
    for (int i = 0; i < m; ++i) sum += p[(long long)i * n];
    y[(long long)blockIdx.y * n + column] = sum;
}
