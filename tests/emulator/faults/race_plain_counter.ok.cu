// SPDX-License-Identifier: Apache-2.0
// Blocks count in global memory without an atomic operation.
// buffer: counter u32[1] zeroed
// launch: k<<<16, 32>>>(counter)
// expect: nothing
extern "C" __global__ void k(unsigned* counter) {
    if (threadIdx.x == 0) {
        atomicAdd(counter, 1u);
    }
}
