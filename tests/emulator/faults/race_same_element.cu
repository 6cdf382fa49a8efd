// SPDX-License-Identifier: Apache-2.0
// Two threads of a block write one element of the output.
// buffer: x f32[128] input
// buffer: y f32[128] output
// launch: k<<<1, 128>>>(x, y)
// expect: race
extern "C" __global__ void k(const float* x, float* y) {
    const int t = threadIdx.x;
    y[t / 64 * 64 + t % 32] = x[t];  // HERE
}
