// SPDX-License-Identifier: Apache-2.0
// mma.sync m16n8k8 of tf32 with f32 sums.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned p[4], q[2];
    const int n = gridDim.x * blockDim.x;
    for (int m = 0; m < 4; ++m) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(p[m]) : "f"(f[(i + m * 64) % n]));
    for (int m = 0; m < 2; ++m) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(q[m]) : "f"(g[(i + m * 96) % n]));
    float d[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));
    r[i] = d[i & 3];
}
