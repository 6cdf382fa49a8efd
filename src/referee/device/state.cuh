// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/parameters.hpp"

// What an earlier kernel could leave on the multiprocessors, overwritten; and the device's clock.

namespace kernelforge::referee {

constexpr u32 scrub_shared_threads = 1024;
constexpr u32 scrub_local_threads = 256;

/// Waits until every block of the grid is here, which needs all of them resident at once (a
/// cooperative launch). Without it a block that ends early would make room for a later one on the
/// same multiprocessor, and another multiprocessor would never be visited.
__device__ __forceinline__ void meet(const ScrubParameters& p) {
    __syncthreads();
    if (threadIdx.x == 0) {
        volatile u32* arrivals = reinterpret_cast<volatile u32*>(p.arrivals);
        atomicAdd(reinterpret_cast<u32*>(p.arrivals), 1U);
        while (*arrivals < gridDim.x) {
        }
    }
    __syncthreads();
}

/// One block a multiprocessor: with the largest dynamic size no second one fits. That size makes
/// the driver choose the largest carve-out, so that what a smaller one hides is written as well.
/// What stays is the part that the system reserves for each block (1 KiB on Hopper).
extern "C" __global__ void __launch_bounds__(scrub_shared_threads)
    kf_scrub_shared(const ScrubParameters p) {
    extern __shared__ uint4 all_shared[];
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(all_shared));
    for (u32 at = threadIdx.x * 16; at < p.shared_bytes; at += blockDim.x * 16) {
        asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(base + at), "r"(~0U)
                     : "memory");
    }
    meet(p);
}

/// A frame of `bytes` of local memory, all written.
///
/// Local memory of a context is one pool. A thread's part of it follows from its multiprocessor,
/// its warp slot there and its lane, and from the frame's address, which counts down from a fixed
/// top whatever the kernel. No document says whether the pool is laid out for the largest frame so
/// far or for the frame of the launch (tests/gpu reads frames of many sizes). In the first case a
/// frame of f bytes is, in every slot, the end of a frame of F >= f bytes in the same slot. In the
/// second all slots together are one dense range from the pool's start, and that of F covers that
/// of f. Either way every byte that a frame of f bytes shows was written, if each slot of each
/// multiprocessor ran a thread with the frame of F: hence full occupancy, and `meet`, so that no
/// slot is used twice while another is not used.
template <u32 bytes>
__device__ __forceinline__ void scrub_local(const ScrubParameters& p) {
    // ptxas takes no notice of `volatile` here and keeps an array in registers, or not at all, when
    // it knows indices or values: hence a zero that only the caller knows.
    volatile u64 frame[bytes / 8];
#pragma unroll 4
    for (u32 i = 0; i < bytes / 8; ++i) frame[(i + p.zero) % (bytes / 8)] = ~0ULL ^ (i * p.zero);
    meet(p);
    if (frame[p.zero % (bytes / 8)] == 0) atomicAdd(reinterpret_cast<u32*>(p.arrivals), 1U);
}

// Eight blocks of 256 threads are 2048 a multiprocessor; at most 32 registers a thread.
extern "C" __global__ void __launch_bounds__(scrub_local_threads, 8)
    kf_scrub_local_256(const ScrubParameters p) {
    scrub_local<256>(p);
}
extern "C" __global__ void __launch_bounds__(scrub_local_threads, 8)
    kf_scrub_local_1024(const ScrubParameters p) {
    scrub_local<1024>(p);
}
extern "C" __global__ void __launch_bounds__(scrub_local_threads, 8)
    kf_scrub_local_4096(const ScrubParameters p) {
    scrub_local<4096>(p);
}
extern "C" __global__ void __launch_bounds__(scrub_local_threads, 8)
    kf_scrub_local_16384(const ScrubParameters p) {
    scrub_local<16384>(p);
}

/// One thread.
extern "C" __global__ void kf_stamp(const StampParameters p) {
    u64 now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *reinterpret_cast<volatile u64*>(p.slot) = now;
}

}  // namespace kernelforge::referee
