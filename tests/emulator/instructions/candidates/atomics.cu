// SPDX-License-Identifier: Apache-2.0
// Atomics on global memory whose end does not depend on their order, with scopes and orders; exchange by one owner.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned v = a[i];
    const int slot = i & ~31;
    y[i] = 0;
    __syncwarp();
    atomicAdd(&y[slot], v);
    atomicXor(&y[slot + 1], v);
    atomicOr(&y[slot + 2], v & b[i]);
    atomicAnd(&y[slot + 3], v);
    atomicMax(&y[slot + 4], a[i]);
    atomicMin(reinterpret_cast<unsigned*>(&y[slot + 5]), v);
    atomicAdd(reinterpret_cast<unsigned long long*>(&y[slot + 6]), static_cast<unsigned long long>(v) << 7);
    atomicInc(reinterpret_cast<unsigned*>(&y[slot + 8]), 18);
    atomicAdd_block(&y[slot + 9], 3);
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(&y[slot + 10]), "r"(v) : "memory");
    int seen = y[slot + 11], old;
    do {
        old = seen;
        seen = atomicCAS(&y[slot + 11], old, old * 3 + 1);
    } while (seen != old);
    atomicExch(&y[slot + 12 + (i & 15)], b[i & ~16]);
    atomicAdd(reinterpret_cast<float*>(&y[slot + 28]), static_cast<float>(v & 1023));
    __half2 pair = __floats2half2_rn(v & 15, v >> 4 & 15);
    atomicAdd(reinterpret_cast<__half2*>(&y[slot + 29]), pair);
}
