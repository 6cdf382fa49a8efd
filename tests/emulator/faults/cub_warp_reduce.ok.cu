// SPDX-License-Identifier: Apache-2.0
// buffer: x u32[128] counting
// buffer: y u32[4] output
// launch: k<<<1, 128>>>(x, y)
// check: y[0] = 496
// check: y[3] = 3568
// expect: nothing
#include <cub/warp/warp_reduce.cuh>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    using Reduce = cub::WarpReduce<unsigned>;
    __shared__ typename Reduce::TempStorage storage[4];
    const int warp = threadIdx.x / 32;
    const unsigned sum = Reduce(storage[warp]).Sum(x[threadIdx.x]);
    if (threadIdx.x % 32 == 0) y[warp] = sum;
}
