// SPDX-License-Identifier: Apache-2.0
// The next round writes shared memory while slow warps still read the round before.
// buffer: x f32[1024] input
// buffer: y f32[128] output
// launch: k<<<1, 128>>>(x, y, 8)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y, int rounds) {
    __shared__ float s[128];
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        s[threadIdx.x] = x[i * 128 + threadIdx.x];
        __syncthreads();
        sum += s[(threadIdx.x + 32) % 128];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
