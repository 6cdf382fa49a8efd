// SPDX-License-Identifier: Apache-2.0
// A warp writes and exits; a barrier of 32 threads does not wait for it.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 64>>>(x, y)
// expect: race
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    const int t = threadIdx.x % 32;
    if (threadIdx.x < 32) s[t] = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        s[t] = x[t];  // HERE
        return;
    }
    asm volatile("bar.sync 1, 32;" ::: "memory");
    y[t] = s[31 - t];  // HERE
}
