// SPDX-License-Identifier: Apache-2.0
// The kernel traps on what it does not support.
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(y, 3)
// expect: trap
extern "C" __global__ void k(unsigned* y, int width) {
    if (width % 4 != 0) __trap();  // HERE
    y[threadIdx.x] = width;
}
