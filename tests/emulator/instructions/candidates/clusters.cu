// SPDX-License-Identifier: Apache-2.0
// Clusters of four blocks: ranks, memory of the other blocks, barriers of the cluster.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@requires sm_90
//@launch k<<<(N/256), 256, 0, cluster=(4,1,1)>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ unsigned own[256];
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    own[threadIdx.x] = a[i] + rank;
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(&own[threadIdx.x ^ 5]));
    unsigned there, value, out = 0;
    for (unsigned step = 1; step < 4; ++step) {
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"((rank + step) & 3));
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
        out = out * 31 + value;
    }
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    y[i] = out + rank;
}
