// SPDX-License-Identifier: Apache-2.0
// Lanes exchange values through shared memory and count on running in step.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 32>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x ^ 1];
}
