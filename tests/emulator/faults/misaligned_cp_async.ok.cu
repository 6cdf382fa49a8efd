// SPDX-License-Identifier: Apache-2.0
// cp.async of 16 bytes from an address that is a multiple of four only.
// buffer: x f32[132] input
// buffer: y f32[128] output
// launch: k<<<1, 32>>>(x, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float s[128];
    const int t = threadIdx.x;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&s[4 * t]));
    const float* from = x + 4 + 4 * t;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int i = 0; i < 4; ++i) y[i * 32 + t] = s[i * 32 + t];
}
