// SPDX-License-Identifier: Apache-2.0
// Threads that have nothing to do leave before the barriers of the others.
// buffer: x u32[96] counting
// buffer: y u32[64] output
// launch: k<<<1, 96>>>(x, y)
// check: y[0] = 63
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[64];
    if (threadIdx.x >= 64) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
