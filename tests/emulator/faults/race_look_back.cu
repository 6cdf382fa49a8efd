// SPDX-License-Identifier: Apache-2.0
// A chained scan whose flag and value are separate words, without a fence between them.
// buffer: x u32[256] input
// buffer: sums u32[8] output
// buffer: flags u32[8] zeroed
// buffer: y u32[256] output
// launch: k<<<8, 32>>>(x, sums, flags, y)
// expect: race
extern "C" __global__ void k(const unsigned* x, unsigned* sums, unsigned* flags, unsigned* y) {
    const int t = threadIdx.x, b = blockIdx.x;
    unsigned v = x[b * 32 + t] % 4;
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, v, d);
        if (t >= d) v += other;
    }
    unsigned before = 0;
    if (t == 31) {
        if (b > 0) {
            while (atomicAdd(&flags[b - 1], 0u) == 0) {
            }
            before = sums[b - 1];  // HERE
        }
        sums[b] = before + v;  // HERE
        atomicExch(&flags[b], 1u);
    }
    before = __shfl_sync(~0u, before, 31);
    y[b * 32 + t] = before + v;
}
