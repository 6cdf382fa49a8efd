// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/fill.cuh"
#include "referee/device/operands.cuh"

namespace kernelforge::referee {

constexpr u32 stream_threads = 512;
constexpr u32 stream_unroll = 4;

__device__ __forceinline__ void store_stream(const StreamParameters& p) {
    uint4* data = reinterpret_cast<uint4*>(p.data);
    const u64 vectors = p.bytes / 16;
    const uint4 value = make_uint4(p.pattern, ~p.pattern, p.pattern * 3U, threadIdx.x);
    for (u64 i = global_thread(); i < vectors; i += global_threads()) data[i] = value;
}

/// Four independent 16-byte loads a thread are in flight: with 2048 resident threads 128 KiB a
/// multiprocessor, several times the product of latency and bandwidth.
__device__ __forceinline__ void load_stream(const StreamParameters& p) {
    const uint4* data = reinterpret_cast<const uint4*>(p.data);
    const u64 vectors = p.bytes / 16;
    const u64 stride = global_threads();
    uint4 all = make_uint4(0, 0, 0, 0);
    u64 i = global_thread();
    for (; i + (stream_unroll - 1) * stride < vectors; i += stream_unroll * stride) {
        uint4 v[stream_unroll];
#pragma unroll
        for (u32 j = 0; j < stream_unroll; ++j) v[j] = __ldcg(data + i + j * stride);
#pragma unroll
        for (u32 j = 0; j < stream_unroll; ++j) {
            all.x ^= v[j].x;
            all.y ^= v[j].y;
            all.z ^= v[j].z;
            all.w ^= v[j].w;
        }
    }
    for (; i < vectors; i += stride) {
        const uint4 v = __ldcg(data + i);
        all.x ^= v.x;
        all.y ^= v.y;
        all.z ^= v.z;
        all.w ^= v.w;
    }
    // The compiler cannot know that this does not happen; a chance of 2^-128 is as good as never.
    if (all.x == 0x6B65726EU && all.y == 0x656C666FU && all.z == 0x72676521U && all.w == p.unused) {
        atomicAdd(reinterpret_cast<u64*>(p.sink), 1ULL);
    }
}

extern "C" __global__ void __launch_bounds__(stream_threads)
    kf_flush_write(const StreamParameters p) {
    store_stream(p);
}
extern "C" __global__ void __launch_bounds__(stream_threads)
    kf_flush_read(const StreamParameters p) {
    load_stream(p);
}
extern "C" __global__ void __launch_bounds__(stream_threads)
    kf_roof_write(const StreamParameters p) {
    store_stream(p);
}
extern "C" __global__ void __launch_bounds__(stream_threads)
    kf_roof_read(const StreamParameters p) {
    load_stream(p);
}

extern "C" __global__ void __launch_bounds__(stream_threads)
    kf_roof_copy(const StreamParameters p) {
    const uint4* source = reinterpret_cast<const uint4*>(p.source);
    uint4* data = reinterpret_cast<uint4*>(p.data);
    const u64 vectors = p.bytes / 16;
    const u64 stride = global_threads();
    u64 i = global_thread();
    for (; i + (stream_unroll - 1) * stride < vectors; i += stream_unroll * stride) {
        uint4 v[stream_unroll];
#pragma unroll
        for (u32 j = 0; j < stream_unroll; ++j) v[j] = __ldcs(source + i + j * stride);
#pragma unroll
        for (u32 j = 0; j < stream_unroll; ++j) __stcs(data + i + j * stride, v[j]);
    }
    for (; i < vectors; i += stride) __stcs(data + i, __ldcs(source + i));
}

constexpr u32 fma_threads = 256;
constexpr u32 fma_chains = 8;

/// fma_chains independent multiply-adds, each followed by another 15 of its own chain, an
/// iteration.
extern "C" __global__ void __launch_bounds__(fma_threads) kf_roof_fma(const ComputeParameters p) {
    float x[fma_chains];
    const u32 random = mixed(p.seed + static_cast<u32>(global_thread()));
    const float factor = 0.5F + static_cast<float>(random & 0xFFFFU) * (1.0F / 131072.0F);
#pragma unroll
    for (u32 c = 0; c < fma_chains; ++c) x[c] = factor + static_cast<float>(c);
    for (u32 i = 0; i < p.iterations; ++i) {
#pragma unroll
        for (u32 step = 0; step < 16; ++step) {
#pragma unroll
            for (u32 c = 0; c < fma_chains; ++c) x[c] = __fmaf_rn(x[c], factor, 0.375F);
        }
    }
    float sum = 0.0F;
#pragma unroll
    for (u32 c = 0; c < fma_chains; ++c) sum += x[c];
    if (sum == -1.0F) atomicAdd(reinterpret_cast<u64*>(p.sink), 1ULL);  // all terms are positive
}

constexpr u32 mma_threads = 256;

/// 16 independent accumulators (4 A fragments by 4 B fragments) of mma.sync m16n8k16 a warp.
extern "C" __global__ void __launch_bounds__(mma_threads)
    kf_roof_mma_bf16(const ComputeParameters p) {
    u32 a[4][4];
    u32 b[4][2];
    float d[16][4] = {};
    const u32 base = p.seed + 64U * static_cast<u32>(global_thread());
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
#pragma unroll
        for (u32 j = 0; j < 4; ++j) a[i][j] = random_bf16_pair(base + 4 * i + j);
#pragma unroll
        for (u32 j = 0; j < 2; ++j) b[i][j] = random_bf16_pair(base + 32 + 2 * i + j);
    }
    for (u32 iteration = 0; iteration < p.iterations; ++iteration) {
#pragma unroll
        for (u32 t = 0; t < 16; ++t) {
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                "{%8,%9}, {%0,%1,%2,%3};"
                : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                : "r"(a[t / 4][0]), "r"(a[t / 4][1]), "r"(a[t / 4][2]), "r"(a[t / 4][3]),
                  "r"(b[t % 4][0]), "r"(b[t % 4][1]));
        }
    }
    float sum = 0.0F;
#pragma unroll
    for (u32 t = 0; t < 16; ++t) sum += d[t][0] + d[t][1] + d[t][2] + d[t][3];
    if (sum == 1234567.0F) atomicAdd(reinterpret_cast<u64*>(p.sink), 1ULL);
}

}  // namespace kernelforge::referee
