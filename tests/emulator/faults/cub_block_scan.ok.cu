// SPDX-License-Identifier: Apache-2.0
// buffer: x u32[256] ones
// buffer: y u32[256] output
// launch: k<<<1, 128>>>(x, y)
// check: y[0] = 0
// check: y[255] = 255
// expect: nothing
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    using Load = cub::BlockLoad<unsigned, 128, 2, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<unsigned, 128, cub::BLOCK_SCAN_WARP_SCANS>;
    using Store = cub::BlockStore<unsigned, 128, 2, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } s;
    unsigned v[2];
    Load(s.load).Load(x, v);
    __syncthreads();
    Scan(s.scan).ExclusiveSum(v, v);
    __syncthreads();
    Store(s.store).Store(y, v);
}
