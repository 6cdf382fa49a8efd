// SPDX-License-Identifier: Apache-2.0
// Lanes go around a loop with a barrier different numbers of times.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[32];
    const int t = threadIdx.x;
    s[t] = x[t];
    const unsigned rounds = 4;
#pragma unroll 1
    for (unsigned i = 0; i < rounds; ++i) {
        __syncthreads();
        s[t] += 1;
    }
    __syncthreads();
    y[t] = s[31 - t];
}
