// SPDX-License-Identifier: Apache-2.0
// A function writes past the last of its local variables.
// buffer: x u32[32] counting
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y, 32)
// expect: out_of_bounds
__device__ __noinline__ unsigned folded(const unsigned* x, int n) {
    unsigned kept[8];
    for (int i = 0; i < n; ++i) kept[x[i] * 3 % n] = x[i];  // HERE
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) sum = sum * 3 + kept[x[i]];
    return sum;
}
extern "C" __global__ void k(const unsigned* x, unsigned* y, int n) {
    y[threadIdx.x] = folded(x, n);
}
