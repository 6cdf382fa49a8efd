// SPDX-License-Identifier: Apache-2.0
// A row of shared memory is padded by one float and written two at a time.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 32>>>(x, y)
// expect: misaligned
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(8) float s[4 * 18];
    const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 2;
    constexpr int stride = 17;
    const float2 v = {x[row * 16 + column], x[row * 16 + column + 1]};
    *reinterpret_cast<float2*>(&s[row * stride + column]) = v;  // HERE
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x / 16 * stride + threadIdx.x % 16];
}
