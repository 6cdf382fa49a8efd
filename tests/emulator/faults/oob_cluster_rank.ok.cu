// SPDX-License-Identifier: Apache-2.0
// A block asks for the shared memory of a block that its cluster does not have.
// buffer: y u32[2] output
// launch: k<<<2, 32, 0, cluster 2>>>(y)
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ unsigned s;
    if (threadIdx.x == 0) s = blockIdx.x;
    cluster.sync();
    if (threadIdx.x == 0) {
        y[blockIdx.x] = *cluster.map_shared_rank(&s, cluster.block_rank() ^ 1);
    }
    cluster.sync();
}
