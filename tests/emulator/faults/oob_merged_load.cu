// SPDX-License-Identifier: Apache-2.0
// The loads of two branches, which the compiler makes one that has no line of its own.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y, 3)
// expect: out_of_bounds
extern "C" __global__ void k(const float* x, float* y, int stride) {
    const int t = threadIdx.x;  // HERE
    if (t > 40) {  // HERE
        y[t] = x[t * stride] + 4;  // HERE
    } else {
        y[t] = x[t * stride] * 3;  // HERE
    }
}
