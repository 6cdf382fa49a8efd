// SPDX-License-Identifier: Apache-2.0
// A warp arrives at a named barrier without waiting and writes afterwards.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 64>>>(x, y)
// expect: race
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    const int t = threadIdx.x % 32;
    if (threadIdx.x < 32) s[t] = 0;
    __syncthreads();
    if (threadIdx.x >= 32) {
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        s[t] = x[t];  // HERE
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[t] = s[31 - t];  // HERE
    }
}
