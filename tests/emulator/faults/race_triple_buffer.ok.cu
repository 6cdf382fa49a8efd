// SPDX-License-Identifier: Apache-2.0
// Stage i + 2 is filled before all have read the stage that it replaces.
// buffer: x f32[1024] input
// buffer: y f32[128] output
// launch: k<<<1, 128>>>(x, y, 8)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y, int rounds) {
    constexpr int stages = 3;
    __shared__ float s[stages][128];
    const int t = threadIdx.x;
    s[0][t] = x[t];
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        if (i + 1 < rounds) s[(i + 1) % stages][t] = x[(i + 1) * 128 + t];
        __syncthreads();
        sum += s[i % stages][(t + 32) % 128];
    }
    y[t] = sum;
}
