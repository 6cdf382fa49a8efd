// SPDX-License-Identifier: Apache-2.0
// The output is added to as though it were zero.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y)
// expect: uninitialised
extern "C" __global__ void k(const float* x, float* y) {
    y[threadIdx.x] += x[threadIdx.x];  // HERE
}
