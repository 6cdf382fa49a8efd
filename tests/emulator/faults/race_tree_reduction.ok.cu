// SPDX-License-Identifier: Apache-2.0
// A tree over a block whose levels are not separated by a barrier.
// buffer: x f32[256] input
// buffer: y f32[1] output
// launch: k<<<1, 256>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
#pragma unroll 1
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
