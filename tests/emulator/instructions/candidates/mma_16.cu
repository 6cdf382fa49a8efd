// SPDX-License-Identifier: Apache-2.0
// mma.sync m16n8k16 of f16 and bf16 with f32 sums, operands by ldmatrix, one product a warp.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ __align__(16) unsigned short rows[8][2][256];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = i - lane;
    for (int n = lane; n < 256; n += 32) {
        rows[warp][0][n] = reinterpret_cast<const unsigned short*>(h)[(first + n) % 4096];
        rows[warp][1][n] = reinterpret_cast<const unsigned short*>(w)[(first + n) % 4096];
    }
    __syncwarp();
    float sums[2][4] = {};
    for (int kind = 0; kind < 2; ++kind) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&rows[warp][kind][lane % 16 * 16 + lane / 16 * 8]));
        unsigned p0, p1, p2, p3, q0, q1;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(p0), "=r"(p1), "=r"(p2), "=r"(p3) : "r"(at) : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(q0), "=r"(q1) : "r"(at) : "memory");
        float* d = sums[kind];
        if (kind == 0) {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p0), "r"(p1), "r"(p2), "r"(p3), "r"(q0), "r"(q1));
        } else {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(p0), "r"(p1), "r"(p2), "r"(p3), "r"(q0), "r"(q1));
        }
    }
    r[i] = sums[i & 1][i >> 1 & 3];
}
