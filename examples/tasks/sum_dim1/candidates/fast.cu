//@kernelforge 1
//@tune ROWS = 8 16
//@launch sum_dim1<<<(cdiv(N, 64), B), (64, ROWS)>>>(x, y, M:i32, N:i32)

// Each block takes 64 columns; its ROWS slices of threads share the reduced axis, with eight loads in
// flight a thread, and meet in shared memory.
extern "C" __global__ void __launch_bounds__(64 * ROWS)
    sum_dim1(const float* __restrict__ x, float* __restrict__ y, int m, int n) {
    __shared__ float partial[ROWS][64];
    const int column = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    if (column < n) {
        const float* p = x + (long long)blockIdx.y * m * n + column;
        int i = threadIdx.y;
        for (; i + 7 * ROWS < m; i += 8 * ROWS) {
            float v[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) v[k] = __ldcs(p + (long long)(i + k * ROWS) * n);
            sum += ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        }
        for (; i < m; i += ROWS) sum += __ldcs(p + (long long)i * n);
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < n) {
        float total = 0.0f;
#pragma unroll
        for (int k = 0; k < ROWS; ++k) total += partial[k][threadIdx.x];
        y[(long long)blockIdx.y * n + column] = total;
    }
}
