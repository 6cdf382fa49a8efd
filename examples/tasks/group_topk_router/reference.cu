//@kernelforge 1
//@workspace logits f64 [T, E]
//@workspace magnitudes f32 [T, E]
//@workspace ties u8 [T, E]
//@launch project<<<(E / 32, cdiv(T, 32)), (32, 32)>>>(h, w, logits, magnitudes, T:i32)
//@launch route<<<(T), (256)>>>(logits, magnitudes, bias, topk_idx, topk_weight, ties, routed_scaling_factor)
#include <cuda_bf16.h>

// Logits in double, one thread each, with the sum of the magnitudes of their terms. Then one block a
// token, one thread an expert, every choice made by counting who is better.
extern "C" __global__ void project(const __nv_bfloat16* h, const __nv_bfloat16* w, double* logits,
                                   float* magnitudes, int t) {
    __shared__ float hs[32][33];
    __shared__ float ws[32][33];
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int w_row = blockIdx.x * 32 + threadIdx.y;
    double sum = 0.0;
    float magnitude = 0.0f;
    for (int k0 = 0; k0 < H; k0 += 32) {
        hs[threadIdx.y][threadIdx.x] = row < t ? __bfloat162float(h[(long long)row * H + k0 + threadIdx.x]) : 0.0f;
        ws[threadIdx.y][threadIdx.x] = __bfloat162float(w[(long long)w_row * H + k0 + threadIdx.x]);
        __syncthreads();
        for (int i = 0; row < t && i < 32; ++i) {
            const float product = hs[threadIdx.y][i] * ws[threadIdx.x][i];  // exact
            sum += double(product);
            magnitude += fabsf(product);
        }
        __syncthreads();
    }
    if (row >= t) return;
    logits[(long long)row * E + column] = sum;
    magnitudes[(long long)row * E + column] = magnitude;
}

// How far two scores may be apart and still be called a tie: 1e-5, or what fp32 sums of that
// magnitude cannot tell apart.
__device__ double margin(double a, double b) { return fmax(1e-5, fmax(a, b)); }

extern "C" __global__ void route(const double* logits, const float* magnitudes, const __nv_bfloat16* bias,
                                 long long* topk_idx, float* topk_weight, unsigned char* ties,
                                 float routed_scaling_factor) {
    constexpr int groups = 8;
    constexpr int group_size = E / groups;
    constexpr int groups_kept = 4;
    __shared__ double choice[E];
    __shared__ double error[E];
    __shared__ double group_score[groups];
    __shared__ double group_error[groups];
    __shared__ bool kept[groups];
    __shared__ bool certain[groups];   // is kept whatever the rounding
    __shared__ bool possible[groups];  // may be kept
    __shared__ double chosen[K];
    const int e = threadIdx.x;
    const int group = e / group_size;
    const double s = 1.0 / (1.0 + exp(-logits[(long long)blockIdx.x * E + e]));
    const double magnitude = magnitudes[(long long)blockIdx.x * E + e];
    constexpr double unit = 1.0 / 2097152.0;  // 2^-21: eight roundings to fp32
    choice[e] = s + double(__bfloat162float(bias[e]));
    error[e] = unit * (magnitude * s * (1.0 - s) + fabs(choice[e]));
    __syncthreads();

    if (e < groups) {
        int best = e * group_size;
        for (int f = best + 1; f < (e + 1) * group_size; ++f) {
            if (choice[f] > choice[best]) best = f;
        }
        int second = -1;
        for (int f = e * group_size; f < (e + 1) * group_size; ++f) {
            if (f != best && (second < 0 || choice[f] > choice[second])) second = f;
        }
        group_score[e] = choice[best] + choice[second];
        group_error[e] = error[best] + error[second];
    }
    __syncthreads();
    if (e < groups) {
        int better = 0;
        int surely_better = 0;
        int maybe_better = 0;
        for (int f = 0; f < groups; ++f) {
            if (f == e) continue;
            const double ahead = group_score[f] - group_score[e];
            const double least = margin(group_error[e], group_error[f]);
            better += ahead > 0.0 || (ahead == 0.0 && f < e);
            surely_better += ahead > least;
            maybe_better += ahead >= -least;
        }
        kept[e] = better < groups_kept;
        certain[e] = maybe_better < groups_kept;
        possible[e] = surely_better < groups_kept;
    }
    __syncthreads();

    int better = 0;
    int surely_better = 0;
    int maybe_better = 0;
    for (int f = 0; f < E; ++f) {
        if (f == e) continue;
        const double ahead = choice[f] - choice[e];
        const double least = margin(error[e], error[f]);
        better += kept[f / group_size] && (ahead > 0.0 || (ahead == 0.0 && f < e));
        surely_better += certain[f / group_size] && ahead > least;
        maybe_better += possible[f / group_size] && ahead >= -least;
    }
    const bool surely_in = certain[group] && maybe_better < K;
    const bool surely_out = !possible[group] || surely_better >= K;
    ties[(long long)blockIdx.x * E + e] = !surely_in && !surely_out;

    const bool in = kept[group] && better < K;
    if (in) chosen[better] = s;
    __syncthreads();
    if (!in) return;
    double sum = 1e-20;
    for (int i = 0; i < K; ++i) sum += chosen[i];
    topk_idx[(long long)blockIdx.x * K + better] = e;
    topk_weight[(long long)blockIdx.x * K + better] = float(s / sum * double(routed_scaling_factor));
}
