// SPDX-License-Identifier: Apache-2.0
// Blocks count in global memory without an atomic operation.
// buffer: counter u32[1] zeroed
// launch: k<<<16, 32>>>(counter)
// expect: race
extern "C" __global__ void k(unsigned* counter) {
    if (threadIdx.x == 0) {
        counter[0] += 1;  // HERE
    }
}
