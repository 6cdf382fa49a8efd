// SPDX-License-Identifier: Apache-2.0
// Split-K in order: each block waits for its turn, adds to the output, and passes the turn on.
// buffer: x u32[1024] counting
// buffer: turn u32[1] zeroed
// buffer: y u32[32] output
// launch: k<<<8, 32>>>(x, turn, y)
// launch: k<<<8, 32>>>(x, turn, y)
// check: y[0] = 15872
// check: y[31] = 16864
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* turn, unsigned* y) {
    const int t = threadIdx.x;
    unsigned sum = 0;
    for (int i = 0; i < 4; ++i) sum += x[(blockIdx.x * 4 + i) * 32 + t];
    if (t == 0) {
        while (*reinterpret_cast<volatile unsigned*>(turn) != blockIdx.x) {
        }
        __threadfence();
    }
    __syncthreads();
    if (blockIdx.x == 0) {
        y[t] = sum;
    } else {
        y[t] += sum;
    }
    __threadfence();
    __syncthreads();
    if (t == 0) *reinterpret_cast<volatile unsigned*>(turn) = (blockIdx.x + 1) % gridDim.x;
}
