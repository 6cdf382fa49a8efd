//@kernelforge 1
//@launch linear_silu_groupnorm<<<(N / 128, cdiv(M, 64)), (256)>>>(x, w, b1, b2, gamma, beta, y, M:i32)
#include <cuda_bf16.h>
#include <mma.h>

// What one writes first with matrix units: WMMA fragments, tiles of 64 x 128 x 32 in shared memory.
using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(256)
    linear_silu_groupnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b1,
                          const __nv_bfloat16* b2, const __nv_bfloat16* gamma, const __nv_bfloat16* beta,
                          __nv_bfloat16* y, int m) {
    // The tile of sums takes the place of the operands' tiles.
    __shared__ __align__(128) float out[64][132];
    auto xs = reinterpret_cast<__nv_bfloat16(*)[40]>(&out[0][0]);
    auto ws = xs + 64;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 64;
    const int column0 = blockIdx.x * 128;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i], 0.0f);
    for (int k0 = 0; k0 < K; k0 += 32) {
        for (int i = threadIdx.x; i < 64 * 4; i += 256) {
            const int row = i / 4;
            uint4 value = make_uint4(0, 0, 0, 0);
            if (row0 + row < m) {
                value = *reinterpret_cast<const uint4*>(x + (long long)(row0 + row) * K + k0 + i % 4 * 8);
            }
            *reinterpret_cast<uint4*>(&xs[row][i % 4 * 8]) = value;
        }
        for (int i = threadIdx.x; i < 128 * 4; i += 256) {
            const int row = i / 4;
            *reinterpret_cast<uint4*>(&ws[row][i % 4 * 8]) =
                *reinterpret_cast<const uint4*>(w + (long long)(column0 + row) * K + k0 + i % 4 * 8);
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
            wmma::load_matrix_sync(right, &ws[warp * 16][k], 40);
            for (int i = 0; i < 4; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
                wmma::load_matrix_sync(left, &xs[i * 16][k], 40);
                wmma::mma_sync(sums[i], left, right, sums[i]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        wmma::store_matrix_sync(&out[i * 16][warp * 16], sums[i], 132, wmma::mem_row_major);
    }
    __syncthreads();
    for (int row = warp; row < 64; row += 8) {
        // A half-warp has a group: four columns a lane.
        float values[4];
        float sum = 0.0f;
        for (int j = 0; j < 4; ++j) {
            const int column = column0 + lane * 4 + j;
            const float value = out[row][lane * 4 + j] + __bfloat162float(b1[column]);
            values[j] = value / (1.0f + expf(-value)) + __bfloat162float(b2[column]);
            sum += values[j];
        }
        for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        float squares = 0.0f;
        for (int j = 0; j < 4; ++j) squares += (values[j] - sum / 64.0f) * (values[j] - sum / 64.0f);
        for (int step = 8; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
        const float scale = rsqrtf(squares / 64.0f + 1e-5f);
        for (int j = 0; j < 4 && row0 + row < m; ++j) {
            const int column = column0 + lane * 4 + j;
            y[(long long)(row0 + row) * N + column] =
                __float2bfloat16((values[j] - sum / 64.0f) * scale * __bfloat162float(gamma[column]) +
                                 __bfloat162float(beta[column]));
        }
    }
}
