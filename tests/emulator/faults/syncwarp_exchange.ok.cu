// SPDX-License-Identifier: Apache-2.0
// Lanes exchange through shared memory, many times, with warp synchronisation alone.
// buffer: x u32[128] counting
// buffer: y u32[128] output
// launch: k<<<1, 128>>>(x, y)
// check: y[0] = 5
// check: y[33] = 38
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[128];
    const int t = threadIdx.x, base = t / 32 * 32;
    unsigned v = x[t];
#pragma unroll 1
    for (int i = 0; i < 5; ++i) {
        s[t] = v;
        __syncwarp();
        v = s[base + (t + 1) % 32];
        __syncwarp();
    }
    y[t] = v;
}
