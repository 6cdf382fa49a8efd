//@kernelforge 1
//@requires sm_80
//@valid align(x) >= 16 && align(wqkv) >= 16 && align(wo) >= 16 && align(bqkv) >= 4 && align(bo) >= 4 && align(y) >= 4
//@workspace qkv bf16 [B, S, F]
//@workspace att bf16 [B, S, E]
//@launch linear<<<(F / 128, B * (S / 128)), (128), (65536)>>>(x, wqkv, bqkv, qkv, F:i32)
//@launch attend<<<(S / 128 * H * B), (256), (79872)>>>(qkv, att)
//@launch linear<<<(E / 128, B * (S / 128)), (128), (65536)>>>(att, wo, bo, y, E:i32)
#include <cuda_bf16.h>

// Tensor cores through mma.sync. Products: tiles of 128 x 128 x 32, four warps of 64 x 64, four stages of
// asynchronous copies. Attention: 128 queries a block, 16 a warp, tiles of 64 keys in two stages, logits
// and probabilities in registers; the queries with most keys come first.
constexpr int tile_bytes = 128 * 64;
constexpr int stages = 4;
constexpr int pitch = 208;  // bytes of a row of queries, keys or values: 192, and 16 against bank conflicts

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Byte offset of 16-byte chunk `chunk` (0 to 3) of a row of 64 bytes, free of bank conflicts.
__device__ int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

