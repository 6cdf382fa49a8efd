// SPDX-License-Identifier: Apache-2.0
// Every block reads what the block before it wrote, with a barrier of the grid between.
// buffer: w u32[512] zeroed
// buffer: y u32[512] output
// launch: k<<<8, 64, cooperative>>>(w, y)
// launch: k<<<8, 64, cooperative>>>(w, y)
// check: y[0] = 511
// check: y[511] = 0
// check: w[7] = 0
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* w, unsigned* y) {
    const auto grid = cooperative_groups::this_grid();
    const unsigned i = grid.thread_rank();
    w[i] = i;
    grid.sync();
    y[i] = w[511 - i];
    grid.sync();
    w[i] = 0;
}
