// SPDX-License-Identifier: Apache-2.0
// An index goes beyond a variable of the module.
// buffer: y u32[64] output
// launch: k<<<1, 64>>>(y)
// expect: nothing
__device__ unsigned table[32];
extern "C" __global__ void k(unsigned* y) {
    if (threadIdx.x < 32) table[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = threadIdx.x < 32 ? table[threadIdx.x] : 0;
}
