// SPDX-License-Identifier: Apache-2.0
// Blocks count into bins spread over the cluster's shared memory.
// buffer: x u32[256] counting
// buffer: y u32[16] output
// launch: k<<<2, 128, 0, cluster 2>>>(x, y)
// check: y[0] = 16
// check: y[15] = 16
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ unsigned bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    cluster.sync();
    const unsigned bin = x[blockIdx.x * 128 + threadIdx.x] % 16;
    atomicAdd(cluster.map_shared_rank(&bins[bin % 8], bin / 8), 1u);
    cluster.sync();
    if (threadIdx.x < 8) y[blockIdx.x * 8 + threadIdx.x] = bins[threadIdx.x];
}
