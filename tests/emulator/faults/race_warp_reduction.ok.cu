// SPDX-License-Identifier: Apache-2.0
// The last steps of a tree within one warp, as they were written for the lockstep of old devices.
// buffer: x f32[64] input
// buffer: y f32[1] output
// launch: k<<<1, 64>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
#pragma unroll 1
        for (int step = 32; step > 0; step /= 2) {
            const float other = s[t + step];
            __syncwarp();
            s[t] += other;
            __syncwarp();
        }
    }
    if (t == 0) y[0] = s[0];
}
