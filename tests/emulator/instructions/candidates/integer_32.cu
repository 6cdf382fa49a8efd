// SPDX-License-Identifier: Apache-2.0
// 32-bit integers: arithmetic, high products, division, shifts, minima, saturation.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int p = a[i], q = b[i];
    const unsigned u = p, v = q;
    unsigned out = 2166136261u;
    fold(out, u + v);
    fold(out, u - v);
    fold(out, u * v);
    fold(out, static_cast<unsigned>(__mulhi(p, q)));
    fold(out, __umulhi(u, v));
    fold(out, __umul24(u, v));
    fold(out, static_cast<unsigned>(__mul24(p, q)));
    fold(out, static_cast<unsigned>(p / ((q >> 20) | 1)));
    fold(out, static_cast<unsigned>(p % ((q >> 20) | 1)));
    fold(out, u / (v >> 18 | 1));
    fold(out, u % (v >> 18 | 1));
    fold(out, u << (v & 31));
    fold(out, u >> (v & 31));
    fold(out, static_cast<unsigned>(p >> (q & 31)));
    fold(out, static_cast<unsigned>(min(p, q)));
    fold(out, max(u, v));
    fold(out, static_cast<unsigned>(abs(p)));
    fold(out, __sad(p, q, u));
    fold(out, __usad(u, v, 7u));
    fold(out, static_cast<unsigned>(__hadd(p, q)));
    fold(out, __urhadd(u, v));
    unsigned wide;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(wide) : "r"(p), "r"(q));
    fold(out, wide);
    asm("{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %1, 5; xor.b32 %0, %0, t; }" : "=r"(wide) : "r"(u), "r"(v));
    fold(out, wide);
    asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %2, 5; xor.b32 %0, %0, t; }" : "=r"(wide) : "r"(u), "r"(v));
    fold(out, wide);
    y[i] = out;
}
