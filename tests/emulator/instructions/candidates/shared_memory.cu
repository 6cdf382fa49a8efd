// SPDX-License-Identifier: Apache-2.0
// Shared memory: a transposed tile, a tree of sums, a scan, a histogram by atomics.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256, 2048>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int tile[16][17];
    __shared__ unsigned sums[256], bins[32];
    const int t = threadIdx.x;
    tile[t / 16][t % 16] = a[i];
    sums[t] = b[i];
    if (t < 32) bins[t] = 0;
    __syncthreads();
    const int turned = tile[t % 16][t / 16];
    atomicAdd(&bins[turned & 31], 1u);
    atomicMax(&bins[turned >> 5 & 31], t);
    for (int step = 1; step < 256; step *= 2) {
        const unsigned before = t >= step ? sums[t - step] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    extern __shared__ unsigned long long wide[];
    wide[t] = static_cast<unsigned long long>(sums[t]) << 16 ^ turned;
    __syncthreads();
    const unsigned long long other = wide[255 - t];
    y[i] = turned ^ sums[t] ^ static_cast<unsigned>(other >> 8) ^ (t < 32 ? (bins[t] > 0) : 7);
}
