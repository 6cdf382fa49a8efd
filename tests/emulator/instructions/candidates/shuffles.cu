// SPDX-License-Identifier: Apache-2.0
// Shuffles of all kinds and widths, votes, match, redux.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned out = 2166136261u;
    const int lane = threadIdx.x & 31;
    const unsigned v = a[i];
    fold(out, __shfl_sync(~0u, v, b[i] & 31));
    fold(out, __shfl_up_sync(~0u, v, 3));
    fold(out, __shfl_down_sync(~0u, v, 5, 16));
    fold(out, __shfl_xor_sync(~0u, v, 9, 8));
    fold(out, __shfl_sync(~0u, v, 13, 4));
    const long long wide = static_cast<long long>(a[i]) * b[i];
    const unsigned long long far = __shfl_xor_sync(~0u, wide, 17);
    fold(out, static_cast<unsigned>(far >> 32));
    fold(out, __float_as_uint(__shfl_down_sync(~0u, f[i], 1)));
    fold(out, __ballot_sync(~0u, a[i] > 0));
    fold(out, __any_sync(~0u, b[i] > 2000000000) | __all_sync(~0u, b[i] > -2000000000) << 1);
    fold(out, __match_any_sync(~0u, v & 7));
    int same;
    fold(out, __match_all_sync(~0u, v & 0, &same) + same);
    fold(out, __reduce_add_sync(~0u, v));
    fold(out, __reduce_min_sync(~0u, a[i]));
    fold(out, __reduce_max_sync(~0u, v));
    fold(out, __reduce_xor_sync(~0u, v));
    const unsigned odd = 0xaaaaaaaau;
    if (lane & 1) {
        fold(out, __shfl_xor_sync(odd, v, 2));
        fold(out, __ballot_sync(odd, b[i] > 0));
        fold(out, __reduce_or_sync(odd, v));
        fold(out, __activemask() & odd);
    }
    y[i] = out;
}
