// SPDX-License-Identifier: Apache-2.0
// Bits: counts, reversal, fields, permutation of bytes, funnel shifts, three-input logic.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned u = a[i], v = b[i];
    unsigned out = 2166136261u, t;
    fold(out, __clz(u >> (v & 31)));
    fold(out, __popc(u));
    fold(out, __brev(u));
    fold(out, __ffs(u & -(v & 1)));
    fold(out, __byte_perm(u, v, v >> 7));
    fold(out, __funnelshift_l(u, v, v));
    fold(out, __funnelshift_r(u, v, v));
    fold(out, __funnelshift_lc(u, v, v));
    fold(out, __funnelshift_rc(u, v, v));
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(t) : "r"(u), "r"(v & 255), "r"(v >> 8 & 255));
    fold(out, t);
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(t) : "r"(u), "r"(v & 31), "r"(v >> 8 & 31));
    fold(out, t);
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(t) : "r"(u), "r"(v), "r"(v & 31), "r"(v >> 8 & 31));
    fold(out, t);
    asm("bfind.u32 %0, %1;" : "=r"(t) : "r"(u >> (v & 31)));
    fold(out, t);
    asm("bfind.shiftamt.s32 %0, %1;" : "=r"(t) : "r"(u));
    fold(out, t);
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(t) : "r"(u), "r"(v), "r"(u * v));
    fold(out, t);
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(t) : "r"(u), "r"(v), "r"(u * v));
    fold(out, t);
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(t) : "r"(u), "r"(v & 31), "r"(int(v >> 8 & 7) - 3));
    fold(out, t);
    asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(t) : "r"(v & 31), "r"(v >> 8 & 63));
    fold(out, t);
    asm("szext.clamp.s32 %0, %1, %2;" : "=r"(t) : "r"(u), "r"(v & 63));
    fold(out, t);
    y[i] = out;
}
