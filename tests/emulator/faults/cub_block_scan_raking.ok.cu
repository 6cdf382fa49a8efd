// SPDX-License-Identifier: Apache-2.0
// buffer: x u32[128] ones
// buffer: y u32[128] output
// launch: k<<<1, 128>>>(x, y)
// check: y[127] = 128
// expect: nothing
#include <cub/block/block_scan.cuh>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    using Scan = cub::BlockScan<unsigned, 128, cub::BLOCK_SCAN_RAKING>;
    __shared__ typename Scan::TempStorage storage;
    unsigned v;
    Scan(storage).InclusiveSum(x[threadIdx.x], v);
    y[threadIdx.x] = v;
}
