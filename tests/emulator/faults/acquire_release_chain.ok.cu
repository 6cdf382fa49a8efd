// SPDX-License-Identifier: Apache-2.0
// Blocks hand a buffer around with release and acquire operations, without fences.
// buffer: turn u32[1] zeroed
// buffer: w u32[32] zeroed
// buffer: y u32[32] output
// launch: k<<<6, 32>>>(turn, w, y)
// check: y[0] = 6
// expect: nothing
extern "C" __global__ void k(unsigned* turn, unsigned* w, unsigned* y) {
    const int t = threadIdx.x;
    if (t == 0) {
        unsigned now = ~0u;
        while (now != blockIdx.x) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
        }
    }
    __syncthreads();
    w[t] += 1;
    if (blockIdx.x == gridDim.x - 1) y[t] = w[t];
    __syncthreads();
    if (t == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(turn) : "memory");
}
