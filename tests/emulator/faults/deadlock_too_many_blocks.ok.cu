// SPDX-License-Identifier: Apache-2.0
// A grid barrier of more blocks than the device holds at once.
// buffer: count u32[1] zeroed
// buffer: y u32[1] zeroed
// launch: k<<<132, 1024>>>(count, y)
// deadline: 4
// expect: nothing
extern "C" __global__ void k(unsigned* count, unsigned* y) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) {
            __nanosleep(100);
        }
        if (blockIdx.x == 0) y[0] = 1;
    }
    __syncthreads();
}
