// SPDX-License-Identifier: Apache-2.0
// A named barrier waits for 96 threads of a block that has 64.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.sync 1, 64;" ::: "memory");
    y[threadIdx.x] = s[63 - threadIdx.x];
}
