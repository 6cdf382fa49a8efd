//@kernelforge 1
//@launch softmax_rows<<<(R), (512)>>>(x, y, C:i32)

// What one writes first: a block a row, three passes over it.
__device__ float block_reduce(float value, bool maximum) {
    __shared__ float partial[16];
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int i = 1; i < 16; ++i) value = maximum ? fmaxf(value, partial[i]) : value + partial[i];
    __syncthreads();
    return value;
}

extern "C" __global__ void softmax_rows(const float* x, float* y, int columns) {
    const float* in = x + (long long)blockIdx.x * columns;
    float* out = y + (long long)blockIdx.x * columns;
    float maximum = -INFINITY;
    for (int c = threadIdx.x; c < columns; c += 512) maximum = fmaxf(maximum, in[c]);
    maximum = block_reduce(maximum, true);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += 512) sum += expf(in[c] - maximum);
    sum = block_reduce(sum, false);
    for (int c = threadIdx.x; c < columns; c += 512) out[c] = expf(in[c] - maximum) / sum;
}
