// SPDX-License-Identifier: Apache-2.0
// Half of a warp goes to a barrier and the other half does not.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64>>>(x, y, 48)
// expect: barrier_divergence deadlock
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t < n) {
        __syncthreads();  // HERE
        s[t] += 1;
    }
    __syncthreads();  // HERE
    y[t] = s[63 - t];
}
