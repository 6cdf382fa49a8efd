// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/elements.hpp"

namespace kernelforge::referee {

constexpr u32 compare_threads = 256;
constexpr u32 reduce_threads = 1024;

/// Where a tile lies.
struct TileBox {
    u64 row;
    u64 column;
    u32 width;
    u32 elements;  ///< below 2^17 by the choice of tile sizes
};

__device__ __forceinline__ TileBox box_of(const Tiling& t, u64 tile) {
    const u64 down = tile / t.tiles_across;
    const u64 across = tile - down * t.tiles_across;
    TileBox box;
    box.row = tile_begin(down, t.tile_rows);
    box.column = tile_begin(across, t.tile_columns);
    const u64 height = tile_end(down, t.tiles_down, t.tile_rows, t.rows) - box.row;
    const u64 width = tile_end(across, t.tiles_across, t.tile_columns, t.columns) - box.column;
    box.width = static_cast<u32>(width);
    box.elements = static_cast<u32>(height * width);
    return box;
}

__device__ __forceinline__ TileBox box_of(const CompareParameters& p, u64 tile) {
    if (p.starts == 0) return box_of(p.tiling, tile);
    const u64 start = reinterpret_cast<const u64*>(p.starts)[tile];
    const u32 elements = static_cast<u32>(tile_elements(p, tile));
    return TileBox{0, start, elements, elements};
}

__device__ __forceinline__ u64 index_in(const Tiling& t, const TileBox& box, u32 i) {
    const u32 row = i / box.width;
    return (box.row + row) * t.columns + box.column + (i - row * box.width);
}

/// Sum of all threads' partials, valid in thread 0; always in the same order.
template <u32 Threads>
__device__ TilePartial block_sum(TilePartial mine) {
    __shared__ TilePartial shared[Threads];
    __syncthreads();
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (u32 step = Threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) merge(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    return shared[0];
}

/// The mode of a comparison; integers have no logarithms, and no code for them.
template <u32 DType>
__device__ __forceinline__ u32 mode_of(const CompareParameters& p) {
    if (is_floating(DType)) return p.mode;
    return p.mode == compare_exact ? compare_exact : compare_rms;
}

template <u32 DType>
__device__ TilePartial tile_sum(const CompareParameters& p, const TileBox& box) {
    const u32 bytes = bytes_of_type(DType);
    const void* found = reinterpret_cast<const void*>(p.found);
    const void* expected = reinterpret_cast<const void*>(p.expected);
    TilePartial mine;
    for (u32 i = threadIdx.x; i < box.elements; i += compare_threads) {
        const u64 index = index_in(p.tiling, box, i);
        add_element(mine, DType, mode_of<DType>(p), index, load_bits(found, index, bytes),
                    load_bits(expected, index, bytes));
    }
    return mine;
}

template <u32 DType>
__device__ void compare_elements(const CompareParameters& p) {
    const u32 bytes = bytes_of_type(DType);
    const void* found = reinterpret_cast<const void*>(p.found);
    const void* expected = reinterpret_cast<const void*>(p.expected);
    const TilePartial* partials = reinterpret_cast<const TilePartial*>(p.partials);
    CompareResult* result = reinterpret_cast<CompareResult*>(p.result);
    const u64 tiles = tiles_of(p);
    u64 far = 0;
    u64 first = ~0ULL;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const TileBox box = box_of(p, tile);
        const double rms = sqrt(tile_mean_square(partials[tile].reference2, box.elements,
                                                 result->reference2, result->count, p.tile_floor));
        for (u32 i = threadIdx.x; i < box.elements; i += compare_threads) {
            const u64 index = index_in(p.tiling, box, i);
            const double f = decode(DType, load_bits(found, index, bytes));
            const double e = decode(DType, load_bits(expected, index, bytes));
            if (!is_far(mode_of<DType>(p), f, e, rms, p.element_limit)) continue;
            ++far;
            first = index < first ? index : first;
        }
    }
    // Sums and minima of integers do not depend on the order of the threads.
    if (far != 0) {
        atomicAdd(&result->far, far);
        atomicMin(&result->first_far, first);
    }
}

template <u32 DType>
struct Tag {
    static constexpr u32 value = DType;
};

template <class F>
__device__ __forceinline__ void for_type(u32 dtype, F&& f) {
    switch (dtype) {
        case type_float64:
            return f(Tag<type_float64>{});
        case type_float32:
            return f(Tag<type_float32>{});
        case type_float16:
            return f(Tag<type_float16>{});
        case type_bfloat16:
            return f(Tag<type_bfloat16>{});
        case type_float8_e4m3fn:
            return f(Tag<type_float8_e4m3fn>{});
        case type_float8_e5m2:
            return f(Tag<type_float8_e5m2>{});
        case type_int64:
            return f(Tag<type_int64>{});
        case type_int32:
            return f(Tag<type_int32>{});
        case type_int16:
            return f(Tag<type_int16>{});
        case type_int8:
            return f(Tag<type_int8>{});
        case type_uint8:
            return f(Tag<type_uint8>{});
        default:
            return f(Tag<type_boolean>{});
    }
}

extern "C" __global__ void __launch_bounds__(compare_threads)
    kf_compare_tiles(const CompareParameters p) {
    TilePartial* partials = reinterpret_cast<TilePartial*>(p.partials);
    const u64 tiles = tiles_of(p);
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const TileBox box = box_of(p, tile);
        TilePartial mine;
        for_type(p.dtype, [&](auto tag) { mine = tile_sum<decltype(tag)::value>(p, box); });
        const TilePartial sum = block_sum<compare_threads>(mine);
        if (threadIdx.x == 0) partials[tile] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(compare_threads)
    kf_compare_elements(const CompareParameters p) {
    if (p.mode == compare_exact) return;
    for_type(p.dtype, [&](auto tag) { compare_elements<decltype(tag)::value>(p); });
}

/// Worst tile: largest error, the lowest number of equals.
struct WorstTile {
    double error2 = -1.0;
    u64 tile = ~0ULL;
};

__device__ __forceinline__ void keep_worst(WorstTile& into, const WorstTile& other) {
    if (other.error2 > into.error2 || (other.error2 == into.error2 && other.tile < into.tile)) {
        into = other;
    }
}

extern "C" __global__ void __launch_bounds__(reduce_threads)
    kf_compare_reduce(const CompareParameters p) {
    const TilePartial* partials = reinterpret_cast<const TilePartial*>(p.partials);
    CompareResult* result = reinterpret_cast<CompareResult*>(p.result);
    const u64 tiles = tiles_of(p);
    const u64 count = elements_of(p);
    // Static shared memory holds 48 KiB, so the 1024 threads are summed in four rounds of 256.
    __shared__ TilePartial total;
    if (threadIdx.x == 0) total = TilePartial{};
    TilePartial mine;
    for (u64 tile = threadIdx.x; tile < tiles; tile += reduce_threads) merge(mine, partials[tile]);
    __shared__ TilePartial shared[256];
    for (u32 round = 0; round < reduce_threads / 256; ++round) {
        __syncthreads();
        if (threadIdx.x / 256 == round) shared[threadIdx.x % 256] = mine;
        __syncthreads();
        for (u32 step = 128; step > 0; step /= 2) {
            if (threadIdx.x < step) merge(shared[threadIdx.x], shared[threadIdx.x + step]);
            __syncthreads();
        }
        if (threadIdx.x == 0) merge(total, shared[0]);
    }
    __syncthreads();

    WorstTile worst;
    for (u64 tile = threadIdx.x; tile < tiles; tile += reduce_threads) {
        const u64 elements = tile_elements(p, tile);
        const double square = tile_mean_square(partials[tile].reference2, elements,
                                               total.reference2, count, p.tile_floor);
        keep_worst(worst,
                   WorstTile{tile_error_square(partials[tile].error2, elements, square), tile});
    }
    __shared__ WorstTile worsts[reduce_threads];
    worsts[threadIdx.x] = worst;
    __syncthreads();
    for (u32 step = reduce_threads / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) keep_worst(worsts[threadIdx.x], worsts[threadIdx.x + step]);
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    CompareResult r;
    r.error2 = total.error2;
    r.reference2 = total.reference2;
    r.max_error = total.max_error;
    r.max_index = total.max_index;
    r.bad = total.bad;
    r.first_bad = total.first_bad;
    r.max_tile_rms = tiles == 0 ? 0.0 : sqrt(worsts[0].error2);
    r.worst_tile = worsts[0].tile;
    r.count = count;
    *result = r;
}

extern "C" __global__ void __launch_bounds__(32) kf_compare_finish(const CompareParameters p) {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    CompareResult* result = reinterpret_cast<CompareResult*>(p.result);
    u64 index = result->first_bad;
    if (index == ~0ULL) index = result->first_far;
    if (index == ~0ULL) index = result->max_index;
    if (index != ~0ULL) {
        const u32 bytes = bytes_of_type(p.dtype);
        result->found =
            decode(p.dtype, load_bits(reinterpret_cast<const void*>(p.found), index, bytes));
        result->expected =
            decode(p.dtype, load_bits(reinterpret_cast<const void*>(p.expected), index, bytes));
    }
    result->shown_index = index;
    result->complete = compare_complete;
}

}  // namespace kernelforge::referee
