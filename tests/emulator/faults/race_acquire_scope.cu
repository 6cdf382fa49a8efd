// SPDX-License-Identifier: Apache-2.0
// A thread waits for another block's flag and fences for its own block only.
// buffer: x f32[32] input
// buffer: data f32[32] output
// buffer: flag u32[1] zeroed
// buffer: y f32[32] output
// launch: k<<<2, 32>>>(x, data, flag, y)
// expect: race
extern "C" __global__ void k(const float* x, float* data, unsigned* flag, float* y) {
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = x[t];  // HERE
        __threadfence();
        __syncwarp();
        if (t == 0) atomicExch(flag, 1u);
    } else {
        while (atomicAdd(flag, 0u) == 0) {
        }
        __threadfence_block();
        y[t] = data[t];  // HERE
    }
}
