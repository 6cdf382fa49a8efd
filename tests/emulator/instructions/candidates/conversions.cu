// SPDX-License-Identifier: Apache-2.0
// Conversions between integers, f16, bf16 and f32 in every rounding, with saturation; of any bits.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float p = __int_as_float(a[i]), s = f[i] * 1e4f;
    const unsigned v = b[i];
    unsigned out = 2166136261u;
    fold(out, __float2int_rn(s));
    fold(out, __float2int_rz(p));
    fold(out, __float2int_ru(s));
    fold(out, __float2int_rd(s));
    fold(out, __float2uint_rz(p));
    fold(out, static_cast<unsigned>(__float2ll_rz(s * 1e9f)));
    fold(out, __float_as_uint(__int2float_rn(a[i])));
    fold(out, __float_as_uint(__int2float_rz(a[i])));
    fold(out, __float_as_uint(__uint2float_ru(v)));
    fold(out, __float_as_uint(__ll2float_rn(static_cast<long long>(a[i]) * b[i])));
    fold(out, __half_as_ushort(__float2half_rn(s)));
    fold(out, __half_as_ushort(__float2half_rz(s)));
    fold(out, __half_as_ushort(__float2half_ru(f[i])));
    fold(out, __half_as_ushort(__float2half_rd(f[i])));
    fold(out, __bfloat16_as_ushort(__float2bfloat16_rn(s)));
    fold(out, __bfloat16_as_ushort(__float2bfloat16_rz(s)));
    fold(out, __float_as_uint(__half2float(h[i])));
    fold(out, __float_as_uint(__bfloat162float(w[i])));
    fold(out, __half2int_rn(__float2half_rn(f[i])));
    fold(out, __half2ushort_rz(h[i]));
    fold(out, __half_as_ushort(__int2half_rn(a[i] >> 14)));
    fold(out, __half_as_ushort(__ushort2half_rn(static_cast<unsigned short>(v))));
    unsigned t;
    asm("cvt.sat.u8.s32 %0, %1;" : "=r"(t) : "r"(a[i] >> 20));
    fold(out, t);
    asm("cvt.sat.s16.s32 %0, %1;" : "=r"(t) : "r"(a[i] >> 8));
    fold(out, t & 0xffff);
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(t) : "f"(f[i]), "f"(s));
    fold(out, t);
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(t) : "f"(f[i]), "f"(s));
    fold(out, t);
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(t) : "f"(f[i]));
    fold(out, t);
    y[i] = out;
}
