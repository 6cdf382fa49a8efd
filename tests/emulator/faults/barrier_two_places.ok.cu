// SPDX-License-Identifier: Apache-2.0
// The warps of a block wait at two barriers of the code: barrier 0 is one.
// buffer: x u32[64] counting
// buffer: y u32[64] output
// launch: k<<<1, 64>>>(x, y)
// check: y[0] = 63
// check: y[63] = 2
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t < 32) {
        s[t] += 1;
        __syncthreads();
        y[t] = s[63 - t];
    } else {
        __syncthreads();
        y[t] = 2 * s[63 - t];
    }
}
