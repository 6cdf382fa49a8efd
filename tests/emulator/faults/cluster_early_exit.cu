// SPDX-License-Identifier: Apache-2.0
// A block ends while its neighbour may still read its shared memory.
// buffer: y u32[2] output
// launch: k<<<2, 32, 0, cluster 2>>>(y)
// expect: out_of_bounds race
#include <cooperative_groups.h>
extern "C" __global__ void k(unsigned* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ unsigned s;
    if (threadIdx.x == 0) s = blockIdx.x;
    const volatile unsigned* first = cluster.map_shared_rank(&s, 0);
    cluster.sync();
    if (cluster.block_rank() == 1) {
        for (int i = 0; i < 2000; ++i) __nanosleep(100);
        if (threadIdx.x == 0) y[0] = *first;  // HERE
    }
}
