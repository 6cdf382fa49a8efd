// SPDX-License-Identifier: Apache-2.0
// A tile that cp.async brings is read after a barrier, but before its copies were waited for.
// buffer: x f32[128] input
// buffer: y f32[128] output
// launch: k<<<1, 32>>>(x, y)
// expect: race uninitialised
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float s[128];
    const int t = threadIdx.x;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[4 * t]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + 4 * t) : "memory");  // HERE
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 4; ++i) y[i * 32 + t] = s[(i * 32 + t + 7) % 128];  // HERE
}
