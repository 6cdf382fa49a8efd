// SPDX-License-Identifier: Apache-2.0
// The kernel works in place on its input.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y)
// expect: read_only_write
extern "C" __global__ void k(float* x, float* y) {
    x[threadIdx.x] *= 2;  // HERE
    y[threadIdx.x] = x[threadIdx.x];
}
