// SPDX-License-Identifier: Apache-2.0
// Warps reduce by shuffles, one warp reduces what they found.
// buffer: x u32[1024] counting
// buffer: y u32[1] output
// launch: k<<<1, 1024>>>(x, y)
// check: y[0] = 523776
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[32];
    unsigned v = x[threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    v = __reduce_add_sync(~0u, s[threadIdx.x]);
    if (threadIdx.x == 0) y[0] = v;
}
