// SPDX-License-Identifier: Apache-2.0
// An index into a local array comes from data and is far out of its range.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y, 3)
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y, int at) {
    unsigned a[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i] = x[(threadIdx.x + i) % 32];
    y[threadIdx.x] = a[at];
}
