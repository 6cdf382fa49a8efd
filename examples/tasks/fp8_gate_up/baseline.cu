//@kernelforge 1
//@launch gate_up<<<(cdiv(M, 64), N / 64), (256)>>>(x, xs, g, gs, u, us, y, M:i32)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// What one writes first with matrix units: tiles of 64 rows and 64 columns of gate and up each, fp16 mma.sync,
// sums of one block of 128 at a time, then scaled and added up in fp32.
__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 16 e4m3 values as fp16, which has all of them.
__device__ void widen(uint4 from, __half* to) {
    const unsigned words[4] = {from.x, from.y, from.z, from.w};
    for (int i = 0; i < 16; ++i) {
        const __nv_fp8_storage_t value = (__nv_fp8_storage_t)(words[i / 4] >> (i % 4 * 8));
        to[i] = __half(__nv_cvt_fp8_to_halfraw(value, __NV_E4M3));
    }
}

__device__ unsigned pair(const __half* from) { return *reinterpret_cast<const unsigned*>(from); }

extern "C" __global__ void __launch_bounds__(256)
    gate_up(const unsigned char* x, const float* xs, const unsigned char* g, const float* gs,
            const unsigned char* u, const float* us, __nv_bfloat16* y, int m) {
    __shared__ __align__(16) __half left[64][40];
    __shared__ __align__(16) __half right[128][40];  // 64 columns of gate, then the same of up
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.x * 64;
    const int column0 = blockIdx.y * 64;
    const int warp_row = warp / 4 * 32;
    const int warp_column = warp % 4 * 16;
    float totals[2][4][4] = {};
    for (int block = 0; block < KB; ++block) {
        float sums[2][4][4] = {};
        for (int k0 = block * 128; k0 < block * 128 + 128; k0 += 32) {
            if (threadIdx.x < 128) {
                const int row = threadIdx.x / 2;
                uint4 values = make_uint4(0, 0, 0, 0);
                if (row0 + row < m) {
                    values = *reinterpret_cast<const uint4*>(x + (long long)(row0 + row) * K + k0 +
                                                             threadIdx.x % 2 * 16);
                }
                widen(values, &left[row][threadIdx.x % 2 * 16]);
            }
            const int row = threadIdx.x / 2;
            const unsigned char* weight = row < 64 ? g : u;
            widen(*reinterpret_cast<const uint4*>(weight + (long long)(column0 + row % 64) * K + k0 +
                                                  threadIdx.x % 2 * 16),
                  &right[row][threadIdx.x % 2 * 16]);
            __syncthreads();
            for (int k = lane % 4 * 2; k < 32; k += 16) {
                for (int j = 0; j < 4; ++j) {
                    const int column = j / 2 * 64 + warp_column + j % 2 * 8 + lane / 4;
                    const unsigned q[2] = {pair(&right[column][k]), pair(&right[column][k + 8])};
                    for (int i = 0; i < 2; ++i) {
                        const int first = warp_row + i * 16 + lane / 4;
                        const unsigned p[4] = {pair(&left[first][k]), pair(&left[first + 8][k]),
                                               pair(&left[first][k + 8]), pair(&left[first + 8][k + 8])};
                        multiply_add(sums[i][j], p, q);
                    }
                }
            }
            __syncthreads();
        }
        const float gate = gs[column0 / 128 * KB + block];
        const float up = us[column0 / 128 * KB + block];
        for (int i = 0; i < 2; ++i) {
            for (int e = 0; e < 4; ++e) {
                const int at = row0 + warp_row + i * 16 + e / 2 * 8 + lane / 4;
                const float scale = at < m ? xs[(long long)at * KB + block] : 0.0f;
                for (int j = 0; j < 4; ++j) totals[i][j][e] += sums[i][j][e] * scale * (j < 2 ? gate : up);
            }
        }
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            for (int e = 0; e < 4; ++e) {
                const int row = row0 + warp_row + i * 16 + e / 2 * 8 + lane / 4;
                if (row >= m) continue;
                const float gate = totals[i][j][e];
                y[(long long)row * N + column0 + warp_column + j * 8 + lane % 4 * 2 + e % 2] =
                    __float2bfloat16(gate / (1.0f + expf(-gate)) * totals[i][j + 2][e]);
            }
        }
    }
}
