// SPDX-License-Identifier: Apache-2.0
// Lanes go around a loop with a barrier different numbers of times.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y)
// expect: barrier_divergence deadlock
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[32];
    const int t = threadIdx.x;
    s[t] = x[t];
    const unsigned rounds = x[t] % 4 + 1;
#pragma unroll 1
    for (unsigned i = 0; i < rounds; ++i) {
        __syncthreads();  // HERE
        s[t] += 1;
    }
    __syncthreads();  // HERE
    y[t] = s[31 - t];
}
