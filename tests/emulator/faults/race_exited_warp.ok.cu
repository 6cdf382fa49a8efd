// SPDX-License-Identifier: Apache-2.0
// A warp writes and exits; a barrier of all threads has it arrived.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 64>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    const int t = threadIdx.x % 32;
    if (threadIdx.x < 32) s[t] = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        s[t] = x[t];
        return;
    }
    __syncthreads();
    y[t] = s[31 - t];
}
