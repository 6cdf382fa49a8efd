// SPDX-License-Identifier: Apache-2.0
// A barrier object expects two arrivals and gets one.
// buffer: y u32[32] output
// launch: k<<<1, 32>>>(y)
// deadline: 2
// expect: nothing
extern "C" __global__ void k(unsigned* y) {
    __shared__ alignas(8) unsigned long long bar;
    const unsigned b = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(b) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" ::"r"(b) : "memory");
    }
    unsigned done = 0;
    while (done == 0) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
    }
    y[threadIdx.x] = 1;
}
