// SPDX-License-Identifier: Apache-2.0
// An optional tensor that was not given is read all the same.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 32>>>(x, null, y)
// expect: nothing
extern "C" __global__ void k(const float* x, const float* bias, float* y) {
    float v = x[threadIdx.x];
    if (bias != nullptr) v += bias[threadIdx.x];
    y[threadIdx.x] = v;
}
