// SPDX-License-Identifier: Apache-2.0
// Sums of one warp more than there are: the compiler loads all eight and chooses afterwards.
// buffer: y u32[1] output
// launch: k<<<1, 256>>>(y, 3)
// expect: uninitialised
extern "C" __global__ void k(unsigned* y, int warps) {
    __shared__ unsigned sums[8];
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0 && warp < warps) sums[warp] = warp + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned all = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i <= warps) all += sums[i];  // HERE
        }
        y[0] = all;
    }
}
