// SPDX-License-Identifier: Apache-2.0
// Every block reads what the block before it wrote, with a barrier of the block between.
// buffer: w u32[512] zeroed
// buffer: y u32[512] output
// launch: k<<<8, 64, cooperative>>>(w, y)
// launch: k<<<8, 64, cooperative>>>(w, y)
// expect: race
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* w, unsigned* y) {
    const auto grid = cooperative_groups::this_grid();
    const unsigned i = grid.thread_rank();
    w[i] = i;  // HERE
    __syncthreads();
    y[i] = w[511 - i];  // HERE
    grid.sync();
    w[i] = 0;
}