__device__ void copy_async(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

// 2^value, to two units in the last place.
__device__ float power_of_two(float value) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

__device__ unsigned pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ void load_transposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128, 2)
    linear(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ w,
           const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ to, int columns) {
    extern __shared__ __align__(128) unsigned char storage[];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const long long row0 = (long long)blockIdx.y * 128;
    const int column0 = blockIdx.x * 128;
    const int warp_row = warp / 2 * 64;
    const int warp_column = warp % 2 * 64;

    const auto load_stage = [&](int stage, int k0) {
        const unsigned as = shared_address(storage + stage * 2 * tile_bytes);
        const unsigned ws = as + tile_bytes;
        const int chunk = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = threadIdx.x / 4 + i * 32;
            copy_async(as + swizzled(row, chunk), a + (row0 + row) * E + k0 + chunk * 8);
            copy_async(ws + swizzled(row, chunk), w + (long long)(column0 + row) * E + k0 + chunk * 8);
        }
    };

    float sums[4][8][4] = {};
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) {
        load_stage(s, s * 32);
        asm volatile("cp.async.commit_group;");
    }
    constexpr int steps = E / 32;
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2));
        __syncthreads();
        if (step + stages - 1 < steps) load_stage((step + stages - 1) % stages, (step + stages - 1) * 32);
        asm volatile("cp.async.commit_group;");
        const unsigned as = shared_address(storage + step % stages * 2 * tile_bytes);
        const unsigned ws = as + tile_bytes;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            unsigned left[4][4];
            unsigned right[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(left[i], as + swizzled(warp_row + i * 16 + lane % 16, k * 2 + lane / 16));
                const int row = warp_column + i * 16 + lane % 8 + lane / 16 * 8;
                load_matrices(right[i], ws + swizzled(row, k * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const int column = column0 + warp_column + j * 8 + lane % 4 * 2;
        const float2 add = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(bias + column));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const long long row = row0 + warp_row + i * 16 + half * 8 + lane / 4;
                *reinterpret_cast<unsigned*>(to + row * columns + column) =
                    pack(sums[i][j][half * 2] + add.x, sums[i][j][half * 2 + 1] + add.y);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    attend(const __nv_bfloat16* __restrict__ qkv, __nv_bfloat16* __restrict__ att) {
    extern __shared__ __align__(128) unsigned char storage[];
    constexpr int query_tiles = S / 128;
    constexpr float to_log2 = 0.10206207261596577f * 1.4426950408889634f;  // 1 / sqrt(96) / ln 2
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int query_tile = query_tiles - 1 - blockIdx.x % query_tiles;
    const int head = blockIdx.x / query_tiles % H;
    const long long batch = blockIdx.x / query_tiles / H;
    const int query0 = query_tile * 128;
    const int warp_query = query0 + warp * 16;
    const __nv_bfloat16* base = qkv + batch * S * F + head * D;
    const unsigned queries = shared_address(storage);
    const unsigned tiles = queries + 128 * pitch;  // keys, values, keys, values

    const auto load = [&](unsigned to, int first, int offset) {  // 64 rows
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const int chunk = (threadIdx.x + i * 256) % 12;
            const int row = (threadIdx.x + i * 256) / 12;
            copy_async(to + row * pitch + chunk * 16, base + (first + row) * F + offset + chunk * 8);
        }
    };
    const auto load_stage = [&](int stage, int first) {
        load(tiles + stage * 128 * pitch, first, E);
        load(tiles + (stage * 128 + 64) * pitch, first, 2 * E);
        asm volatile("cp.async.commit_group;");
    };

    load(queries, query0, 0);
    load(queries + 64 * pitch, query0 + 64, 0);
    load_stage(0, 0);
    float values[12][4] = {};
    float most[2] = {-1e30f, -1e30f};  // of the thread's two rows, before scaling
    float sum[2] = {0.0f, 0.0f};       // over the thread's own columns
    const int key_tiles = 2 * (query_tile + 1);
    for (int tile = 0; tile < key_tiles; ++tile) {
        const int key0 = tile * 64;
        if (tile + 1 < key_tiles) {
            load_stage((tile + 1) % 2, key0 + 64);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        if (key0 <= warp_query) {
            const unsigned keys = tiles + tile % 2 * 128 * pitch;
            const unsigned right_values = keys + 64 * pitch;
            float logits[8][4] = {};
#pragma unroll
            for (int k = 0; k < D / 16; ++k) {
                unsigned left[4];
                load_matrices(left, queries + (warp * 16 + lane % 16) * pitch + (k * 2 + lane / 16) * 16);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    unsigned right[4];
                    load_matrices(right, keys + (j * 16 + lane % 8 + lane / 16 * 8) * pitch +
                                             (k * 2 + lane / 8 % 2) * 16);
                    multiply_add(logits[2 * j], left, right[0], right[1]);
                    multiply_add(logits[2 * j + 1], left, right[2], right[3]);
                }
            }
            if (key0 + 63 > warp_query) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int key = key0 + j * 8 + lane % 4 * 2 + e % 2;
                        if (key > warp_query + lane / 4 + e / 2 * 8) logits[j][e] = -__int_as_float(0x7f800000);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float top = most[r];
#pragma unroll
                for (int j = 0; j < 8; ++j) top = fmaxf(top, fmaxf(logits[j][r * 2], logits[j][r * 2 + 1]));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
                const float scale = power_of_two((most[r] - top) * to_log2);
                most[r] = top;
                sum[r] *= scale;
#pragma unroll
                for (int n = 0; n < 12; ++n) {
                    values[n][r * 2] *= scale;
                    values[n][r * 2 + 1] *= scale;
                }
                const float shift = top * to_log2;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
#pragma unroll
                    for (int e = r * 2; e < r * 2 + 2; ++e) {
                        logits[j][e] = power_of_two(logits[j][e] * to_log2 - shift);
                        sum[r] += logits[j][e];
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const unsigned left[4] = {pack(logits[2 * k][0], logits[2 * k][1]),
                                          pack(logits[2 * k][2], logits[2 * k][3]),
                                          pack(logits[2 * k + 1][0], logits[2 * k + 1][1]),
                                          pack(logits[2 * k + 1][2], logits[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < 6; ++n) {
                    unsigned right[4];
                    load_transposed(right, right_values + (k * 16 + lane % 16) * pitch +
                                               (n * 2 + lane / 16) * 16);
                    multiply_add(values[2 * n], left, right[0], right[1]);
                    multiply_add(values[2 * n + 1], left, right[2], right[3]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        const float inverse = 1.0f / sum[r];
        __nv_bfloat16* to = att + (batch * S + warp_query + lane / 4 + r * 8) * E + head * D + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 12; ++n) {
            *reinterpret_cast<unsigned*>(to + n * 8) =
                pack(values[n][r * 2] * inverse, values[n][r * 2 + 1] * inverse);
        }
    }
}
