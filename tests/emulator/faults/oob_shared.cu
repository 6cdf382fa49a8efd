// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory is a row shorter than what is used of it.
// buffer: x f32[64] input
// buffer: y f32[64] output
// launch: k<<<1, 64, 192>>>(x, y)
// expect: out_of_bounds
extern __shared__ float s[];
extern "C" __global__ void k(const float* x, float* y) {
    s[threadIdx.x] = x[threadIdx.x];  // HERE
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
