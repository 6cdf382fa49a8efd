// SPDX-License-Identifier: Apache-2.0
// A grid barrier of more blocks than the device holds at once.
// buffer: count u32[1] zeroed
// buffer: y u32[1] zeroed
// launch: k<<<600, 1024>>>(count, y)
// deadline: 4
// expect: deadlock endless
extern "C" __global__ void k(unsigned* count, unsigned* y) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1u);
        while (atomicAdd(count, 0u) < gridDim.x) {  // HERE
            __nanosleep(100);  // HERE
        }
        if (blockIdx.x == 0) y[0] = 1;
    }
    __syncthreads();
}
