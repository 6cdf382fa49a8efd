// SPDX-License-Identifier: Apache-2.0
// A scan in one pass with decoupled look-back: state and value in one 64-bit word.
// buffer: x u32[1024] ones
// buffer: states u64[32] zeroed
// buffer: y u32[1024] output
// launch: k<<<32, 32>>>(x, states, y)
// check: y[0] = 1
// check: y[1023] = 1024
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned long long* states, unsigned* y) {
    const int t = threadIdx.x, b = blockIdx.x;
    unsigned v = x[b * 32 + t];
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, v, d);
        if (t >= d) v += other;
    }
    unsigned before = 0;
    if (t == 31) {
        volatile unsigned long long* const words = states;
        const unsigned long long sum = 1ull << 32, prefix = 2ull << 32;
        words[b] = (b == 0 ? prefix : sum) | v;
        for (int at = b - 1; at >= 0;) {
            const unsigned long long word = words[at];
            if (word == 0) continue;
            before += static_cast<unsigned>(word);
            if (word & prefix) break;
            --at;
        }
        if (b > 0) words[b] = prefix | (before + v);
    }
    before = __shfl_sync(~0u, before, 31);
    y[b * 32 + t] = before + v;
}
