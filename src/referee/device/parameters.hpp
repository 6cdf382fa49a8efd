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
    u64 bound = 0;         ///< offsets: the last value; distinct: number of values to choose from
    /// `InitSpec::used_by`: elements of one slice of the first axis; 0: all slices are used.
    u64 slice = 0;
    u64 slices = 0;         ///< of the first axis
    u64 used_slices = 0;    ///< how many of them the other input names
    u32 used_stream = 0;    ///< `stream` of the other input
    u32 constant_rows = 1;  ///< structured: some rows hold one value (0: none)
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

/// How an element is judged.
enum CompareMode : u32 {
    compare_rms,
    compare_exact,  ///< must be equal
    /// A logarithm: errors are divided by the largest power of two up to |expected|, when that is
    /// above 1, and measured against 1.
    compare_logarithm,
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
    u32 mode = 0;  ///< `CompareMode`
    Tiling tiling;
    double tile_floor = 0.0;  ///< share of the whole's reference RMS below which a tile's is raised
    double element_limit = 0.0;  ///< |error| <= limit * (|expected| + max(tile RMS, floor))
    /// u64[tiles + 1] of ragged outputs, ascending: tile t is the elements [starts[t], starts[t+1])
    /// and `tiling` is not used; what lies beyond the last start is not compared. 0: by `tiling`.
    u64 starts = 0;
    u64 tiles = 0;  ///< with `starts`
};

/// What is kept of one tile of an output after a timed call (docs/referee.md, "Timed calls").
struct DigestTile {
    double signed_sum = 0.0;  ///< of the finite elements, each times its secret sign
    double square_sum = 0.0;  ///< of the finite elements' squares
    u64 hash = 0;             ///< keyed sum over all elements (exact mode), else over infinite ones
    u64 nans = 0;
};

/// Start of a slot: then DigestTile[tiles], then the sampled tiles' elements, `sample_elements` of
/// room for each.
struct DigestHeader {
    u64 set = ~0ULL;  ///< which inputs the call had
    u64 unused = 0;
};

/// What the digest of one call says against the reference's on the same inputs.
struct DigestVerdict {
    double projection2 = 0.0;       ///< sum over tiles of the squared differences of signed sums
    double reference2 = 0.0;        ///< sum of the reference's squares
    double largest_tile2 = 0.0;     ///< largest sum of squares of a tile, floors included
    double worst_projection = 0.0;  ///< largest |difference| over the tile's norm
    double worst_sample = 0.0;      ///< largest normalised RMS error of a sampled tile
    u64 over = 0;        ///< tiles over their limits, by projection or, sampled ones, by RMS error
    u64 bad = 0;         ///< NaNs, tiles whose hashes differ, and bad elements of sampled tiles
    u64 far = 0;         ///< elements of sampled tiles over the element limit
    u64 first = ~0ULL;   ///< flat index of the first bad or far element of a sampled tile
    double found = 0.0;  ///< at `first`
    double expected = 0.0;
    u64 complete = 0;  ///< `compare_complete` once the call was judged
};

/// `kf_digest_tiles` and `kf_digest_sample` write slot `call` from `data`; then, once the reference
/// has run on the inputs `set` and its output, now `data`, was digested into slot `reference`,
/// `kf_digest_judge` judges all of the first `calls` slots that had these inputs.
struct DigestParameters {
    u64 data = 0;
    u64 slots = 0;       ///< address of slot 0, aligned to 256
    u64 slot_bytes = 0;  ///< from slot to slot
    u64 verdicts = 0;    ///< DigestVerdict[calls]
    u64 seed = 0;        ///< secret: Philox key of signs, hashes and samples
    u64 call = 0;
    u64 calls = 0;
    u64 reference = 0;
    u64 set = 0;
    u64 sample_elements = 0;  ///< elements of the largest tile
    u32 samples = 0;          ///< tiles that are copied, at most as many as there are
    u32 stream = 0;           ///< which output
    u32 dtype = type_float32;
    u32 exact = 0;
    Tiling tiling;
    double tile_floor = 0.0;        ///< as in CompareParameters
    double element_limit = 0.0;     ///< likewise
    double tile_limit = 0.0;        ///< on the normalised RMS error of a sampled tile
    double projection_limit = 0.0;  ///< on |difference of signed sums| over the tile's norm
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

/// `kf_scrub_shared` and `kf_scrub_local_*`, launched cooperatively: every byte of shared memory of
/// every multiprocessor, or of the local memory of every thread that can be resident, becomes 0xFF.
struct ScrubParameters {
    u64 arrivals = 0;      ///< address of one u32 that is 0 before the launch
    u64 shared_bytes = 0;  ///< dynamic shared memory of the launch, a multiple of 16; local: any
    u64 zero = 0;          ///< 0, which the compiler cannot know
};

/// `kf_stamp`: writes the device's `%globaltimer` (nanoseconds).
struct StampParameters {
    u64 slot = 0;  ///< address of one u64
};

}  // namespace kernelforge::referee
