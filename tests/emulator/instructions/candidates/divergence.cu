// SPDX-License-Identifier: Apache-2.0
// Paths that part: nested branches, loops of other lengths, a switch, early returns, recursion-free calls.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __noinline__ unsigned step(unsigned x, unsigned y) {
    if (x > y) return x - y;
    for (unsigned n = 0; n < (y & 3); ++n) x = x * 33 + n;
    return x;
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned v = a[i], out = 0;
    const int trips = b[i] & 63;
    for (int n = 0; n < trips; ++n) {
        if (v & 1) {
            v = v * 3 + 1;
            if ((v & 6) == 6) continue;
        } else {
            v >>= 1;
            if (v % 29 == 3) break;
        }
        switch (v % 7) {
            case 0: out += v; break;
            case 1: out ^= v << 3; break;
            case 2: out = step(out, v); break;
            case 5: out -= n; break;
            default: out = out * 5 + 1;
        }
    }
    if (v % 11 == 0) {
        y[i] = -1;
        return;
    }
    y[i] = out;
}
