// SPDX-License-Identifier: Apache-2.0
// A block reads its neighbour's shared memory before the cluster has met.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<2, 32, 0, cluster 2>>>(x, y)
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(const float* x, float* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ float s[32];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 32 + t];
    cluster.sync();
    y[blockIdx.x * 32 + t] = *cluster.map_shared_rank(&s[t], cluster.block_rank() ^ 1);
    cluster.sync();
}
