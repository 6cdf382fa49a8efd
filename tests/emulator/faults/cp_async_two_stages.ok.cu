// SPDX-License-Identifier: Apache-2.0
// A pipeline of two stages with cp.async.
// buffer: x u32[1024] counting
// buffer: y u32[128] output
// launch: k<<<1, 32>>>(x, y)
// check: y[0] = 3584
// check: y[127] = 4600
// expect: nothing
__device__ void copy(unsigned* to, const unsigned* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(address), "l"(from) : "memory");
}
extern "C" __global__ void k(const unsigned* x, unsigned* y) {
    __shared__ alignas(16) unsigned s[2][128];
    const int t = threadIdx.x;
    unsigned sum[4] = {};
    copy(&s[0][4 * t], x + 4 * t);
    for (int i = 0; i < 8; ++i) {
        if (i + 1 < 8) {
            copy(&s[(i + 1) & 1][4 * t], x + (i + 1) * 128 + 4 * t);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        __syncthreads();
        for (int j = 0; j < 4; ++j) sum[j] += s[i & 1][j * 32 + t];
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j) y[j * 32 + t] = sum[j];
}
