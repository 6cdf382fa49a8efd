// SPDX-License-Identifier: Apache-2.0
// Tiles of neighbouring blocks overlap by one column.
// buffer: x f32[256] input
// buffer: y f32[257] zeroed
// launch: k<<<4, 65>>>(x, y)
// expect: race
extern "C" __global__ void k(const float* x, float* y) {
    if (threadIdx.x <= 64) y[blockIdx.x * 64 + threadIdx.x] = x[0] + threadIdx.x;  // HERE
}
