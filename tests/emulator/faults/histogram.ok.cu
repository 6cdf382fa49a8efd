// SPDX-License-Identifier: Apache-2.0
// Private bins in shared memory, merged into global ones.
// buffer: x u32[1024] counting
// buffer: y u32[16] zeroed
// launch: k<<<4, 256>>>(x, y)
// check: y[0] = 64
// check: y[15] = 64
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[x[blockIdx.x * 256 + threadIdx.x] % 16], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&y[threadIdx.x], bins[threadIdx.x]);
}
