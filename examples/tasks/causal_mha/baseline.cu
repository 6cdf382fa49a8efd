//@kernelforge 1
//@workspace qkv bf16 [B, S, F]
//@workspace att bf16 [B, S, E]
//@launch linear<<<(F / 128, B * (S / 64)), (256)>>>(x, wqkv, bqkv, qkv, F:i32)
//@launch attend<<<(S / 32, H, B), (128), (87552)>>>(qkv, att)
//@launch linear<<<(E / 128, B * (S / 64)), (256)>>>(att, wo, bo, y, E:i32)
#include <cuda_bf16.h>
#include <mma.h>

// What one writes first with matrix units: WMMA products, and an attention that keeps all logits of 32
// queries in shared memory. Probabilities are held as two bfloat16, high and low part.
using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(256)
    linear(const __nv_bfloat16* a, const __nv_bfloat16* w, const __nv_bfloat16* bias, __nv_bfloat16* to,
           int columns) {
    __shared__ __nv_bfloat16 as[64][40];
    __shared__ __nv_bfloat16 ws[128][40];
    __shared__ float out[8][16][20];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const long long row0 = (long long)blockIdx.y * 64;
    const int column0 = blockIdx.x * 128;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i], 0.0f);
    for (int k0 = 0; k0 < E; k0 += 32) {
        for (int i = threadIdx.x; i < 64 * 4; i += 256) {
            *reinterpret_cast<uint4*>(&as[i / 4][i % 4 * 8]) =
                *reinterpret_cast<const uint4*>(a + (row0 + i / 4) * E + k0 + i % 4 * 8);
        }
        for (int i = threadIdx.x; i < 128 * 4; i += 256) {
            *reinterpret_cast<uint4*>(&ws[i / 4][i % 4 * 8]) =
                *reinterpret_cast<const uint4*>(w + (long long)(column0 + i / 4) * E + k0 + i % 4 * 8);
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
            wmma::load_matrix_sync(right, &ws[warp * 16][k], 40);
            for (int i = 0; i < 4; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
                wmma::load_matrix_sync(left, &as[i * 16][k], 40);
                wmma::mma_sync(sums[i], left, right, sums[i]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        wmma::store_matrix_sync(&out[warp][0][0], sums[i], 20, wmma::mem_row_major);
        __syncwarp();
        for (int e = lane; e < 256; e += 32) {
            const int column = column0 + warp * 16 + e % 16;
            to[(row0 + i * 16 + e / 16) * columns + column] =
                __float2bfloat16(out[warp][e / 16][e % 16] + __bfloat162float(bias[column]));
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(128) attend(const __nv_bfloat16* qkv, __nv_bfloat16* att) {
    constexpr int pitch = 528;   // floats of a row of logits; later 528 high and 528 low parts
    constexpr int narrow = 104;  // elements of a row of queries, keys or values
    extern __shared__ __align__(128) unsigned char storage[];
    float* logits = reinterpret_cast<float*>(storage);
    __nv_bfloat16* halves = reinterpret_cast<__nv_bfloat16*>(storage);
    __nv_bfloat16* queries = reinterpret_cast<__nv_bfloat16*>(storage + 32 * pitch * 4);
    __nv_bfloat16* tile = queries + 32 * narrow;
    float* out = reinterpret_cast<float*>(tile);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int query0 = blockIdx.x * 32;
    const int keys = (query0 / 64 + 1) * 64;  // that are looked at, a multiple of the tile
    const __nv_bfloat16* base = qkv + (long long)blockIdx.z * S * F + blockIdx.y * D;
    const auto load = [&](__nv_bfloat16* to, int rows, int first, int offset) {
        for (int i = threadIdx.x; i < rows * (D / 8); i += 128) {
            const int row = i / (D / 8);
            const int column = i % (D / 8) * 8;
            *reinterpret_cast<uint4*>(to + row * narrow + column) =
                *reinterpret_cast<const uint4*>(base + (long long)(first + row) * F + offset + column);
        }
    };
    load(queries, 32, query0, 0);
    for (int t0 = 0; t0 < keys; t0 += 64) {
        __syncthreads();
        load(tile, 64, t0, E);
        __syncthreads();
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
        for (int i = 0; i < 2; ++i) wmma::fill_fragment(sums[i], 0.0f);
        for (int d = 0; d < D; d += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
            wmma::load_matrix_sync(right, tile + warp * 16 * narrow + d, narrow);
            for (int i = 0; i < 2; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
                wmma::load_matrix_sync(left, queries + i * 16 * narrow + d, narrow);
                wmma::mma_sync(sums[i], left, right, sums[i]);
            }
        }
        for (int i = 0; i < 2; ++i) {
            wmma::store_matrix_sync(logits + i * 16 * pitch + t0 + warp * 16, sums[i], pitch,
                                    wmma::mem_row_major);
        }
    }
    __syncthreads();
    // One warp a row; the probabilities take the place of the logits.
    for (int row = warp; row < 32; row += 4) {
        float p[S / 32];
        float most = -__int_as_float(0x7f800000);
        for (int i = 0; i < S / 32; ++i) {
            const int t = lane + i * 32;
            p[i] = t <= query0 + row ? logits[row * pitch + t] * 0.10206207261596577f : -__int_as_float(0x7f800000);
            most = fmaxf(most, p[i]);
        }
        for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
        float total = 0.0f;
        for (int i = 0; i < S / 32; ++i) {
            p[i] = expf(p[i] - most);
            total += p[i];
        }
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
        __syncwarp();
        for (int i = 0; i < S / 32; ++i) {
            const float value = p[i] / total;
            const __nv_bfloat16 high = __float2bfloat16(value);
            halves[row * 2 * pitch + lane + i * 32] = high;
            halves[row * 2 * pitch + pitch + lane + i * 32] = __float2bfloat16(value - __bfloat162float(high));
        }
    }
    // Twelve pieces of 16 x 16 of the result; a warp has pieces warp, warp + 4, warp + 8.
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[3];
    for (int i = 0; i < 3; ++i) wmma::fill_fragment(sums[i], 0.0f);
    for (int t0 = 0; t0 < keys; t0 += 64) {
        __syncthreads();
        load(tile, 64, t0, 2 * E);
        __syncthreads();
        for (int t = 0; t < 64; t += 16) {
            for (int i = 0; i < 3; ++i) {
                const int piece = warp + i * 4;
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> right;
                wmma::load_matrix_sync(right, tile + t * narrow + piece % 6 * 16, narrow);
                for (int part = 0; part < 2; ++part) {
                    wmma::load_matrix_sync(left, halves + piece / 6 * 16 * 2 * pitch + part * pitch + t0 + t,
                                           2 * pitch);
                    wmma::mma_sync(sums[i], left, right, sums[i]);
                }
            }
        }
    }
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        const int piece = warp + i * 4;
        wmma::store_matrix_sync(out + piece / 6 * 16 * 100 + piece % 6 * 16, sums[i], 100, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 32 * D; i += 128) {
        att[((long long)blockIdx.z * S + query0 + i / D) * E + blockIdx.y * D + i % D] =
            __float2bfloat16(out[i / D * 100 + i % D]);
    }
}
