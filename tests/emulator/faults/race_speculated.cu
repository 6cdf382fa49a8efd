// SPDX-License-Identifier: Apache-2.0
// A thread reads the elements below a count while others write the last of them: the compiler loads all of them.
// buffer: y u32[1] output
// launch: k<<<1, 64>>>(y, 37)
// expect: race
extern "C" __global__ void k(unsigned* y, int count) {
    __shared__ unsigned values[64];
    const int t = threadIdx.x;
    values[t] = t;
    __syncthreads();
    if (t >= 32 && t >= count - 1) values[t] = 5;  // HERE
    if (t == 0) {
        unsigned all = 0;
#pragma unroll
        for (int i = 0; i < 64; ++i) {
            unsigned value = 0;
            if (i < count) value = values[i];  // HERE
            all += value;
        }
        y[0] = all;
    }
}
