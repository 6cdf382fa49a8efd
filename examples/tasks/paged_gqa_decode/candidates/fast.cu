//@kernelforge 1
//@requires sm_80
//@valid align(q) >= 16 && align(k_cache) >= 16 && align(v_cache) >= 16
//@tune WAVES = 2 3 4
//@let chunk = max(16, cdiv(cdiv(num_kv_indices, WAVES * SMS), 8) * 8)
//@let chunks = cdiv(num_kv_indices, chunk)
//@workspace part f32 [chunks + batch_size, num_qo_heads, head_dim]
//@workspace part_ml f32 [chunks + batch_size, num_qo_heads, 2]
//@launch decode<<<(chunks), (256)>>>(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale, part, part_ml, \
//@    batch_size:i32, num_kv_indices:i32, chunk:i32)
//@launch combine<<<(num_qo_heads, batch_size), (128)>>>(kv_indptr, part, part_ml, o, lse, chunk:i32)
#include <cuda_bf16.h>

// The list of pages is cut into equal chunks without regard to sequences, so that blocks have the same
// work however long the sequences are. A block takes all heads of its chunk: pages are read whole, and
// a warp takes one key/value head with its four query heads. Half a warp holds a token, 8 channels a
// lane. Each (sequence, chunk) pair that meets has a slot of its own, chunk + sequence, for its part of
// the result; a second kernel joins the slots of a sequence.
constexpr int shared_by = num_qo_heads / num_kv_heads;
constexpr int at_once = 4;  // tokens of half a warp that are loaded together
static_assert(2 * at_once == 8 && shared_by == 4 && num_kv_heads == 8 && head_dim == 128 && page_size == 1, "");

// 2^value, to two units in the last place.
__device__ float power_of_two(float value) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

