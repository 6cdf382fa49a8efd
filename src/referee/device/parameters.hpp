// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the referee's kernels are given and give back: compiled by the host compiler and by NVRTC,
// hence no includes and only types of fixed layout. Addresses are device addresses. Every kernel
// takes one such struct by value as its only parameter. Results live in device memory.

namespace kernelforge::referee {

using u32 = unsigned int;
using u64 = unsigned long long;
using s64 = long long;

/// Element types, numbered as `kernelforge::DType` (checked at compile time in device_code.cpp).
enum DeviceType : u32 {
    type_float64,
    type_float32,
    type_float16,
    type_bfloat16,
    type_float8_e4m3fn,
    type_float8_e5m2,
    type_float4_e2m1,  ///< not handled by any kernel
    type_int64,
    type_int32,
    type_int16,
    type_int8,
    type_uint8,
    type_boolean,
};

/// `kf_fill`: draws a tensor. Made by `fill_parameters` (distributions.hpp), which says what the
/// values mean; only `data` is left to the caller.
struct FillParameters {
    u64 data = 0;        ///< address of element 0, aligned to the element
    u64 count = 0;       ///< elements
    u64 row_length = 1;  ///< extent of the last axis
    u64 seed = 0;        ///< Philox key
    u32 stream = 0;      ///< third word of the Philox counter: which tensor
    u32 dtype = type_float32;
    u32 kind = 0;               ///< `InitSpec::Kind`
    u32 distribution = 0;       ///< `Distribution`; 0 (natural) for what is not scaled
    double base = 0.0;          ///< normal: mean; uniform: low; constant: value
    double width = 1.0;         ///< normal: standard deviation; uniform: high - low
    double scale = 1.0;         ///< factor of all elements, a power of two
    double impulse = 0.0;       ///< magnitude of the impulse
    u64 impulse_index = ~0ULL;  ///< its flat index; ~0: none
    u64 late_row = ~0ULL;       ///< first adversarial row; ~0: none
    s64 integer_low = 0;
    u64 integer_span = 0;  ///< number of values; 0: all 2^64
};

/// `kf_poison`: every byte becomes 0xFF, which is a NaN in every floating-point type here, -1 in
/// the signed integers and neither 0 nor 1 as a bool.
struct PoisonParameters {
    u64 data = 0;  ///< any alignment
    u64 bytes = 0;
};

/// `kf_count_nonzero`: adds the number of bytes that are not 0 to a counter that the caller has
/// cleared.
struct CountNonzeroParameters {
    u64 data = 0;  ///< any alignment
    u64 bytes = 0;
    u64 counter = 0;  ///< address of one u64
};

/// How an output is cut into tiles: a matrix [rows, columns] in tiles of tile_rows x tile_columns;
/// the last row and column of tiles absorb the remainder, so no tile is smaller than the others
/// (unless there is only one).
struct Tiling {
    u64 rows = 1;
    u64 columns = 0;
    u64 tile_rows = 1;
    u64 tile_columns = 1;
    u64 tiles_down = 1;
    u64 tiles_across = 1;
};

/// Sums over one tile (device scratch, one for each tile, not initialised by the caller).
struct TilePartial {
    double error2 = 0.0;      ///< sum of (found - expected)^2 over elements where both are finite
    double reference2 = 0.0;  ///< sum of expected^2, likewise
    double max_error = 0.0;
    u64 max_index = ~0ULL;  ///< flat index of the largest error, the lowest one of equals
    u64 bad = 0;  ///< NaN on either side, or an infinity that does not match; exact: unequal
    u64 first_bad = ~0ULL;
};

/// The whole comparison of one output (64-bit fields only; 120 bytes to copy to the host).
struct CompareResult {
    double error2 = 0.0;
    double reference2 = 0.0;
    double max_error = 0.0;
    u64 max_index = ~0ULL;
    u64 bad = 0;  ///< as in TilePartial
    u64 first_bad = ~0ULL;
    double max_tile_rms =
        0.0;  ///< largest tile error over max(tile's reference, floor of the whole)
    u64 worst_tile = ~0ULL;
    u64 far = 0;  ///< elements over the element limit (rms mode)
    u64 first_far = ~0ULL;
    double expected = 0.0;  ///< at `shown_index`
    double found = 0.0;
    u64 shown_index = ~0ULL;  ///< first_bad, else first_far, else max_index
    u64 count = 0;            ///< elements compared
    u64 complete = 0;         ///< `compare_complete` once all four kernels have run
};

inline constexpr u64 compare_complete = 0x6b66636f6d706172ULL;

/// The four kernels of a comparison, launched in this order on one stream with the same parameters:
/// `kf_compare_tiles`, `kf_compare_reduce`, `kf_compare_elements`, `kf_compare_finish`.
struct CompareParameters {
    u64 found = 0;     ///< the candidate's output
    u64 expected = 0;  ///< the reference's, same type and shape
    u64 partials = 0;  ///< TilePartial[tiles_down * tiles_across]
    u64 result = 0;    ///< one CompareResult, overwritten
    u32 dtype = type_float32;
    u32 exact = 0;  ///< 1: elements must be equal
    Tiling tiling;
    double tile_floor = 0.0;  ///< share of the whole's reference RMS below which a tile's is raised
    double element_limit = 0.0;  ///< |error| <= limit * (|expected| + max(tile RMS, floor))
};

/// `kf_flush_write` and `kf_roof_write`: 16-byte stores of a changing pattern.
/// `kf_flush_read` and `kf_roof_read`: 16-byte loads; `sink` is written only if the data are all
/// equal to a value that they never have, so that the loads stay. `kf_roof_copy`: 16-byte loads
/// from `source`, stores to `data`.
struct StreamParameters {
    u64 data = 0;     ///< aligned to 16
    u64 source = 0;   ///< aligned to 16; copy only
    u64 bytes = 0;    ///< a multiple of 16
    u64 sink = 0;     ///< one u64; reads only
    u32 pattern = 1;  ///< writes only
    u32 unused = 0;
};

/// `kf_roof_fma` (fp32), `kf_roof_mma_bf16` (mma.sync) and `kf_roof_wgmma_bf16` (Hopper module).
/// Operations of a launch: device_code.hpp. `sink` as above: one u64.
struct ComputeParameters {
    u64 sink = 0;
    u32 iterations = 1;
    u32 seed = 1;  ///< of the random, non-zero operands
};

}  // namespace kernelforge::referee
