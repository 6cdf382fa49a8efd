// SPDX-License-Identifier: Apache-2.0
// One block leaves before the barrier of the grid.
// buffer: w u32[256] output
// buffer: y u32[256] output
// launch: k<<<4, 64, cooperative>>>(w, y)
// expect: deadlock
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* w, unsigned* y) {
    const unsigned i = blockIdx.x * 64 + threadIdx.x;
    w[i] = i;
    if (blockIdx.x == 3) return;
    cooperative_groups::this_grid().sync();  // HERE
    y[i] = w[255 - i];
}
