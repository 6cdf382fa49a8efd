// SPDX-License-Identifier: Apache-2.0
// A column index with the stride of another tensor ends in neither of them.
// buffer: x f32[512] input
// buffer: y f32[128] output
// launch: k<<<4, 32>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    y[blockIdx.x * 32 + threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
}
