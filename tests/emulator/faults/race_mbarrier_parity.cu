// SPDX-License-Identifier: Apache-2.0
// A consumer waits for the phase before the current one, which ended long ago.
// buffer: x f32[32] input
// buffer: y f32[32] output
// launch: k<<<1, 64>>>(x, y)
// Whether it then reads too early or waits for ever depends on which warp comes first.
// expect: race uninitialised deadlock
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    __shared__ alignas(8) unsigned long long bar;
    const unsigned b = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    const int t = threadIdx.x % 32;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(b) : "memory");
    __syncthreads();
    if (threadIdx.x >= 32) {
        s[t] = x[t];  // HERE
        asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" ::"r"(b) : "memory");
    } else {
        const unsigned parity = 1;
        asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra WAIT; }" ::"r"(b), "r"(parity) : "memory");  // HERE
        y[t] = s[31 - t];  // HERE
    }
}
