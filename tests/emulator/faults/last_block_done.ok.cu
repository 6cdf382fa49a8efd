// SPDX-License-Identifier: Apache-2.0
// The last block to finish adds up what all have left, with __threadfence as the guide has it.
// buffer: x u32[1024] counting
// buffer: w u32[8] output
// buffer: count u32[1] zeroed
// buffer: y u32[1] output
// launch: k<<<8, 128>>>(x, w, count, y)
// launch: k<<<8, 128>>>(x, w, count, y)
// check: y[0] = 523776
// check: count[0] = 0
// expect: nothing
extern "C" __global__ void k(const unsigned* x, volatile unsigned* w, unsigned* count, unsigned* y) {
    __shared__ bool last;
    __shared__ unsigned s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, x[blockIdx.x * 128 + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        w[blockIdx.x] = s;
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    unsigned sum = 0;
    for (int i = 0; i < 8; ++i) sum += w[i];
    y[0] = sum;
}
