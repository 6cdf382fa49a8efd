// SPDX-License-Identifier: Apache-2.0
// Two stages are in flight, and the wait leaves both unfinished.
// buffer: x f32[512] input
// buffer: y f32[128] output
// launch: k<<<1, 32>>>(x, y)
// expect: nothing
__device__ void copy(float* to, const float* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ alignas(16) float s[2][128];
    const int t = threadIdx.x;
    copy(&s[0][4 * t], x + 4 * t);
    float sum = 0;
    for (int i = 0; i < 4; ++i) {
        if (i + 1 < 4) {
            copy(&s[(i + 1) & 1][4 * t], x + (i + 1) * 128 + 4 * t);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
        sum += s[i & 1][127 - t];
        __syncthreads();
    }
    y[t] = sum;
}
