//@kernelforge 1
//@requires sm_80
//@valid align(h) >= 16 && align(w) >= 16
//@let tiles = 2 * cdiv(T, 128)
//@let wanted = cdiv(2 * SMS, tiles)
//@let splits = wanted >= 8 ? 8 : (wanted >= 4 ? 4 : (wanted >= 2 ? 2 : 1))
//@workspace part f32 [splits, T, E]
//@launch project<<<(2, cdiv(T, 128), splits), (256), (65536)>>>(h, w, part, T:i32, splits:i32)
//@launch route<<<(cdiv(T, 8)), (256)>>>(part, bias, topk_idx, topk_weight, T:i32, splits:i32, routed_scaling_factor)
#include <cuda_bf16.h>

// Tensor cores through mma.sync: tiles of 128 x 128 x 32, four stages of asynchronous copies, swizzled
// shared memory. The channels are split over blocks where there are few tokens. One warp a token adds
// the splits and routes; maxima come from integer reductions of ordered keys.
constexpr int tile_bytes = 128 * 64;
constexpr int stages = 4;

__device__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Byte offset of 16-byte chunk `chunk` (0 to 3) of a row of 64 bytes, free of bank conflicts.
__device__ int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

__device__ void copy_async(unsigned to, const void* from, bool wanted) {
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ void load_matrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
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

extern "C" __global__ void __launch_bounds__(256, 2)
    project(const __nv_bfloat16* __restrict__ h, const __nv_bfloat16* __restrict__ w,
            float* __restrict__ part, int t, int splits) {
    extern __shared__ __align__(128) unsigned char storage[];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 128;
    const int column0 = blockIdx.x * 128;
    const int k_begin = H / splits * blockIdx.z;
    const int warp_row = warp / 4 * 64;
    const int warp_column = warp % 4 * 32;

    const auto load_stage = [&](int stage, int k0) {
        unsigned char* hs = storage + stage * 2 * tile_bytes;
        unsigned char* ws = hs + tile_bytes;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = threadIdx.x / 4 + i * 64;
            const int chunk = threadIdx.x % 4;
            const bool wanted = row0 + row < t;
            const long long h_row = wanted ? row0 + row : 0;
            copy_async(shared_address(hs + swizzled(row, chunk)), h + h_row * H + k0 + chunk * 8, wanted);
            copy_async(shared_address(ws + swizzled(row, chunk)),
                       w + (long long)(column0 + row) * H + k0 + chunk * 8, true);
        }
    };

    float sums[4][4][4] = {};
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) {
        load_stage(s, k_begin + s * 32);
        asm volatile("cp.async.commit_group;");
    }
    const int steps = H / 32 / splits;
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2));
        __syncthreads();
        if (step + stages - 1 < steps) load_stage((step + stages - 1) % stages, k_begin + (step + stages - 1) * 32);
        asm volatile("cp.async.commit_group;");
        const unsigned hs = shared_address(storage + step % stages * 2 * tile_bytes);
        const unsigned ws = hs + tile_bytes;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            unsigned left[4][4];
            unsigned right[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(left[i], hs + swizzled(warp_row + i * 16 + lane % 16, k * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int row = warp_column + j * 16 + lane % 8 + lane / 16 * 8;
                load_matrices(right[j], ws + swizzled(row, k * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_add(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int column = column0 + warp_column + j * 8 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = row0 + warp_row + i * 16 + half * 8 + lane / 4;
                if (row >= t) continue;
                *reinterpret_cast<float2*>(part + ((long long)blockIdx.z * t + row) * E + column) =
                    make_float2(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
            }
        }
    }
}

// A key that orders like the value; keys of choices are never 0.
__device__ unsigned key_of(float value) {
    const unsigned bits = __float_as_uint(value);
    return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}

__device__ float value_of(unsigned key) {
    return __uint_as_float((key & 0x80000000u) ? key & 0x7fffffffu : ~key);
}

extern "C" __global__ void __launch_bounds__(256)
    route(const float* __restrict__ part, const __nv_bfloat16* __restrict__ bias,
          long long* __restrict__ topk_idx, float* __restrict__ topk_weight, int t, int splits,
          float routed_scaling_factor) {
    constexpr int groups = 8;  // of 32 experts: lane l has expert l of every group
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= t) return;
    float logits[groups] = {};
    for (int s = 0; s < splits; ++s) {
#pragma unroll
        for (int g = 0; g < groups; ++g) {
            logits[g] += __ldcs(part + ((long long)s * t + row) * E + g * 32 + lane);
        }
    }
    unsigned keys[groups];
    float scores[groups];
    float group_scores[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        scores[g] = 1.0f / (1.0f + __expf(-logits[g]));
        keys[g] = key_of(scores[g] + __bfloat162float(bias[g * 32 + lane]));
        const unsigned first = __reduce_max_sync(0xffffffffu, keys[g]);
        const int holder = __ffs(__ballot_sync(0xffffffffu, keys[g] == first)) - 1;
        const unsigned second = __reduce_max_sync(0xffffffffu, lane == holder ? 0u : keys[g]);
        group_scores[g] = value_of(first) + value_of(second);
    }
#pragma unroll
    for (int g = 0; g < groups; ++g) {
        int better = 0;
#pragma unroll
        for (int f = 0; f < groups; ++f) {
            better += group_scores[f] > group_scores[g] || (group_scores[f] == group_scores[g] && f < g);
        }
        if (better >= 4) keys[g] = 0;
    }
    float sum = 0.0f;
    float mine = 0.0f;  // of the choice whose number is the lane's
    int my_index = 0;
#pragma unroll
    for (int i = 0; i < K; ++i) {
        unsigned best = keys[0];
        int group = 0;
        float score = scores[0];
#pragma unroll
        for (int g = 1; g < groups; ++g) {
            const bool larger = keys[g] > best;
            best = larger ? keys[g] : best;
            group = larger ? g : group;
            score = larger ? scores[g] : score;
        }
        const unsigned first = __reduce_max_sync(0xffffffffu, best);
        const int holder = __ffs(__ballot_sync(0xffffffffu, best == first)) - 1;
        if (lane == holder) {
#pragma unroll
            for (int g = 0; g < groups; ++g) keys[g] = g == group ? 0u : keys[g];
        }
        score = __shfl_sync(0xffffffffu, score, holder);
        group = __shfl_sync(0xffffffffu, group, holder);
        sum += score;
        if (lane == i) {
            mine = score;
            my_index = group * 32 + holder;
        }
    }
    if (lane < K) {
        topk_idx[row * K + lane] = my_index;
        topk_weight[row * K + lane] = mine / (sum + 1e-20f) * routed_scaling_factor;
    }
}
