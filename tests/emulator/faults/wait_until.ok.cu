// SPDX-License-Identifier: Apache-2.0
// A wait for a flag that nobody sets, until half a second has passed.
// buffer: flag u32[1] zeroed
// buffer: y u32[1] output
// launch: k<<<1, 1>>>(flag, y)
// check: y[0] = 1
// expect: nothing
__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}
extern "C" __global__ void k(unsigned* flag, unsigned* y) {
    const unsigned long long end = now() + 500000000;
    while (*reinterpret_cast<volatile unsigned*>(flag) == 0 && now() < end) __nanosleep(100);
    y[0] = 1;
}
