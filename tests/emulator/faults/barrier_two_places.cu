// SPDX-License-Identifier: Apache-2.0
// The halves of a warp wait at two barriers of the code.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y)
// expect: barrier_divergence
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t % 32 < 16) {
        s[t] += 1;
        __syncthreads();  // HERE
        y[t] = s[63 - t];
    } else {
        __syncthreads();  // HERE
        y[t] = 2 * s[63 - t];
    }
}
