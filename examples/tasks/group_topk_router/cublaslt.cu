//@kernelforge 1
//@workspace logits f32 [T, E]
//@call matmul(D=logits, A=h, B=w^T)
//@launch route<<<(cdiv(T, 8)), (256)>>>(logits, bias, topk_idx, topk_weight, T:i32, routed_scaling_factor)
#include <cuda_bf16.h>

// The library's matrix product, and one kernel for the rest, one warp a token.

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
