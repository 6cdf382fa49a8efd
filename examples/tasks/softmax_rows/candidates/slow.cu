//@kernelforge 1
//@launch softmax_rows<<<(R), (32)>>>(x, y, C:i32)

// Right, but one warp takes a whole row, three times.
extern "C" __global__ void softmax_rows(const float* x, float* y, int columns) {
    const float* in = x + (long long)blockIdx.x * columns;
    float* out = y + (long long)blockIdx.x * columns;
    float maximum = -INFINITY;
    for (int c = threadIdx.x; c < columns; c += 32) maximum = fmaxf(maximum, in[c]);
    for (int step = 16; step > 0; step /= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, step));
    }
    // In pieces, since one sum of 12288 terms a lane would lose a digit.
    float sum = 0.0f;
    for (int first = threadIdx.x; first < columns; first += 32 * 128) {
        float piece = 0.0f;
        for (int c = first; c < min(columns, first + 32 * 128); c += 32) piece += expf(in[c] - maximum);
        sum += piece;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    for (int c = threadIdx.x; c < columns; c += 32) out[c] = expf(in[c] - maximum) / sum;
}
