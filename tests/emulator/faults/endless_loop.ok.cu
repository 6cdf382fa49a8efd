// SPDX-License-Identifier: Apache-2.0
// A search whose step may be zero.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y, 1)
// deadline: 2
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y, int step) {
    volatile int at = 0;
    while (at < 100) at += step;
    y[threadIdx.x] = x[threadIdx.x] + at;
}
