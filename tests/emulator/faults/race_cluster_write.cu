// SPDX-License-Identifier: Apache-2.0
// Both blocks of a cluster write one element of the first one's shared memory.
// buffer: y u32[2] output
// launch: k<<<2, 32, 0, cluster 2>>>(y)
// expect: race
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ unsigned s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    cluster.sync();
    if (threadIdx.x == 0) {
        *cluster.map_shared_rank(&s[0], 0) = cluster.block_rank();  // HERE
    }
    cluster.sync();
    if (threadIdx.x == 0 && cluster.block_rank() == 0) y[0] = s[0] + s[1];
}
