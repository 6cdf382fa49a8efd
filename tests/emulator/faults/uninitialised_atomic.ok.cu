// SPDX-License-Identifier: Apache-2.0
// Blocks add to an output that nothing has set to zero.
// buffer: x f32[64] input
// buffer: y f32[1] zeroed
// launch: k<<<2, 32>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) atomicAdd(y, v);
}
