// SPDX-License-Identifier: Apache-2.0
// buffer: x u32[512] counting
// buffer: y u32[2] output
// launch: k<<<2, 128>>>(x, y)
// check: y[0] = 32640
// check: y[1] = 98176
// expect: nothing
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    using Reduce = cub::BlockReduce<unsigned, 128>;
    __shared__ typename Reduce::TempStorage storage;
    const int i = blockIdx.x * 256 + threadIdx.x;
    const unsigned first = Reduce(storage).Sum(x[i]);
    __syncthreads();
    const unsigned second = Reduce(storage).Sum(x[i + 128]);
    if (threadIdx.x == 0) y[blockIdx.x] = first + second;
}
