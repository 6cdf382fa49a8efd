// SPDX-License-Identifier: Apache-2.0
// A recursion whose end is never reached.
// buffer: x u32[32] input
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y, 5)
// expect: nothing
__device__ __noinline__ unsigned descend(const unsigned* x, int depth) {
    volatile unsigned kept[4];
    kept[depth & 3] = x[depth & 31];
    if (depth == 0) return kept[0];
    return descend(x, depth - 1) + kept[depth & 3];
}
extern "C" __global__ void k(const unsigned* x, unsigned* y, int depth) {
    y[threadIdx.x] = descend(x, depth);
}
