// SPDX-License-Identifier: Apache-2.0
// The barrier of the grid of a cooperative launch.
// buffer: y u32[256] output
// launch: k<<<4, 64, cooperative>>>(y)
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* y) {
    const unsigned i = blockIdx.x * 64 + threadIdx.x;
    cooperative_groups::this_grid().sync();
    y[i] = i;
}
