// SPDX-License-Identifier: Apache-2.0
// The loads of two branches, which the compiler makes one that has no line of its own: corrected.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y, 1)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y, int stride) {
    const int t = threadIdx.x;
    if (t > 40) {
        y[t] = x[t * stride] + 4;
    } else {
        y[t] = x[t * stride] * 3;
    }
}
