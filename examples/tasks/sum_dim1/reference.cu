//@kernelforge 1
//@launch reference<<<(cdiv(N, 256), B), (256)>>>(x, y, M:i64, N:i64)

// One thread a column, sum in double.
extern "C" __global__ void reference(const float* x, float* y, long long m, long long n) {
    const long long column = blockIdx.x * 256LL + threadIdx.x;
    if (column >= n) return;
    const float* p = x + blockIdx.y * m * n + column;
    double sum = 0.0;
    for (long long i = 0; i < m; ++i) sum += double(p[i * n]);
    y[blockIdx.y * n + column] = float(sum);
}
