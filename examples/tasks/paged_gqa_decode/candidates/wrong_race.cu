//@kernelforge 1
//@let splits = max(1, min(32, cdiv(4 * SMS, batch_size * num_kv_heads)))
//@workspace part f32 [batch_size, num_qo_heads, splits, head_dim]
//@workspace part_ml f32 [batch_size, num_qo_heads, splits, 2]
//@launch decode<<<(splits, num_kv_heads, batch_size), (128)>>>(q, k_cache, v_cache, kv_indptr, kv_indices, \
//@    sm_scale, part, part_ml)
//@launch combine<<<(num_qo_heads, batch_size), (128)>>>(kv_indptr, part, part_ml, o, lse, splits:i32)
#include <cuda_bf16.h>

// Wrong: the barriers around the tokens in shared memory are missing.
constexpr int shared_by = num_qo_heads / num_kv_heads;

extern "C" __global__ void __launch_bounds__(128)
    decode(const __nv_bfloat16* q, const __nv_bfloat16* k_cache, const __nv_bfloat16* v_cache,
           const int* kv_indptr, const int* kv_indices, float sm_scale, float* part, float* part_ml) {
    __shared__ float ks[32][129];
    __shared__ float vs[32][128];
    __shared__ float qs[4][128];
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int head = blockIdx.y * shared_by + warp;
    const int start = kv_indptr[blockIdx.z];
    const int tokens = kv_indptr[blockIdx.z + 1] - start;
    const int each = (tokens + gridDim.x - 1) / gridDim.x;
    const int first = start + min(tokens, (int)blockIdx.x * each);
    const int last = start + min(tokens, ((int)blockIdx.x + 1) * each);
    const long long row = (long long)blockIdx.z * num_qo_heads + head;
    for (int i = 0; i < 4; ++i) {
        qs[warp][lane + i * 32] = __bfloat162float(q[row * head_dim + lane + i * 32]) * sm_scale;
    }
    float most = -1e30f;
    float sum = 0.0f;
    float values[4] = {};
    for (int base = first; base < last; base += 32) {
        const int count = min(32, last - base);
        for (int i = warp; i < count; i += 4) {
            const long long from = ((long long)kv_indices[base + i] * num_kv_heads + blockIdx.y) * head_dim;
            for (int d = lane; d < head_dim; d += 32) {
                ks[i][d] = __bfloat162float(k_cache[from + d]);
                vs[i][d] = __bfloat162float(v_cache[from + d]);
            }
        }
        float logit = -1e30f;
        if (lane < count) {
            logit = 0.0f;
            for (int d = 0; d < head_dim; ++d) logit += qs[warp][d] * ks[lane][d];
        }
        float top = logit;
        for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
        top = fmaxf(top, most);
        const float scale = expf(most - top);
        const float p = lane < count ? expf(logit - top) : 0.0f;
        float added = p;
        for (int step = 16; step > 0; step /= 2) added += __shfl_xor_sync(0xffffffffu, added, step);
        sum = sum * scale + added;
        most = top;
        for (int i = 0; i < 4; ++i) values[i] *= scale;
        for (int t = 0; t < count; ++t) {
            const float factor = __shfl_sync(0xffffffffu, p, t);
            for (int i = 0; i < 4; ++i) values[i] += factor * vs[t][lane + i * 32];
        }
    }
    const long long slot = row * gridDim.x + blockIdx.x;
    for (int i = 0; i < 4; ++i) part[slot * head_dim + lane + i * 32] = values[i];
    if (lane == 0) {
        part_ml[slot * 2] = most;
        part_ml[slot * 2 + 1] = sum;
    }
}

extern "C" __global__ void combine(const int* kv_indptr, const float* part, const float* part_ml,
                                   __nv_bfloat16* o, float* lse, int splits) {
    const long long row = (long long)blockIdx.y * num_qo_heads + blockIdx.x;
    if (kv_indptr[blockIdx.y] >= kv_indptr[blockIdx.y + 1]) {
        o[row * head_dim + threadIdx.x] = __float2bfloat16(0.0f);
        if (threadIdx.x == 0) lse[row] = -__int_as_float(0x7f800000);
        return;
    }
    float most = -1e30f;
    for (int s = 0; s < splits; ++s) most = fmaxf(most, part_ml[(row * splits + s) * 2]);
    float sum = 0.0f;
    float value = 0.0f;
    for (int s = 0; s < splits; ++s) {
        const float scale = expf(part_ml[(row * splits + s) * 2] - most);
        sum += scale * part_ml[(row * splits + s) * 2 + 1];
        value += scale * part[(row * splits + s) * head_dim + threadIdx.x];
    }
    o[row * head_dim + threadIdx.x] = __float2bfloat16(value / sum);
    if (threadIdx.x == 0) lse[row] = (most + logf(sum)) * 1.4426950408889634f;
}
