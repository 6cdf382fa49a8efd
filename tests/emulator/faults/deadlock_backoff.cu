// SPDX-License-Identifier: Apache-2.0
// A wait with growing pauses for a flag that nobody sets.
// buffer: flag u32[2] zeroed
// buffer: y u32[4] output
// launch: k<<<4, 32>>>(flag, y)
// expect: deadlock
extern "C" __global__ void k(unsigned* flag, unsigned* y) {
    if (blockIdx.x == 3 && threadIdx.x == 0) atomicExch(flag + 1, 1u);
    unsigned pause = 8;
    while (*reinterpret_cast<volatile unsigned*>(flag) == 0) {  // HERE
        __nanosleep(pause);  // HERE
        if (pause < 256) pause *= 2;  // HERE
    }
    y[blockIdx.x] = pause;
}
