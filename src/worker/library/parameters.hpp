// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parameters of the kernels of the trusted library steps, one struct a kernel, by value. Included
// by host and device code; NVRTC has no standard headers, so plain types only.

namespace kernelforge::worker::library {

/// Element types, as the kernels number them.
enum ElementType : int {
    element_f32 = 0,
    element_f64 = 1,
    element_f16 = 2,
    element_bf16 = 3,
    element_i32 = 4,
    element_i64 = 5,
};

/// `kf_reduce_{row,warp,column}_TYPE_OP`: reduces the middle axis of in `[outer, n, inner]`.
/// With `splits` > 1 each of them reduces `chunk` elements of n and `out` is
/// `[outer, splits, inner]`, else `[outer, inner]`.
struct ReduceParameters {
    unsigned long long in = 0;
    unsigned long long out = 0;
    long long outer = 1;
    long long n = 1;
    long long inner = 1;
    long long splits = 1;
    long long chunk = 1;   ///< the last split may have less
    double divisor = 0.0;  ///< the result is divided by it; 0: it is not
    int out_type = 0;      ///< ElementType
    int vector = 0;        ///< column kernel: every row of `inner` starts at a multiple of 16 bytes
};

constexpr int reduce_threads = 256;      ///< of every reduce kernel
constexpr int reduce_warps = 8;          ///< rows of a block of the warp kernel
constexpr int reduce_column_lanes = 32;  ///< columns (scalar) or vectors of a block
constexpr int reduce_column_rows = 8;
constexpr int reduce_vector_bytes = 16;

/// `kf_sort_block_{small,large}_{keys,pairs}_ORDER`: one block a row of at most the tile's size.
struct BlockSortParameters {
    unsigned long long keys_in = 0;
    unsigned long long keys_out = 0;    ///< 0: keys are not wanted
    unsigned long long values_in = 0;   ///< 32 bits each; 0: the index in the row
    unsigned long long values_out = 0;  ///< 32 bits each
    long long rows = 0;
    int n = 0;
};

constexpr int sort_small_threads = 128;
constexpr int sort_small_items = 8;
constexpr int sort_large_threads = 512;
constexpr int sort_large_items = 16;
constexpr int sort_large_items_wide = 8;  ///< with 8-byte keys: a tile must stay under 48 KiB
constexpr int sort_digits = 256;          ///< of a pass of 8 bits

/// `kf_sort_histogram_ORDER` and `kf_sort_sweep_{keys,pairs}_ORDER`: radix sort of long rows.
/// blockIdx.y is the row.
struct SweepParameters {
    unsigned long long keys_in = 0;
    unsigned long long keys_out = 0;
    unsigned long long values_in = 0;
    unsigned long long values_out = 0;
    unsigned long long bins = 0;      ///< u32 [rows, passes, 256]
    unsigned long long lookback = 0;  ///< i32 [rows, tiles, 256], zeroed before each pass
    unsigned long long counters = 0;  ///< i32 [rows, passes], zeroed before the first pass
    int n = 0;
    int tiles = 0;
    int pass = 0;
    int passes = 0;
};

constexpr int sweep_threads = 384;
constexpr int histogram_threads = 128;
constexpr int histogram_items = 16;
constexpr int sweep_items = 21;       ///< keys a thread of the sweep
constexpr int sweep_items_wide = 11;  ///< with 8-byte keys: a tile must stay under 48 KiB

/// `kf_sort_scan`: exclusive sums of each row of bins, in place. One block a row.
struct ScanParameters {
    unsigned long long bins = 0;  ///< u32 [gridDim.x, 256]
};

/// `kf_sort_index`: out[i] = i mod n, 32 bits.
struct IndexParameters {
    unsigned long long out = 0;
    long long count = 0;
    int n = 1;
};

/// `kf_sort_gather`: out[row, i] = in[row, index[row, i]], or the index itself.
struct GatherParameters {
    unsigned long long index = 0;  ///< u32 [rows, n]
    unsigned long long in = 0;     ///< 0: the index is the value
    unsigned long long out = 0;
    long long count = 0;
    int n = 1;
    int bytes = 4;  ///< of a value: 1, 2, 4 or 8
};

/// `kf_library_fill`: random bits, of which each element keeps `keep` and has `set` added.
struct PatternParameters {
    unsigned long long out = 0;
    unsigned long long bytes = 0;  ///< a multiple of 8
    unsigned long long keep = 0;   ///< repeated over 8 bytes
    unsigned long long set = 0;
    unsigned long long seed = 0;
};

/// `kf_library_delay`: one thread that waits.
struct DelayParameters {
    unsigned long long ns = 0;
};

}  // namespace kernelforge::worker::library
