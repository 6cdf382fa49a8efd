//@kernelforge 1
//@launch reference<<<(N / 64, cdiv(M, 128)), (256)>>>(x, w, r, y, M:i32)
#include <cuda_bf16.h>

// Tiles of 128 x 64, 8 x 4 outputs a thread. Products of two bfloat16 values are exact in fp32; 64 of them
// are summed in fp32 (relative error below 1e-6) and these sums in double.
extern "C" __global__ void __launch_bounds__(256)
    reference(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* r, __nv_bfloat16* y, int m) {
    __shared__ __align__(16) float left[16][132];
    __shared__ __align__(16) float right[16][68];
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 64;
    const int ty = threadIdx.x / 16;
    const int tx = threadIdx.x % 16;
    double total[8][4] = {};
    for (int k0 = 0; k0 < K; k0 += 64) {
        float sum[8][4] = {};
        for (int k1 = k0; k1 < k0 + 64; k1 += 16) {
            for (int i = threadIdx.x; i < 128 * 16; i += 256) {
                const int row = row0 + i / 16;
                left[i % 16][i / 16] = row < m ? __bfloat162float(x[(long long)row * K + k1 + i % 16]) : 0.0f;
            }
            for (int i = threadIdx.x; i < 64 * 16; i += 256) {
                right[i % 16][i / 16] = __bfloat162float(w[(long long)(column0 + i / 16) * K + k1 + i % 16]);
            }
            __syncthreads();
            for (int k = 0; k < 16; ++k) {
                float a[8];
                float b[4];
                *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&left[k][ty * 8]);
                *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&left[k][ty * 8 + 4]);
                *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&right[k][tx * 4]);
                for (int i = 0; i < 8; ++i) {
                    for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
                }
            }
            __syncthreads();
        }
        for (int i = 0; i < 8; ++i) {
            for (int j = 0; j < 4; ++j) total[i][j] += double(sum[i][j]);
        }
    }
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + ty * 8 + i;
        if (row >= m) continue;
        for (int j = 0; j < 4; ++j) {
            const long long at = (long long)row * N + column0 + tx * 4 + j;
            y[at] = __float2bfloat16(float(total[i][j] + double(__bfloat162float(r[at]))));
        }
    }
}
