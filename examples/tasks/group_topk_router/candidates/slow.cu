//@kernelforge 1
//@workspace choices f32 [T, E]
//@workspace scores f32 [T, E]
//@launch project<<<(E / 16, cdiv(T, 16)), (16, 16)>>>(h, w, bias, scores, choices, T:i32)
//@launch route<<<(cdiv(T, 32)), (32)>>>(scores, choices, topk_idx, topk_weight, T:i32, routed_scaling_factor)
#include <cuda_bf16.h>

// Right, but without matrix instructions, and with one thread a token for all choices.
extern "C" __global__ void project(const __nv_bfloat16* h, const __nv_bfloat16* w, const __nv_bfloat16* bias,
                                   float* scores, float* choices, int t) {
    __shared__ float hs[16][17];
    __shared__ float ws[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int w_row = blockIdx.x * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int k0 = 0; k0 < H; k0 += 16) {
        hs[threadIdx.y][threadIdx.x] = row < t ? __bfloat162float(h[(long long)row * H + k0 + threadIdx.x]) : 0.0f;
        ws[threadIdx.y][threadIdx.x] = __bfloat162float(w[(long long)w_row * H + k0 + threadIdx.x]);
        __syncthreads();
        float part = 0.0f;
        for (int i = 0; i < 16; ++i) part += hs[threadIdx.y][i] * ws[threadIdx.x][i];
        sum += part;
        __syncthreads();
    }
    if (row >= t) return;
    const float score = 1.0f / (1.0f + expf(-sum));
    scores[(long long)row * E + column] = score;
    choices[(long long)row * E + column] = score + __bfloat162float(bias[column]);
}

extern "C" __global__ void route(const float* scores, float* choices, long long* topk_idx, float* topk_weight,
                                 int t, float routed_scaling_factor) {
    const long long row = blockIdx.x * 32 + threadIdx.x;
    if (row >= t) return;
    const float none = -__int_as_float(0x7f800000);
    float* choice = choices + row * E;
    float group_scores[8];
    for (int g = 0; g < 8; ++g) {
        float first = none;
        float second = none;
        for (int e = g * 32; e < g * 32 + 32; ++e) {
            if (choice[e] > first) {
                second = first;
                first = choice[e];
            } else if (choice[e] > second) {
                second = choice[e];
            }
        }
        group_scores[g] = first + second;
    }
    for (int g = 0; g < 8; ++g) {
        int better = 0;
        for (int f = 0; f < 8; ++f) {
            better += group_scores[f] > group_scores[g] || (group_scores[f] == group_scores[g] && f < g);
        }
        if (better < 4) continue;
        for (int e = g * 32; e < g * 32 + 32; ++e) choice[e] = none;
    }
    int chosen[K];
    float sum = 0.0f;
    for (int i = 0; i < K; ++i) {
        int best = 0;
        for (int e = 1; e < E; ++e) {
            if (choice[e] > choice[best]) best = e;
        }
        choice[best] = none;
        chosen[i] = best;
        sum += scores[row * E + best];
    }
    for (int i = 0; i < K; ++i) {
        topk_idx[row * K + i] = chosen[i];
        topk_weight[row * K + i] = scores[row * E + chosen[i]] / (sum + 1e-20f) * routed_scaling_factor;
    }
}
