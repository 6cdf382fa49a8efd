// SPDX-License-Identifier: Apache-2.0
// Two buffers and one barrier a round suffice, but here the barrier stands before the write.
// buffer: x f32[1024] input
// buffer: y f32[128] output
// launch: k<<<1, 128>>>(x, y, 8)
// expect: race uninitialised
extern "C" __global__ void k(const float* x, float* y, int rounds) {
    __shared__ float s[2][128];
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        __syncthreads();
        s[i & 1][threadIdx.x] = x[i * 128 + threadIdx.x];  // HERE
        sum += s[i & 1][(threadIdx.x + 64) % 128];  // HERE
    }
    y[threadIdx.x] = sum;
}
