// SPDX-License-Identifier: Apache-2.0
// A stencil reads left of the first element.
// buffer: x f32[128] input
// buffer: y f32[128] output
// launch: k<<<1, 128>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    const int i = threadIdx.x;
    y[i] = x[i] - x[i > 0 ? i - 1 : 0];
}
