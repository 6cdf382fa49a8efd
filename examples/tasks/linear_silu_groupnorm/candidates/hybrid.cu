//@kernelforge 1
//@valid align(b2) >= 16 && align(gamma) >= 16 && align(beta) >= 16 && align(y) >= 16
//@workspace h bf16 [M, N]
//@call matmul(D=h, A=x, B=w^T, bias=b1)
//@launch silu_groupnorm<<<(M), (N / 8)>>>(h, b2, gamma, beta, y)
#include <cuda_bf16.h>

// The library's product with its bias, rounded to bfloat16, and one kernel for the rest.
__device__ float group_sum(float value) {
    for (int step = 4; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

__device__ void load_8(const __nv_bfloat16* from, float (&to)[8]) {
    const uint4 words = *reinterpret_cast<const uint4*>(from);
    const __nv_bfloat162* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __bfloat1622float2(pairs[i]);
        to[2 * i] = pair.x;
        to[2 * i + 1] = pair.y;
    }
}

// A block a row, eight columns a thread, eight lanes a group.
extern "C" __global__ void __launch_bounds__(N / 8)
    silu_groupnorm(const __nv_bfloat16* h, const __nv_bfloat16* b2, const __nv_bfloat16* gamma,
                   const __nv_bfloat16* beta, __nv_bfloat16* y) {
    const int column = threadIdx.x * 8;
    const long long at = (long long)blockIdx.x * N + column;
    float values[8];
    float other[8];
    load_8(h + at, values);
    load_8(b2 + column, other);
    float sum = 0.0f;
    for (int j = 0; j < 8; ++j) {
        values[j] = values[j] / (1.0f + __expf(-values[j])) + other[j];
        sum += values[j];
    }
    const float mean = group_sum(sum) / 64.0f;
    float squares = 0.0f;
    for (int j = 0; j < 8; ++j) squares += (values[j] - mean) * (values[j] - mean);
    const float scale = rsqrtf(group_sum(squares) / 64.0f + 1e-5f);
    float shift[8];
    load_8(gamma + column, other);
    load_8(beta + column, shift);
    uint4 words;
    __nv_bfloat162* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
    for (int i = 0; i < 4; ++i) {
        pairs[i] = __floats2bfloat162_rn((values[2 * i] - mean) * scale * other[2 * i] + shift[2 * i],
                                         (values[2 * i + 1] - mean) * scale * other[2 * i + 1] + shift[2 * i + 1]);
    }
    *reinterpret_cast<uint4*>(y + at) = words;
}
