// SPDX-License-Identifier: Apache-2.0
// A barrier of all blocks of a cooperative launch, by a counter in global memory.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@memset r 0
//@launch k<<<(N/256), 256, 0, coop>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int n = gridDim.x * blockDim.x;
    y[i] = a[i] ^ 0x5a5a;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(reinterpret_cast<unsigned*>(r), 1u);
        while (*reinterpret_cast<volatile unsigned*>(r) < gridDim.x) __nanosleep(50);
        __threadfence();
    }
    __syncthreads();
    const int other = y[(i + n / 2) % n];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(reinterpret_cast<unsigned*>(r) + 1, 1u);
        while (reinterpret_cast<volatile unsigned*>(r)[1] < gridDim.x) __nanosleep(50);
        __threadfence();
    }
    __syncthreads();
    y[i] = other * 3;
}
