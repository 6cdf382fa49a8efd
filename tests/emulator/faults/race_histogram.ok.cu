// SPDX-License-Identifier: Apache-2.0
// Threads count in bins of shared memory without atomics.
// buffer: x u32[256] input
// buffer: y u32[16] output
// launch: k<<<1, 256>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[threadIdx.x] % 16], 1u);
    __syncthreads();
    if (threadIdx.x < 16) y[threadIdx.x] = bins[threadIdx.x];
}
