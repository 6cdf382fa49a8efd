// SPDX-License-Identifier: Apache-2.0
#include "referee/digest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "kernelforge/error.hpp"
#include "referee/comparison.hpp"
#include "referee/device/digest_elements.hpp"
#include "referee/limits.hpp"

namespace kernelforge::referee {
namespace {

constexpr u32 most_samples = 16;
/// Standard deviations that a projection of permitted errors may reach: exceeded with probability
/// below 2 exp(-32).
constexpr double deviations = 8.0;
/// Exponent of the bound on the sum over tiles: exceeded with probability below exp(-32).
constexpr double exponent = 32.0;

u64 largest_tile(const Tiling& t) {
    u64 largest = 0;
    for (const u64 down : {u64{0}, t.tiles_down - 1}) {
        for (const u64 across : {u64{0}, t.tiles_across - 1}) {
            largest = std::max(largest, tile_elements(t, down * t.tiles_across + across));
        }
    }
    return largest;
}

/// Calls f(position in the tile, flat index).
template <class F>
void for_tile(const Tiling& t, u64 tile, F&& f) {
    const u64 down = tile / t.tiles_across;
    const u64 across = tile % t.tiles_across;
    const u64 row_end = tile_end(down, t.tiles_down, t.tile_rows, t.rows);
    const u64 column_end = tile_end(across, t.tiles_across, t.tile_columns, t.columns);
    for (u64 row = tile_begin(down, t.tile_rows); row < row_end; ++row) {
        for (u64 column = tile_begin(across, t.tile_columns); column < column_end; ++column) {
            f(row * t.columns + column);
        }
    }
}

void check_size(const DigestParameters& p, std::span<const std::byte> data) {
    const u64 bytes = p.tiling.rows * p.tiling.columns * bytes_of_type(p.dtype);
    if (data.size() == bytes) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("digest: expected {} bytes, found {}", bytes, data.size()));
}

}  // namespace

bool has_digest(const CompareSpec& spec) {
    return spec.kind == CompareSpec::Kind::rms || spec.kind == CompareSpec::Kind::exact;
}

DigestParameters digest_parameters(const CompareSpec& spec, DType dtype,
                                   std::span<const std::int64_t> shape, std::uint32_t stream,
                                   std::size_t sample_bytes) {
    if (!has_digest(spec)) {
        throw Error(ErrorCode::unsupported, "digest: only outputs compared by rms or exact");
    }
    const CompareParameters compare = compare_parameters(spec, dtype, shape);
    DigestParameters p;
    p.stream = stream;
    p.dtype = compare.dtype;
    p.exact = compare.mode == compare_exact ? 1 : 0;
    p.tiling = compare.tiling;
    p.tile_floor = compare.tile_floor;
    p.element_limit = compare.element_limit;
    const u64 tiles = digest_tiles(p);
    if (tiles == 0) return p;
    p.sample_elements = largest_tile(p.tiling);
    const u64 affordable = sample_bytes / (p.sample_elements * bytes_of_type(p.dtype));
    p.samples = static_cast<u32>(std::min<u64>({affordable, tiles, most_samples}));
    if (p.exact == 0) {
        const Limits limits = limits_of(spec.tier, spec.slack, p.tiling.rows * p.tiling.columns);
        p.tile_limit = limits.tile;
        p.projection_limit = deviations * limits.tile;
    }
    return p;
}

std::size_t digest_slot_bytes(const DigestParameters& p) {
    constexpr std::size_t alignment = 256;
    const std::size_t bytes = sizeof(DigestHeader) + digest_tiles(p) * sizeof(DigestTile) +
                              p.samples * p.sample_elements * bytes_of_type(p.dtype);
    return (bytes + alignment - 1) / alignment * alignment;
}

std::vector<DigestTile> digest_on_host(const DigestParameters& p, std::span<const std::byte> data) {
    check_size(p, data);
    std::vector<DigestTile> tiles(digest_tiles(p));
    for (u64 tile = 0; tile < tiles.size(); ++tile) {
        Signs signs;
        for_tile(p.tiling, tile, [&](u64 index) {
            add_to_digest(tiles[tile], signs, p, index,
                          load_bits(data.data(), index, bytes_of_type(p.dtype)));
        });
    }
    return tiles;
}

DigestVerdict judge_on_host(const DigestParameters& p, std::span<const DigestTile> found,
                            std::span<const std::byte> found_data,
                            std::span<const std::byte> reference) {
    check_size(p, found_data);
    const std::vector<DigestTile> expected = digest_on_host(p, reference);
    const u32 bytes = bytes_of_type(p.dtype);
    DigestVerdict v;
    for (const DigestTile& tile : expected) v.reference2 += tile.square_sum;
    for (u64 tile = 0; tile < expected.size(); ++tile) {
        judge_tile(v, p, found[tile], expected[tile], tile_elements(p.tiling, tile), v.reference2);
    }
    for (u32 sample = 0; sample < p.samples; ++sample) {
        const u64 tile = sampled_tile(p, p.call, sample);
        const u64 elements = tile_elements(p.tiling, tile);
        const double norm2 = tile_norm2(p, expected[tile].square_sum, elements, v.reference2);
        const double rms = std::sqrt(norm2 / static_cast<double>(elements));
        double error2 = 0.0;
        for_tile(p.tiling, tile, [&](u64 index) {
            judge_element(v, error2, p, index, load_bits(found_data.data(), index, bytes),
                          load_bits(reference.data(), index, bytes), rms);
        });
        judge_sample(v, p, error2, norm2);
    }
    v.worst_projection = std::sqrt(v.worst_projection);
    v.worst_sample = std::sqrt(v.worst_sample);
    v.complete = compare_complete;
    return v;
}

double whole_projection_limit(double rms_limit, double reference2, double largest_tile2) {
    if (reference2 <= 0.0) return 0.0;
    const double share = std::min(largest_tile2 / reference2, 1.0);
    return rms_limit * std::sqrt(std::max(
                           4.0, 1.0 + 4.0 * std::sqrt(exponent * share) + 8.0 * exponent * share));
}

OutputError judge_digest(const std::string& output, const CompareSpec& spec,
                         const DigestParameters& p, const DigestVerdict& verdict,
                         std::string_view what) {
    OutputError error;
    error.output = output;
    error.distribution = what;
    error.mismatches = static_cast<std::int64_t>(verdict.bad + verdict.far);
    if (verdict.first != ~0ULL) error.first_index = static_cast<std::int64_t>(verdict.first);
    error.expected = verdict.expected;
    error.found = verdict.found;
    error.ok = digest_tiles(p) == 0 ||
               (verdict.complete == compare_complete && error.mismatches == 0 && verdict.over == 0);
    if (spec.kind == CompareSpec::Kind::exact) return error;
    if (verdict.projection2 != 0.0) {
        error.normalised_rms = verdict.reference2 > 0.0
                                   ? std::sqrt(verdict.projection2 / verdict.reference2)
                                   : std::numeric_limits<double>::infinity();
    }
    const Limits limits = limits_of(spec.tier, spec.slack, p.tiling.rows * p.tiling.columns);
    error.rms_limit = std::max(
        whole_projection_limit(limits.rms, verdict.reference2, verdict.largest_tile2), limits.rms);
    error.tile_limit = limits.tile;
    error.max_tile_rms = std::max(verdict.worst_projection / deviations, verdict.worst_sample);
    // Written so that a NaN fails.
    error.ok = error.ok && error.normalised_rms <= error.rms_limit;
    return error;
}

}  // namespace kernelforge::referee
