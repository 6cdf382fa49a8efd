//@kernelforge 1
//@workspace logits f64 [num_kv_indices, num_qo_heads]
//@launch score<<<(num_kv_indices), (256)>>>(q, k_cache, kv_indptr, kv_indices, sm_scale, logits, batch_size:i32)
//@launch combine<<<(num_qo_heads, batch_size), (128)>>>(v_cache, kv_indptr, kv_indices, logits, o, lse)
#include <cuda_bf16.h>

// Logits of one token by one block, then one block a query head of a sequence; all in double.
constexpr int shared_by = num_qo_heads / num_kv_heads;

extern "C" __global__ void score(const __nv_bfloat16* q, const __nv_bfloat16* k_cache, const int* kv_indptr,
                                 const int* kv_indices, float sm_scale, double* logits, int batch) {
    const int token = blockIdx.x;
    int sequence = 0;
    while (sequence + 1 < batch && kv_indptr[sequence + 1] <= token) ++sequence;
    const int lane = threadIdx.x % 32;
    for (int head = threadIdx.x / 32; head < num_qo_heads; head += 8) {
        const __nv_bfloat16* left = q + ((long long)sequence * num_qo_heads + head) * head_dim;
        const __nv_bfloat16* right =
            k_cache + ((long long)kv_indices[token] * num_kv_heads + head / shared_by) * head_dim;
        double sum = 0.0;
        for (int d = lane; d < head_dim; d += 32) {
            sum += double(__bfloat162float(left[d])) * double(__bfloat162float(right[d]));
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) logits[(long long)token * num_qo_heads + head] = sum * double(sm_scale);
    }
}

extern "C" __global__ void combine(const __nv_bfloat16* v_cache, const int* kv_indptr, const int* kv_indices,
                                   const double* logits, __nv_bfloat16* o, float* lse) {
    __shared__ double shared[128];
    const int head = blockIdx.x;
    const int first = kv_indptr[blockIdx.y];
    const int last = kv_indptr[blockIdx.y + 1];
    const long long row = (long long)blockIdx.y * num_qo_heads + head;
    if (first >= last) {
        o[row * head_dim + threadIdx.x] = __float2bfloat16(0.0f);
        if (threadIdx.x == 0) lse[row] = -__int_as_float(0x7f800000);
        return;
    }
    double most = -1e300;
    for (int i = first + threadIdx.x; i < last; i += 128) {
        most = fmax(most, logits[(long long)i * num_qo_heads + head]);
    }
    shared[threadIdx.x] = most;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = fmax(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    most = shared[0];
    double sum = 0.0;
    double value = 0.0;
    for (int base = first; base < last; base += 128) {
        const int count = min(128, last - base);
        __syncthreads();
        if (threadIdx.x < count) {
            shared[threadIdx.x] = exp(logits[(long long)(base + threadIdx.x) * num_qo_heads + head] - most);
        }
        __syncthreads();
        for (int i = 0; i < count; ++i) {
            const long long page = kv_indices[base + i];
            const __nv_bfloat16* v = v_cache + (page * num_kv_heads + head / shared_by) * head_dim;
            sum += shared[i];
            value += shared[i] * double(__bfloat162float(v[threadIdx.x]));
        }
    }
    o[row * head_dim + threadIdx.x] = __float2bfloat16(float(value / sum));
    if (threadIdx.x == 0) lse[row] = float((most + log(sum)) * 1.4426950408889634);
}
