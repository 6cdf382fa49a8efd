//@kernelforge 1
//@launch decode<<<(num_qo_heads, batch_size), (32)>>>(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, o, lse)
#include <cuda_bf16.h>

// Right, but a single warp walks over a whole sequence, and keys are read anew for every query head.
constexpr int shared_by = num_qo_heads / num_kv_heads;

extern "C" __global__ void decode(const __nv_bfloat16* q, const __nv_bfloat16* k_cache,
                                  const __nv_bfloat16* v_cache, const int* kv_indptr, const int* kv_indices,
                                  float sm_scale, __nv_bfloat16* o, float* lse) {
    const int head = blockIdx.x;
    const long long row = (long long)blockIdx.y * num_qo_heads + head;
    const int lane = threadIdx.x;
    float queries[4];
    float values[4] = {};
    for (int i = 0; i < 4; ++i) queries[i] = __bfloat162float(q[row * head_dim + lane + i * 32]);
    float most = -1e30f;
    float sum = 0.0f;
    for (int t = kv_indptr[blockIdx.y]; t < kv_indptr[blockIdx.y + 1]; ++t) {
        const long long from = ((long long)kv_indices[t] * num_kv_heads + head / shared_by) * head_dim;
        float logit = 0.0f;
        for (int i = 0; i < 4; ++i) logit += queries[i] * __bfloat162float(k_cache[from + lane + i * 32]);
        for (int step = 16; step > 0; step /= 2) logit += __shfl_xor_sync(0xffffffffu, logit, step);
        logit *= sm_scale;
        const float top = fmaxf(most, logit);
        const float scale = expf(most - top);
        const float p = expf(logit - top);
        most = top;
        sum = sum * scale + p;
        for (int i = 0; i < 4; ++i) {
            values[i] = values[i] * scale + p * __bfloat162float(v_cache[from + lane + i * 32]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        o[row * head_dim + lane + i * 32] = __float2bfloat16(sum > 0.0f ? values[i] / sum : 0.0f);
    }
    if (lane == 0) {
        lse[row] = sum > 0.0f ? (most + logf(sum)) * 1.4426950408889634f : -__int_as_float(0x7f800000);
    }
}
