// SPDX-License-Identifier: Apache-2.0
// The halo of a tile is read where the edge of the tensor left it unset.
// buffer: x f32[128] input
// buffer: y f32[128] output
// launch: k<<<2, 64>>>(x, y)
// expect: uninitialised
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[66];
    const int i = blockIdx.x * 64 + threadIdx.x, t = threadIdx.x;
    s[t + 1] = x[i];
    if (t == 0 && i > 0) s[0] = x[i - 1];
    if (t == 63 && i < 127) s[65] = x[i + 1];
    __syncthreads();
    y[i] = s[t] + s[t + 1] + s[t + 2];  // HERE
}
