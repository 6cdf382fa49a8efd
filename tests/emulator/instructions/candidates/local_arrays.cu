// SPDX-License-Identifier: Apache-2.0
// Local arrays with indices of run time, structs by value, calls with pointers to locals.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
//@launch k<<<(N/256), 256>>>(a, b, f, g, h, w, y, r)
__device__ __forceinline__ void fold(unsigned& into, unsigned value) { into = (into ^ value) * 16777619u; }
struct Pair {
    unsigned first, second;
};
__device__ __noinline__ Pair swapped(Pair pair) { return {pair.second, pair.first}; }
__device__ __noinline__ void sort(int* values, int count, bool down) {
    for (int n = 1; n < count; ++n) {
        for (int m = n; m > 0 && (values[m] < values[m - 1]) != down; --m) {
            const int kept = values[m];
            values[m] = values[m - 1];
            values[m - 1] = kept;
        }
    }
}

extern "C" __global__ void k(const int* a, const int* b, const float* f, const float* g, const __half* h,
                             const __nv_bfloat16* w, int* y, float* r) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int table[24];
    for (int n = 0; n < 24; ++n) table[n] = a[(i * 7 + n) % (gridDim.x * blockDim.x)] >> (n & 7);
    sort(table, 24, b[i] & 1);
    unsigned out = 2166136261u;
    for (int n = 0; n < 24; ++n) fold(out, table[(n * (b[i] & 7 | 1)) % 24]);
    const Pair pair = swapped({table[b[i] & 15], out});
    fold(out, pair.first + pair.second * 3);
    y[i] = out;
}
