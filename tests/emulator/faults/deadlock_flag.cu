// SPDX-License-Identifier: Apache-2.0
// A block waits for a flag that no one sets.
// buffer: flag u32[1] zeroed
// buffer: y u32[2] output
// launch: k<<<2, 32>>>(flag, y)
// deadline: 2
// expect: deadlock endless
extern "C" __global__ void k(unsigned* flag, unsigned* y) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 1) {
        while (atomicAdd(flag, 0u) == 0) {  // HERE
        }
    } else {
        atomicAdd(flag, 0u);
    }
    y[blockIdx.x] = 1;
}
