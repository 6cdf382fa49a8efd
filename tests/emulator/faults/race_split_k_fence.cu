// SPDX-License-Identifier: Apache-2.0
// The last block adds the partial sums of all, but no fence orders them before the counter.
// buffer: x f32[1024] input
// buffer: partial f32[256] output
// buffer: count u32[1] zeroed
// buffer: y f32[32] output
// launch: k<<<8, 32>>>(x, partial, count, y)
// expect: race
extern "C" __global__ void k(const float* x, float* partial, unsigned* count, float* y) {
    __shared__ bool last;
    const int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 4; ++i) sum += x[(blockIdx.x * 4 + i) * 32 + t];
    partial[blockIdx.x * 32 + t] = sum;  // HERE
    __syncthreads();
    if (t == 0) last = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float total = 0;
    for (int b = 0; b < 8; ++b) total += partial[b * 32 + t];  // HERE
    y[t] = total;
    if (t == 0) *count = 0;
}
