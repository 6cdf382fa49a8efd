// SPDX-License-Identifier: Apache-2.0
// Partial sums are numbered from one in a workspace for as many as there are blocks.
// buffer: x f32[256] input
// buffer: w f32[8] output
// launch: k<<<8, 32>>>(x, w)
// expect: nothing
extern "C" __global__ void k(const float* x, float* w) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) w[blockIdx.x] = v;
}
