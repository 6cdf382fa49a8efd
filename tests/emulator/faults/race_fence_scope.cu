// SPDX-License-Identifier: Apache-2.0
// A fence of the block's scope orders nothing for another block.
// buffer: x f32[64] input
// buffer: data f32[32] output
// buffer: flag u32[1] zeroed
// buffer: y f32[32] output
// launch: k<<<2, 32>>>(x, data, flag, y)
// expect: race
extern "C" __global__ void k(const float* x, float* data, unsigned* flag, float* y) {
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = x[t];  // HERE
        __threadfence_block();
        __syncwarp();
        if (t == 0) atomicExch(flag, 1u);
    } else {
        if (t == 0) {
            while (atomicAdd(flag, 0u) == 0) {
            }
        }
        __syncwarp();
        __threadfence();
        y[t] = data[t];  // HERE
    }
}
