// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/compare.cuh"
#include "referee/device/digest_elements.hpp"

namespace kernelforge::referee {

/// Consecutive elements that one thread takes at a time, so that a draw of signs serves them all.
constexpr u32 digest_run = 8;

__device__ __forceinline__ char* slot_at(const DigestParameters& p, u64 slot) {
    return reinterpret_cast<char*>(p.slots + slot * p.slot_bytes);
}
__device__ __forceinline__ DigestTile* tiles_of(char* slot) {
    return reinterpret_cast<DigestTile*>(slot + sizeof(DigestHeader));
}
__device__ __forceinline__ char* sample_of(const DigestParameters& p, char* slot, u32 sample) {
    return slot + sizeof(DigestHeader) + digest_tiles(p) * sizeof(DigestTile) +
           static_cast<u64>(sample) * p.sample_elements * bytes_of_type(p.dtype);
}

/// Merge of all threads' values, valid in thread 0; always in the same order.
template <class T>
__device__ T block_merge(const T& mine) {
    __shared__ T shared[compare_threads];
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (u32 step = compare_threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) merge(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    return shared[0];
}

template <u32 DType>
__device__ DigestTile digest_of(const DigestParameters& q, const TileBox& box) {
    DigestParameters p = q;
    p.dtype = DType;  // known to the compiler
    const void* data = reinterpret_cast<const void*>(p.data);
    DigestTile mine;
    for (u32 first = threadIdx.x * digest_run; first < box.elements;
         first += compare_threads * digest_run) {
        Signs signs;
        u32 row = first / box.width;
        u32 column = first - row * box.width;
        const u32 end = first + digest_run < box.elements ? first + digest_run : box.elements;
        for (u32 i = first; i < end; ++i) {
            const u64 index = (box.row + row) * p.tiling.columns + box.column + column;
            add_to_digest(mine, signs, p, index, load_bits(data, index, bytes_of_type(DType)));
            if (++column == box.width) {
                column = 0;
                ++row;
            }
        }
    }
    return mine;
}

extern "C" __global__ void __launch_bounds__(compare_threads)
    kf_digest_tiles(const DigestParameters p) {
    char* slot = slot_at(p, p.call);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        reinterpret_cast<DigestHeader*>(slot)->set = p.set;
    }
    for (u64 tile = blockIdx.x; tile < digest_tiles(p); tile += gridDim.x) {
        const TileBox box = box_of(p.tiling, tile);
        DigestTile mine;
        for_type(p.dtype, [&](auto tag) { mine = digest_of<decltype(tag)::value>(p, box); });
        const DigestTile sum = block_merge(mine);
        if (threadIdx.x == 0) tiles_of(slot)[tile] = sum;
    }
}

__device__ __forceinline__ void store_bits(void* data, u64 index, u32 bytes, u64 bits) {
    switch (bytes) {
        case 8:
            static_cast<u64*>(data)[index] = bits;
            break;
        case 4:
            static_cast<u32*>(data)[index] = static_cast<u32>(bits);
            break;
        case 2:
            static_cast<unsigned short*>(data)[index] = static_cast<unsigned short>(bits);
            break;
        default:
            static_cast<unsigned char*>(data)[index] = static_cast<unsigned char>(bits);
    }
}

/// Four blocks a sample.
extern "C" __global__ void __launch_bounds__(compare_threads)
    kf_digest_sample(const DigestParameters p) {
    const u32 bytes = bytes_of_type(p.dtype);
    const void* data = reinterpret_cast<const void*>(p.data);
    for (u32 part = blockIdx.x; part < 4 * p.samples; part += gridDim.x) {
        const TileBox box = box_of(p.tiling, sampled_tile(p, p.call, part / 4));
        char* sample = sample_of(p, slot_at(p, p.call), part / 4);
        for (u32 i = part % 4 * compare_threads + threadIdx.x; i < box.elements;
             i += 4 * compare_threads) {
            store_bits(sample, i, bytes, load_bits(data, index_in(p.tiling, box, i), bytes));
        }
    }
}

/// Sum of the reference's squares, in every thread.
__device__ double reference_square(const DigestTile* expected, u64 tiles) {
    DigestTile mine;
    for (u64 tile = threadIdx.x; tile < tiles; tile += compare_threads) {
        merge(mine, expected[tile]);
    }
    const DigestTile sum = block_merge(mine);
    __shared__ double total;
    if (threadIdx.x == 0) total = sum.square_sum;
    __syncthreads();
    return total;
}

template <u32 DType>
__device__ void judge_samples(DigestVerdict& mine, const DigestParameters& q, u64 call, char* slot,
                              const DigestTile* expected, double reference2) {
    DigestParameters p = q;
    p.dtype = DType;
    const u32 bytes = bytes_of_type(DType);
    const void* reference = reinterpret_cast<const void*>(p.data);
    for (u32 sample = 0; sample < p.samples; ++sample) {
        const u64 tile = sampled_tile(p, call, sample);
        const TileBox box = box_of(p.tiling, tile);
        const double norm2 = tile_norm2(p, expected[tile].square_sum, box.elements, reference2);
        const double rms = sqrt(norm2 / box.elements);
        const char* found = sample_of(p, slot, sample);
        DigestTile errors;
        for (u32 i = threadIdx.x; i < box.elements; i += compare_threads) {
            const u64 index = index_in(p.tiling, box, i);
            judge_element(mine, errors.square_sum, p, index, load_bits(found, i, bytes),
                          load_bits(reference, index, bytes), rms);
        }
        const DigestTile sum = block_merge(errors);
        if (threadIdx.x == 0) judge_sample(mine, p, sum.square_sum, norm2);
    }
}

/// One block a call.
extern "C" __global__ void __launch_bounds__(compare_threads)
    kf_digest_judge(const DigestParameters p) {
    const DigestTile* expected = tiles_of(slot_at(p, p.reference));
    const u64 tiles = digest_tiles(p);
    for (u64 call = blockIdx.x; call < p.calls; call += gridDim.x) {
        char* slot = slot_at(p, call);
        if (reinterpret_cast<const DigestHeader*>(slot)->set != p.set) continue;
        const double reference2 = reference_square(expected, tiles);
        DigestVerdict mine;
        for (u64 tile = threadIdx.x; tile < tiles; tile += compare_threads) {
            judge_tile(mine, p, tiles_of(slot)[tile], expected[tile], tile_elements(p.tiling, tile),
                       reference2);
        }
        for_type(p.dtype, [&](auto tag) {
            judge_samples<decltype(tag)::value>(mine, p, call, slot, expected, reference2);
        });
        DigestVerdict verdict = block_merge(mine);
        if (threadIdx.x != 0) continue;
        verdict.reference2 = reference2;
        verdict.worst_projection = sqrt(verdict.worst_projection);
        verdict.worst_sample = sqrt(verdict.worst_sample);
        verdict.complete = compare_complete;
        reinterpret_cast<DigestVerdict*>(p.verdicts)[call] = verdict;
    }
}

}  // namespace kernelforge::referee
