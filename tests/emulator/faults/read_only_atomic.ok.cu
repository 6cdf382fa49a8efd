// SPDX-License-Identifier: Apache-2.0
// A maximum is gathered in an element of the input.
// buffer: x u32[64] input
// buffer: y u32[64] zeroed
// launch: k<<<1, 64>>>(x, y)
// expect: nothing
extern "C" __global__ void k(unsigned* x, unsigned* y) {
    atomicMax(&y[0], threadIdx.x);
}
