// SPDX-License-Identifier: Apache-2.0
// One warp takes another block's flag and hands it on within its block, whose fence is the block's.
// buffer: x u32[32] counting
// buffer: data u32[32] output
// buffer: flag u32[1] zeroed
// buffer: relay u32[2] zeroed
// buffer: y u32[32] output
// launch: k<<<2, 64>>>(x, data, flag, relay, y)
// check: y[31] = 31
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* data, unsigned* flag, unsigned* relay,
                             unsigned* y) {
    const int t = threadIdx.x % 32;
    if (blockIdx.x == 0) {
        if (threadIdx.x >= 32) return;
        data[t] = x[t];
        __threadfence();
        __syncwarp();
        if (t == 0) atomicExch(flag, 1u);
    } else if (threadIdx.x >= 32) {
        while (atomicAdd(flag, 0u) == 0) {
        }
        __threadfence();
        __syncwarp();
        if (t == 0) atomicExch(relay, 1u);
    } else {
        while (atomicAdd(relay, 0u) == 0) {
        }
        __threadfence_block();
        y[t] = data[t];
    }
}
