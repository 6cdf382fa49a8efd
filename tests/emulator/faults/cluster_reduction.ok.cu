// SPDX-License-Identifier: Apache-2.0
// Four blocks of a cluster reduce through the shared memory of the first.
// buffer: x u32[256] counting
// buffer: y u32[2] output
// launch: k<<<8, 32, 0, cluster 4>>>(x, y)
// check: y[0] = 8128
// check: y[1] = 24512
// expect: nothing
#include <cooperative_groups.h>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    auto cluster = cooperative_groups::this_cluster();
    __shared__ unsigned s[4];
    const unsigned v = __reduce_add_sync(~0u, x[blockIdx.x * 32 + threadIdx.x]);
    if (threadIdx.x == 0) *cluster.map_shared_rank(&s[cluster.block_rank()], 0) = v;
    cluster.sync();
    if (cluster.block_rank() == 0 && threadIdx.x == 0) y[blockIdx.x / 4] = s[0] + s[1] + s[2] + s[3];
}
