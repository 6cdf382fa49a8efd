// SPDX-License-Identifier: Apache-2.0
// The flag is set with relaxed order, so the data before it may come later.
// buffer: x f32[32] input
// buffer: data f32[32] output
// buffer: flag u32[1] zeroed
// buffer: y f32[32] output
// launch: k<<<2, 32>>>(x, data, flag, y)
// expect: nothing
extern "C" __global__ void k(const float* x, float* data, unsigned* flag, float* y) {
    const int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = x[t];
        __syncwarp();
        if (t == 0) {
            asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
        }
    } else {
        unsigned seen = 0;
        while (seen == 0) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
        }
        y[t] = data[t];
    }
}
