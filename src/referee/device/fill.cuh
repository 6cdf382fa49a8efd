// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/elements.hpp"

namespace kernelforge::referee {

__device__ __forceinline__ u64 global_thread() {
    return static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ u64 global_threads() {
    return static_cast<u64>(gridDim.x) * blockDim.x;
}

extern "C" __global__ void __launch_bounds__(256) kf_fill(const FillParameters p) {
    const u32 bytes = bytes_of_type(p.dtype);
    void* data = reinterpret_cast<void*>(p.data);
    for (u64 i = global_thread(); i < p.count; i += global_threads()) {
        const u64 bits = drawn_bits(p, i);
        switch (bytes) {
            case 8:
                static_cast<u64*>(data)[i] = bits;
                break;
            case 4:
                static_cast<u32*>(data)[i] = static_cast<u32>(bits);
                break;
            case 2:
                static_cast<unsigned short*>(data)[i] = static_cast<unsigned short>(bits);
                break;
            default:
                static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(bits);
        }
    }
}

/// Bytes before the first multiple of 16, at most all of them.
__device__ __forceinline__ u64 unaligned_head(u64 data, u64 bytes) {
    const u64 head = (16 - (data & 15)) & 15;
    return head < bytes ? head : bytes;
}

extern "C" __global__ void __launch_bounds__(256) kf_poison(const PoisonParameters p) {
    const u64 head = unaligned_head(p.data, p.bytes);
    const u64 vectors = (p.bytes - head) / 16;
    const u64 tail = head + vectors * 16;
    unsigned char* bytes = reinterpret_cast<unsigned char*>(p.data);
    uint4* aligned = reinterpret_cast<uint4*>(p.data + head);
    for (u64 i = global_thread(); i < vectors; i += global_threads()) {
        aligned[i] = make_uint4(~0U, ~0U, ~0U, ~0U);
    }
    const u64 i = global_thread();
    if (i < head) bytes[i] = 0xFF;
    if (i < p.bytes - tail) bytes[tail + i] = 0xFF;
}

extern "C" __global__ void __launch_bounds__(256) kf_count_nonzero(const CountNonzeroParameters p) {
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(p.data);
    const u64 head = unaligned_head(p.data, p.bytes);
    const u64 vectors = (p.bytes - head) / 16;
    const u64 tail = head + vectors * 16;
    const uint4* aligned = reinterpret_cast<const uint4*>(p.data + head);
    u64 found = 0;
    for (u64 i = global_thread(); i < vectors; i += global_threads()) {
        const uint4 v = aligned[i];
        if ((v.x | v.y | v.z | v.w) == 0) continue;
        for (u32 j = 0; j < 16; ++j) found += bytes[head + 16 * i + j] != 0;
    }
    const u64 i = global_thread();
    if (i < head) found += bytes[i] != 0;
    if (i < p.bytes - tail) found += bytes[tail + i] != 0;
    if (found != 0) atomicAdd(reinterpret_cast<u64*>(p.counter), found);
}

extern "C" __global__ void kf_empty() {}

}  // namespace kernelforge::referee
