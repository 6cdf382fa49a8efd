// SPDX-License-Identifier: Apache-2.0
// cp.async in two stages with groups, some copies shortened and filled with zeros.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ __align__(16) int stages[2][256 * 4];
    const int n = gridDim.x * blockDim.x, t = threadIdx.x;
    unsigned out = 2166136261u;
    for (int stage = 0; stage < 2; ++stage) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&stages[stage][t * 4]));
        const int* from = a + ((blockIdx.x + stage * 3) * 1024 + t * 4) % n;
        const int bytes = t % 5 == 0 ? 8 : 16;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int m = 0; m < 4; ++m) out = (out ^ stages[0][(t * 13 + m) % 1024]) * 16777619u;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int m = 0; m < 4; ++m) out = (out ^ stages[1][(t * 29 + m) % 1024]) * 16777619u;
    y[i] = out;
}
