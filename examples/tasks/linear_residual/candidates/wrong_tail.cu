//@kernelforge 1
//@launch linear_residual<<<(N / 128, cdiv(M, 64)), (256)>>>(x, w, r, y, M:i32)
#include <cuda_bf16.h>
#include <mma.h>

// Wrong: the last 32 terms of every sum are left out.
using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(256)
    linear_residual(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* r,
                    __nv_bfloat16* y, int m) {
    __shared__ __nv_bfloat16 xs[64][40];
    __shared__ __nv_bfloat16 ws[128][40];
    __shared__ float out[8][16][20];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 64;
    const int column0 = blockIdx.x * 128;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i], 0.0f);
    for (int k0 = 0; k0 < K - 32; k0 += 32) {
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
        wmma::store_matrix_sync(&out[warp][0][0], sums[i], 20, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int row = row0 + i * 16 + e / 16;
            const int column = column0 + warp * 16 + e % 16;
            if (row < m) {
                const long long at = (long long)row * N + column;
                y[at] = __float2bfloat16(out[warp][e / 16][e % 16] + __bfloat162float(r[at]));
            }
        }
        __syncwarp();
    }
}
