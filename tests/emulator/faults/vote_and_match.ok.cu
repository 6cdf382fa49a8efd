// SPDX-License-Identifier: Apache-2.0
// Lanes in divergent branches vote and agree within their own masks.
// buffer: x u32[32] counting
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(x, y)
// check: y[0] = 16
// check: y[1] = 4
// expect: nothing
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    const unsigned v = x[threadIdx.x];
    unsigned result;
    if (v % 2 == 0) {
        result = __popc(__ballot_sync(0x55555555u, v < 64));
    } else {
        result = __popc(__match_any_sync(0xaaaaaaaau, v / 8));
    }
    y[threadIdx.x] = result;
}
