// SPDX-License-Identifier: Apache-2.0
// Constant memory and initialised module variables, by index and by pointer.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }
__constant__ unsigned primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__constant__ float weights[4] = {0.5f, 0.25f, -1.0f, 3.0f};
__device__ const unsigned one = 77, two = 99;
__constant__ const unsigned* pointers[2] = {&one, &two};
__device__ const unsigned char bytes[16] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 0, 7, 9, 4};

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned out = 2166136261u;
    const unsigned v = a[i];
    fold(out, primes[v & 7]);
    fold(out, primes[blockIdx.x & 7]);
    fold(out, __float_as_uint(weights[v >> 3 & 3]));
    fold(out, *pointers[v >> 5 & 1]);
    fold(out, bytes[v >> 6 & 15]);
    y[i] = out;
}
