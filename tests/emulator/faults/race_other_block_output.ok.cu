// SPDX-License-Identifier: Apache-2.0
// A block reads what another block of the same launch writes.
// buffer: x f32[256] input
// buffer: y f32[256] zeroed
// buffer: z f32[256] output
// launch: k<<<4, 64>>>(x, y, z)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y, float* z) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = 2 * x[i];
    __syncthreads();
    z[i] = y[i ^ 63];
}