__device__ void unpack(float (&to)[8], const uint4& from) {
    const unsigned words[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}

// Sums of four values over the 16 lanes of a half warp; lane l gets that of value (l >> 2) & 3.
__device__ float sum_of_mine(const float (&v)[4], int lane) {
    const bool upper = lane & 8;
    const float a = (upper ? v[2] : v[0]) + __shfl_xor_sync(0xffffffffu, upper ? v[0] : v[2], 8);
    const float b = (upper ? v[3] : v[1]) + __shfl_xor_sync(0xffffffffu, upper ? v[1] : v[3], 8);
    const bool odd = lane & 4;
    float c = (odd ? b : a) + __shfl_xor_sync(0xffffffffu, odd ? a : b, 4);
    c += __shfl_xor_sync(0xffffffffu, c, 2);
    c += __shfl_xor_sync(0xffffffffu, c, 1);
    return c;
}

extern "C" __global__ void __launch_bounds__(256, 2)
    decode(const __nv_bfloat16* __restrict__ q, const uint4* __restrict__ k_cache,
           const uint4* __restrict__ v_cache, const int* __restrict__ kv_indptr,
           const int* __restrict__ kv_indices, float sm_scale, float* __restrict__ part,
           float* __restrict__ part_ml, int batch, int total, int chunk) {
    const int kv_head = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int half = lane / 16;
    const int column = lane % 16;
    const int start = blockIdx.x * chunk;
    const int end = min(start + chunk, total);

    // The last sequence that begins at or before `start`.
    int begun = 0;
    for (int base = 0; base < batch; base += 256) {
        const int i = base + threadIdx.x;
        begun += __syncthreads_count(i < batch && kv_indptr[i] <= start);
    }
    int first = start;
    for (int sequence = begun - 1; first < end; ++sequence) {
        const int last = min(end, kv_indptr[sequence + 1]);
        if (first >= last) continue;
        float queries[4][8];
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const long long row = (long long)sequence * num_qo_heads + kv_head * 4 + h;
            unpack(queries[h], *reinterpret_cast<const uint4*>(q + row * head_dim + column * 8));
#pragma unroll
            for (int i = 0; i < 8; ++i) queries[h][i] *= sm_scale * 1.4426950408889634f;
        }
        float values[4][8] = {};
        float most = -1e30f;  // of head (lane >> 2) & 3, and of this half warp's tokens
        float sum = 0.0f;
        int next_page = __ldg(kv_indices + min(first + lane % 8, last - 1));
        for (int token = first; token < last; token += 2 * at_once) {
            const int page = next_page;  // of token + lane % 8
            next_page = __ldg(kv_indices + min(token + 2 * at_once + lane % 8, last - 1));
            uint4 keys[at_once];
            uint4 raw_values[at_once];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const int mine = __shfl_sync(0xffffffffu, page, 2 * i + half);
                const long long from = ((long long)mine * num_kv_heads + kv_head) * 16;
                keys[i] = __ldcs(k_cache + from + column);
                raw_values[i] = __ldcs(v_cache + from + column);
            }
            float logits[at_once];
            float top = most;
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                float key[8];
                unpack(key, keys[i]);
                float dots[4];
#pragma unroll
                for (int h = 0; h < 4; ++h) {
                    dots[h] = queries[h][0] * key[0];
#pragma unroll
                    for (int d = 1; d < 8; ++d) dots[h] += queries[h][d] * key[d];
                }
                logits[i] = sum_of_mine(dots, lane);
                if (token + 2 * i + half >= last) logits[i] = -__int_as_float(0x7f800000);
                top = fmaxf(top, logits[i]);
            }
            const float scale = power_of_two(most - top);
            most = top;
            sum *= scale;
#pragma unroll
            for (int h = 0; h < 4; ++h) {
                const float factor = __shfl_sync(0xffffffffu, scale, (lane & 16) | h * 4);
#pragma unroll
                for (int d = 0; d < 8; ++d) values[h][d] *= factor;
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const float p = power_of_two(logits[i] - most);
                sum += p;
                float value[8];
                unpack(value, raw_values[i]);
#pragma unroll
                for (int h = 0; h < 4; ++h) {
                    const float factor = __shfl_sync(0xffffffffu, p, (lane & 16) | h * 4);
#pragma unroll
                    for (int d = 0; d < 8; ++d) values[h][d] += factor * value[d];
                }
            }
        }
        // Both halves together; then one half writes.
        const float other = __shfl_xor_sync(0xffffffffu, most, 16);
        const float top = fmaxf(most, other);
        const float scale = power_of_two(most - top);
        sum *= scale;
        sum += __shfl_xor_sync(0xffffffffu, sum, 16);
        const long long slot = ((long long)blockIdx.x + sequence) * num_qo_heads + kv_head * 4;
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const float factor = __shfl_sync(0xffffffffu, scale, (lane & 16) | h * 4);
#pragma unroll
            for (int d = 0; d < 8; ++d) {
                values[h][d] *= factor;
                values[h][d] += __shfl_xor_sync(0xffffffffu, values[h][d], 16);
            }
            if (half == 0) {
                float4* to = reinterpret_cast<float4*>(part + (slot + h) * head_dim + column * 8);
                to[0] = make_float4(values[h][0], values[h][1], values[h][2], values[h][3]);
                to[1] = make_float4(values[h][4], values[h][5], values[h][6], values[h][7]);
            }
        }
        if (half == 0 && lane % 4 == 0) {
            part_ml[(slot + lane / 4) * 2] = top;
            part_ml[(slot + lane / 4) * 2 + 1] = sum;
        }
        first = last;
    }
}

extern "C" __global__ void __launch_bounds__(128)
    combine(const int* __restrict__ kv_indptr, const float* __restrict__ part,
            const float* __restrict__ part_ml, __nv_bfloat16* __restrict__ o, float* __restrict__ lse,
            int chunk) {
    const int head = blockIdx.x;
    const int sequence = blockIdx.y;
    const long long row = (long long)sequence * num_qo_heads + head;
    const int first = kv_indptr[sequence];
    const int last = kv_indptr[sequence + 1];
    if (first >= last) {
        o[row * head_dim + threadIdx.x] = __float2bfloat16(0.0f);
        if (threadIdx.x == 0) lse[row] = -__int_as_float(0x7f800000);
        return;
    }
    const int first_slot = first / chunk + sequence;
    const int last_slot = (last - 1) / chunk + sequence;
    __shared__ float maxima[4];
    float most = -1e30f;
    for (int s = first_slot + (int)threadIdx.x; s <= last_slot; s += 128) {
        most = fmaxf(most, part_ml[((long long)s * num_qo_heads + head) * 2]);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
    float sum = 0.0f;
    float value = 0.0f;
#pragma unroll 4
    for (int s = first_slot; s <= last_slot; ++s) {
        const long long slot = (long long)s * num_qo_heads + head;
        const float2 ml = *reinterpret_cast<const float2*>(part_ml + slot * 2);
        const float scale = power_of_two(ml.x - most);
        sum += scale * ml.y;
        value += scale * part[slot * head_dim + threadIdx.x];
    }
    o[row * head_dim + threadIdx.x] = __float2bfloat16(value / sum);
    if (threadIdx.x == 0) lse[row] = most + log2f(sum);
}
