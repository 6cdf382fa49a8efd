// SPDX-License-Identifier: Apache-2.0
// One block reads a counter plainly while others still count.
// buffer: count u32[1] zeroed
// buffer: y u32[64] output
// launch: k<<<64, 32>>>(count, y)
// expect: race
extern "C" __global__ void k(unsigned* count, unsigned* y) {
    if (threadIdx.x != 0) return;
    atomicAdd(count, 1u);  // HERE
    y[blockIdx.x] = *count;  // HERE
}
