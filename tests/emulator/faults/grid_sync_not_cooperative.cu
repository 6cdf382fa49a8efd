// SPDX-License-Identifier: Apache-2.0
// The barrier of the grid of a launch that is not cooperative.
// buffer: y u32[256] output
// launch: k<<<4, 64>>>(y)
// expect: trap
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* y) {
    const unsigned i = blockIdx.x * 64 + threadIdx.x;
    cooperative_groups::this_grid().sync();  // HERE
    y[i] = i;
}
