// SPDX-License-Identifier: Apache-2.0
// mma.sync m16n8k32 of s8 and u8 with s32 sums; stmatrix of what comes out.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ __align__(16) unsigned out[8][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned p = a[i], q = b[i];
    int d[4] = {a[i] >> 16, b[i] >> 16, 0, 5};
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(p), "r"(q), "r"(p * 3), "r"(q * 5), "r"(q ^ p), "r"(p + q));
    const unsigned packed = (d[0] ^ d[2]) & 0xffff | (d[1] ^ d[3]) << 16;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&out[warp][lane % 8 * 4]));
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(packed) : "memory");
    __syncwarp();
    y[i] = out[warp][31 - lane];
}
