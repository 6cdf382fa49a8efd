// SPDX-License-Identifier: Apache-2.0
// Half of a warp has exited when the other half waits: exited threads count as arrived.
// buffer: x u32[64] counting
// buffer: y u32[16] output
// launch: k<<<1, 64>>>(x, y)
// check: y[0] = 63
// check: y[15] = 48
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t >= 16) return;
    __syncthreads();
    y[t] = s[63 - t];
}
