// SPDX-License-Identifier: Apache-2.0
// buffer: x u32[256] falling
// buffer: y u32[256] output
// launch: k<<<1, 64>>>(x, y)
// check: y[0] = 0
// check: y[100] = 100
// check: y[255] = 255
// expect: nothing
#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    using Sort = cub::BlockRadixSort<unsigned, 64, 4>;
    __shared__ typename Sort::TempStorage storage;
    unsigned keys[4];
    for (int i = 0; i < 4; ++i) keys[i] = x[threadIdx.x * 4 + i];
    Sort(storage).Sort(keys);
    for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = keys[i];
}
