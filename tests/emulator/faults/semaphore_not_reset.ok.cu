// SPDX-License-Identifier: Apache-2.0
// A semaphore keeps its count, so that the second launch does not wait for its own blocks.
// buffer: x f32[256] input
// buffer: partial f32[8] output
// buffer: count u32[1] zeroed
// buffer: y f32[1] output
// launch: k<<<8, 32>>>(x, partial, count, y)
// launch: k<<<8, 32>>>(x, partial, count, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* partial, unsigned* count, float* y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x != 0) return;
    if (blockIdx.x != 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        atomicAdd(count, 1u);
        return;
    }
    while (atomicAdd(count, 0u) < 7) {
    }
    __threadfence();
    for (int b = 1; b < 8; ++b) v += partial[b];
    y[0] = v;
    *count = 0;
}
