// SPDX-License-Identifier: Apache-2.0
// An index goes beyond a variable of the module.
// buffer: y u32[64] output
// launch: k<<<1, 64>>>(y)
// expect: out_of_bounds
__device__ unsigned table[32];
extern "C" __global__ void k(unsigned* y) {
    table[threadIdx.x] = threadIdx.x;  // HERE
    y[threadIdx.x] = table[threadIdx.x];
}
