// SPDX-License-Identifier: Apache-2.0
// Blocks meet twice at a barrier of the whole grid made of one counter.
// buffer: count u32[1] zeroed
// buffer: w u32[512] output
// buffer: y u32[512] output
// launch: k<<<8, 64>>>(count, w, y)
// check: y[0] = 511
// check: y[511] = 0
// expect: nothing
__device__ void meet(unsigned* count, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*reinterpret_cast<volatile unsigned*>(count) < goal) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void k(unsigned* count, unsigned* w, unsigned* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    w[i] = i;
    meet(count, gridDim.x);
    const unsigned v = w[511 - i];
    meet(count, 2 * gridDim.x);
    w[i] = 0;
    y[i] = v;
}
