// SPDX-License-Identifier: Apache-2.0
// A value of another warp is read from shared memory without a barrier after its write.
// buffer: x f32[256] input
// buffer: y f32[256] output
// launch: k<<<1, 256>>>(x, y)
// expect: race uninitialised
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];  // HERE
    y[threadIdx.x] = s[255 - threadIdx.x];  // HERE
}
