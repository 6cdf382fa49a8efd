// SPDX-License-Identifier: Apache-2.0
// A wait that gives up after many looks at a flag that nobody sets.
// buffer: flag u32[1] zeroed
// buffer: y u32[1] output
// launch: k<<<1, 1>>>(flag, y)
// check: y[0] = 300000
// expect: nothing
extern "C" __global__ void k(unsigned* flag, unsigned* y) {
    unsigned looks = 0;
#pragma unroll 1
    while (looks < 300000 && *reinterpret_cast<volatile unsigned*>(flag) == 0) ++looks;
    y[0] = looks;
}
