//@kernelforge 1
//@workspace logits f32 [T, E]
//@launch project<<<(E / 128, cdiv(T, 64)), (256)>>>(h, w, logits, T:i32)
//@launch route<<<(cdiv(T, 8)), (256)>>>(logits, bias, topk_idx, topk_weight, T:i32, routed_scaling_factor)
#include <cuda_bf16.h>
#include <mma.h>

// Wrong: the last 32 channels of h and w are left out.
using namespace nvcuda;

extern "C" __global__ void __launch_bounds__(256)
    project(const __nv_bfloat16* h, const __nv_bfloat16* w, float* logits, int t) {
    __shared__ __nv_bfloat16 hs[64][40];
    __shared__ __nv_bfloat16 ws[128][40];
    __shared__ float out[8][16][20];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row0 = blockIdx.y * 64;
    const int column0 = blockIdx.x * 128;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
    for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i], 0.0f);
    for (int k0 = 0; k0 < H - 32; k0 += 32) {
        for (int i = threadIdx.x; i < 64 * 4; i += 256) {
            const int row = i / 4;
            uint4 value = make_uint4(0, 0, 0, 0);
            if (row0 + row < t) {
                value = *reinterpret_cast<const uint4*>(h + (long long)(row0 + row) * H + k0 + i % 4 * 8);
            }
            *reinterpret_cast<uint4*>(&hs[row][i % 4 * 8]) = value;
        }
        for (int i = threadIdx.x; i < 128 * 4; i += 256) {
            const int row = i / 4;
            *reinterpret_cast<uint4*>(&ws[row][i % 4 * 8]) =
                *reinterpret_cast<const uint4*>(w + (long long)(column0 + row) * H + k0 + i % 4 * 8);
        }
        __syncthreads();
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> right;
            wmma::load_matrix_sync(right, &ws[warp * 16][k], 40);
            for (int i = 0; i < 4; ++i) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> left;
                wmma::load_matrix_sync(left, &hs[i * 16][k], 40);
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
            if (row < t) logits[(long long)row * E + column0 + warp * 16 + e % 16] = out[warp][e / 16][e % 16];
        }
        __syncwarp();
    }
}

// The largest value of the warp and where it is; the lower index where two are equal.
__device__ void warp_largest(float& value, int& index) {
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        const int other_index = __shfl_xor_sync(0xffffffffu, index, step);
        if (other > value || (other == value && other_index < index)) {
            value = other;
            index = other_index;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    route(const float* logits, const __nv_bfloat16* bias, long long* topk_idx, float* topk_weight, int t,
          float routed_scaling_factor) {
    constexpr int groups = 8;  // of 32 experts: lane l has expert l of every group
    const int lane = threadIdx.x % 32;
    const long long row = (long long)blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= t) return;
    const float none = -__int_as_float(0x7f800000);
    float scores[groups];
    float choices[groups];
    float group_scores[groups];
    for (int g = 0; g < groups; ++g) {
        scores[g] = 1.0f / (1.0f + expf(-logits[row * E + g * 32 + lane]));
        choices[g] = scores[g] + __bfloat162float(bias[g * 32 + lane]);
        float first = choices[g];
        int index = lane;
        warp_largest(first, index);
        float second = index == lane ? none : choices[g];
        index = lane;
        warp_largest(second, index);
        group_scores[g] = first + second;
    }
    for (int g = 0; g < groups; ++g) {
        int better = 0;
        for (int f = 0; f < groups; ++f) {
            better += group_scores[f] > group_scores[g] || (group_scores[f] == group_scores[g] && f < g);
        }
        if (better >= 4) choices[g] = none;
    }
    float sum = 0.0f;
    float mine = 0.0f;  // of the choice whose number is the lane's
    int my_index = 0;
    for (int i = 0; i < K; ++i) {
        float best = none;
        int index = E;
        for (int g = 0; g < groups; ++g) {
            if (choices[g] > best) {
                best = choices[g];
                index = g * 32 + lane;
            }
        }
        warp_largest(best, index);
        float score = 0.0f;
        for (int g = 0; g < groups; ++g) {
            if (index == g * 32 + lane) {
                score = scores[g];
                choices[g] = none;
            }
        }
        score = __shfl_sync(0xffffffffu, score, index % 32);
        sum += score;
        if (lane == i) {
            mine = score;
            my_index = index;
        }
    }
    if (lane < K) {
        topk_idx[row * K + lane] = my_index;
        topk_weight[row * K + lane] = mine / (sum + 1e-20f) * routed_scaling_factor;
    }
}
