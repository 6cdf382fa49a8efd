// SPDX-License-Identifier: Apache-2.0
// A producer and a consumer warp share two buffers through four named barriers.
// buffer: x u32[256] counting
// buffer: y u32[32] output
// launch: k<<<1, 64>>>(x, y)
// check: y[0] = 1144
// check: y[31] = 896
// expect: nothing
__device__ void arrive(int id) { asm volatile("bar.arrive %0, 64;" ::"r"(id) : "memory"); }
__device__ void wait(int id) { asm volatile("bar.sync %0, 64;" ::"r"(id) : "memory"); }
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ unsigned s[2][32];
    const int t = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < 8; ++i) {
            if (i >= 2) wait(3 + i % 2);
            s[i % 2][t] = x[i * 32 + t];
            arrive(1 + i % 2);
        }
    } else {
        unsigned sum = 0;
        for (int i = 0; i < 8; ++i) {
            wait(1 + i % 2);
            sum += s[i % 2][31 - t];
            if (i < 6) arrive(3 + i % 2);
        }
        y[t] = sum;
    }
}
