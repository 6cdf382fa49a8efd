// SPDX-License-Identifier: Apache-2.0
#include "worker/library/parameters.hpp"

namespace kernelforge::worker::library {

namespace {

__device__ unsigned long long mix(unsigned long long x) {
    // SplitMix64's finalizer (Steele, Lea, Flood, 2014).
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ long long first() {
    return blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
}
__device__ long long step() {
    return gridDim.x * static_cast<long long>(blockDim.x);
}

template <class T>
__device__ void gather(const GatherParameters& p) {
    const unsigned* index = reinterpret_cast<const unsigned*>(p.index);
    const T* in = reinterpret_cast<const T*>(p.in);
    T* out = reinterpret_cast<T*>(p.out);
    for (long long i = first(); i < p.count; i += step()) {
        out[i] = in == nullptr ? static_cast<T>(index[i]) : in[i / p.n * p.n + index[i]];
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) kf_library_fill(PatternParameters p) {
    unsigned long long* out = reinterpret_cast<unsigned long long*>(p.out);
    const long long count = static_cast<long long>(p.bytes / 8);
    for (long long i = first(); i < count; i += step()) {
        out[i] = (mix(p.seed + i) & p.keep) | p.set;
    }
}

extern "C" __global__ void kf_library_delay(DelayParameters p) {
    unsigned long long start = 0;
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < p.ns);
}

extern "C" __global__ void __launch_bounds__(256) kf_sort_index(IndexParameters p) {
    unsigned* out = reinterpret_cast<unsigned*>(p.out);
    for (long long i = first(); i < p.count; i += step()) out[i] = static_cast<unsigned>(i % p.n);
}

extern "C" __global__ void __launch_bounds__(256) kf_sort_gather(GatherParameters p) {
    if (p.bytes == 1) gather<unsigned char>(p);
    if (p.bytes == 2) gather<unsigned short>(p);
    if (p.bytes == 4) gather<unsigned>(p);
    if (p.bytes == 8) gather<unsigned long long>(p);
}

}  // namespace kernelforge::worker::library
