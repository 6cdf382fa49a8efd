// SPDX-License-Identifier: Apache-2.0
// An assertion of the kernel fails in one thread.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y, 31)
// expect: assertion
extern "C" __global__ void k(const unsigned* x, unsigned* y, int n) {
    assert(threadIdx.x < n);  // HERE
    y[threadIdx.x] = x[threadIdx.x];
}
