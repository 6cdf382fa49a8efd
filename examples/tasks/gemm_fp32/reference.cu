//@kernelforge 1
//@launch reference<<<(N / 64, cdiv(M, 128)), (256)>>>(a, b, c, M:i32)

// Tiles of 128 x 64, 8 x 4 outputs a thread, everything in double.
extern "C" __global__ void __launch_bounds__(256) reference(const float* a, const float* b, float* c, int m) {
    __shared__ __align__(16) double left[16][130];
    __shared__ __align__(16) double right[16][66];
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 64;
    const int ty = threadIdx.x / 16;
    const int tx = threadIdx.x % 16;
    double sum[8][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = threadIdx.x; i < 128 * 16; i += 256) {
            const int row = row0 + i / 16;
            left[i % 16][i / 16] = row < m ? double(a[(long long)row * K + k0 + i % 16]) : 0.0;
        }
        for (int i = threadIdx.x; i < 16 * 64; i += 256) {
            right[i / 64][i % 64] = double(b[(long long)(k0 + i / 64) * N + column0 + i % 64]);
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            double p[8];
            double q[4];
            for (int i = 0; i < 8; i += 2) {
                *reinterpret_cast<double2*>(p + i) = *reinterpret_cast<const double2*>(&left[k][ty * 8 + i]);
            }
            for (int j = 0; j < 4; j += 2) {
                *reinterpret_cast<double2*>(q + j) = *reinterpret_cast<const double2*>(&right[k][tx * 4 + j]);
            }
            for (int i = 0; i < 8; ++i) {
                for (int j = 0; j < 4; ++j) sum[i][j] += p[i] * q[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + ty * 8 + i;
        if (row >= m) continue;
        for (int j = 0; j < 4; ++j) c[(long long)row * N + column0 + tx * 4 + j] = float(sum[i][j]);
    }
}
