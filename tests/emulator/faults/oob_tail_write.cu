// SPDX-License-Identifier: Apache-2.0
// Loads are guarded, stores are not.
// buffer: x f32[1000] input
// buffer: y f32[1000] output
// launch: k<<<8, 128>>>(x, y, 1000)
// expect: out_of_bounds
extern "C" __global__ void k(const float* x, float* y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    const float v = i < n ? x[i] : 0;
    y[i] = v;  // HERE
}
