//@kernelforge 1
//@launch gemm<<<(N / 64, cdiv(M, 64)), (256)>>>(a, b, c, M:i32)

// What one writes first: tiles of 64 x 64 x 16 in shared memory, 4 x 4 outputs a thread.
extern "C" __global__ void __launch_bounds__(256) gemm(const float* a, const float* b, float* c, int m) {
    __shared__ __align__(16) float left[16][68];
    __shared__ __align__(16) float right[16][64];
    const int row0 = blockIdx.y * 64;
    const int column0 = blockIdx.x * 64;
    const int ty = threadIdx.x / 16;
    const int tx = threadIdx.x % 16;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = threadIdx.x; i < 64 * 16; i += 256) {
            const int row = row0 + i / 16;
            left[i % 16][i / 16] = row < m ? a[(long long)row * K + k0 + i % 16] : 0.0f;
        }
        for (int i = threadIdx.x; i < 16 * 64; i += 256) {
            right[i / 64][i % 64] = b[(long long)(k0 + i / 64) * N + column0 + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float4 p = *reinterpret_cast<const float4*>(&left[k][ty * 4]);
            const float4 q = *reinterpret_cast<const float4*>(&right[k][tx * 4]);
            const float ps[4] = {p.x, p.y, p.z, p.w};
            const float qs[4] = {q.x, q.y, q.z, q.w};
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) sum[i][j] += ps[i] * qs[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + ty * 4 + i;
        if (row >= m) continue;
        for (int j = 0; j < 4; ++j) c[(long long)row * N + column0 + tx * 4 + j] = sum[i][j];
    }
}
