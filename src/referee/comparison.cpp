// SPDX-License-Identifier: Apache-2.0
#include "referee/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "kernelforge/error.hpp"
#include "referee/device/elements.hpp"
#include "referee/distributions.hpp"

namespace kernelforge::referee {
namespace {

constexpr u64 tile_side = 128;
constexpr u64 tile_run = tile_side * tile_side;

void check_kind(const CompareSpec& spec) {
    switch (spec.kind) {
        case CompareSpec::Kind::rms:
        case CompareSpec::Kind::exact:
        case CompareSpec::Kind::lse:
        case CompareSpec::Kind::ragged:
            return;
        default:
            throw Error(ErrorCode::unsupported,
                        "comparison: only rms, exact, lse and ragged are sums over elements");
    }
}

CompareMode mode_of(const CompareSpec& spec) {
    if (spec.kind == CompareSpec::Kind::exact) return compare_exact;
    return spec.kind == CompareSpec::Kind::lse ? compare_logarithm : compare_rms;
}

/// Walks the elements of one tile in ascending order of index.
template <class F>
void for_tile(const CompareParameters& p, u64 tile, F&& f) {
    if (p.starts != 0) {
        const u64* starts = reinterpret_cast<const u64*>(p.starts);
        for (u64 index = starts[tile]; index < starts[tile + 1]; ++index) f(index);
        return;
    }
    const Tiling& t = p.tiling;
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

void note_worst_tile(CompareResult& r, const CompareParameters& p,
                     const std::vector<TilePartial>& partials) {
    double worst = -1.0;
    for (u64 tile = 0; tile < partials.size(); ++tile) {
        const u64 elements = tile_elements(p, tile);
        const double square =
            tile_error_square(partials[tile].error2, elements,
                              tile_mean_square(partials[tile].reference2, elements, r.reference2,
                                               r.count, p.tile_floor));
        if (square <= worst) continue;
        worst = square;
        r.worst_tile = tile;
    }
    r.max_tile_rms = partials.empty() ? 0.0 : std::sqrt(worst);
}

void note_far(CompareResult& r, const CompareParameters& p,
              const std::vector<TilePartial>& partials, const std::byte* found,
              const std::byte* expected) {
    const u32 bytes = bytes_of_type(p.dtype);
    for (u64 tile = 0; tile < partials.size(); ++tile) {
        const double rms =
            std::sqrt(tile_mean_square(partials[tile].reference2, tile_elements(p, tile),
                                       r.reference2, r.count, p.tile_floor));
        for_tile(p, tile, [&](u64 index) {
            if (!is_far(p.mode, decode(p.dtype, load_bits(found, index, bytes)),
                        decode(p.dtype, load_bits(expected, index, bytes)), rms, p.element_limit)) {
                return;
            }
            ++r.far;
            r.first_far = std::min(r.first_far, index);
        });
    }
}

double normalised(double error2, double reference2) {
    if (error2 == 0.0) return 0.0;
    if (reference2 == 0.0) return std::numeric_limits<double>::infinity();
    return std::sqrt(error2) / std::sqrt(reference2);
}

/// The larger of the two errors over its limit; how bad a verdict is.
double excess(const OutputError& error) {
    if (error.rms_limit <= 0.0) return 0.0;
    const double value =
        std::max(error.normalised_rms / error.rms_limit, error.max_tile_rms / error.tile_limit);
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

std::string place(std::int64_t index, std::span<const std::int64_t> shape) {
    if (shape.empty()) return fmt::format("flat index {}", index);
    std::vector<std::int64_t> coordinates(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        const std::int64_t extent = std::max<std::int64_t>(shape[axis], 1);
        coordinates[axis] = index % extent;
        index /= extent;
    }
    std::string text = "[";
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        text += (axis == 0 ? "" : ", ") + std::to_string(coordinates[axis]);
    }
    return text + "]";
}

}  // namespace

Tiling tiling_of(std::span<const std::int64_t> shape) {
    const FillParameters extents =
        fill_parameters({}, DType::uint8, shape, Distribution::natural, 0, 0);
    Tiling t;
    t.columns = extents.count;
    if (extents.count == 0) {
        t.tiles_down = t.tiles_across = 0;
        return t;
    }
    t.tile_columns = tile_run;
    const u64 rows = extents.count / extents.row_length;
    if (rows >= tile_side && extents.row_length >= tile_side) {
        t.rows = rows;
        t.columns = extents.row_length;
        t.tile_rows = t.tile_columns = tile_side;
    }
    t.tiles_down = std::max<u64>(1, t.rows / t.tile_rows);
    t.tiles_across = std::max<u64>(1, t.columns / t.tile_columns);
    return t;
}

CompareParameters compare_parameters(const CompareSpec& spec, DType dtype,
                                     std::span<const std::int64_t> shape) {
    check_kind(spec);
    if (dtype == DType::float4_e2m1) {
        throw Error(ErrorCode::unsupported, "outputs of type float4_e2m1 cannot be compared yet");
    }
    CompareParameters p;
    p.dtype = static_cast<u32>(dtype);
    p.tiling = tiling_of(shape);
    p.mode = mode_of(spec);
    p.tile_floor = tile_floor;
    if (p.mode != compare_exact) {
        p.element_limit = limits_of(spec, p.tiling.rows * p.tiling.columns).element;
    }
    return p;
}

std::uint64_t tile_count(const CompareParameters& parameters) {
    return tiles_of(parameters);
}

CompareResult compare_on_host(const CompareParameters& parameters, std::span<const std::byte> found,
                              std::span<const std::byte> expected,
                              std::span<const std::uint64_t> starts) {
    CompareParameters p = parameters;
    static_assert(sizeof(u64) == sizeof(std::uint64_t));
    p.starts = reinterpret_cast<u64>(starts.data());
    p.tiles = starts.empty() ? 0 : starts.size() - 1;
    const u32 bytes = bytes_of_type(p.dtype);
    const u64 count = p.tiling.rows * p.tiling.columns;
    if (found.size() != count * bytes || expected.size() != count * bytes) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("comparison: expected two buffers of {} bytes, found {} and {}",
                                count * bytes, found.size(), expected.size()));
    }
    CompareResult r;
    r.count = elements_of(p);
    std::vector<TilePartial> partials(tiles_of(p));
    TilePartial total;
    for (u64 tile = 0; tile < partials.size(); ++tile) {
        for_tile(p, tile, [&](u64 index) {
            add_element(partials[tile], p.dtype, p.mode, index,
                        load_bits(found.data(), index, bytes),
                        load_bits(expected.data(), index, bytes));
        });
        merge(total, partials[tile]);
    }
    r.error2 = total.error2;
    r.reference2 = total.reference2;
    r.max_error = total.max_error;
    r.max_index = total.max_index;
    r.bad = total.bad;
    r.first_bad = total.first_bad;
    note_worst_tile(r, p, partials);
    if (p.mode != compare_exact) note_far(r, p, partials, found.data(), expected.data());
    r.shown_index = r.first_bad;
    if (r.shown_index == ~0ULL) r.shown_index = r.first_far;
    if (r.shown_index == ~0ULL) r.shown_index = r.max_index;
    if (r.shown_index != ~0ULL) {
        r.found = decode(p.dtype, load_bits(found.data(), r.shown_index, bytes));
        r.expected = decode(p.dtype, load_bits(expected.data(), r.shown_index, bytes));
    }
    r.complete = compare_complete;
    return r;
}

OutputError judge(const std::string& output, const CompareSpec& spec, const CompareResult& result,
                  std::string_view distribution) {
    check_kind(spec);
    OutputError error;
    error.output = output;
    error.distribution = distribution;
    error.normalised_rms = normalised(result.error2, result.reference2);
    error.max_tile_rms = result.max_tile_rms;
    error.mismatches = static_cast<std::int64_t>(result.bad + result.far);
    const u64 first = result.first_bad != ~0ULL ? result.first_bad : result.first_far;
    if (first != ~0ULL) error.first_index = static_cast<std::int64_t>(first);
    error.expected = result.expected;
    error.found = result.found;
    error.ok = result.complete == compare_complete && error.mismatches == 0;
    if (spec.kind == CompareSpec::Kind::exact) return error;
    const Limits limits = limits_of(spec, result.count);
    error.rms_limit = limits.rms;
    error.tile_limit = limits.tile;
    // Written so that a NaN fails.
    error.ok = error.ok && error.normalised_rms <= limits.rms && error.max_tile_rms <= limits.tile;
    return error;
}

void keep_worse(OutputError& kept, const OutputError& other) {
    const auto key = [](const OutputError& e) {
        return std::make_tuple(!e.ok, e.mismatches, excess(e));
    };
    if (key(other) > key(kept)) kept = other;
}

std::string describe(const OutputError& error) {
    return describe(error, {});
}

std::string describe(const OutputError& error, std::span<const std::int64_t> shape) {
    if (error.ok) return {};
    const bool exact = error.rms_limit == 0.0;
    std::string text = "output " + error.output + ": ";
    if (error.mismatches > 0) {
        text += fmt::format(
            "{} {}{}", error.mismatches, error.mismatches == 1 ? "element is " : "elements are ",
            exact ? "not equal to the reference" : "NaN, infinite, unwritten or far off");
        if (error.first_index) {
            text += fmt::format(", the first at {}: expected {:.7g}, found {:.7g}",
                                place(*error.first_index, shape), error.expected, error.found);
        }
    }
    if (!exact) {
        const bool rms = !(error.normalised_rms <= error.rms_limit);
        if (error.mismatches > 0) text += "; ";
        text += fmt::format("normalised RMS error {:.2e} {} {:.1e}, worst tile {:.2e} {} {:.1e}",
                            error.normalised_rms, rms ? "exceeds" : "is within", error.rms_limit,
                            error.max_tile_rms,
                            !(error.max_tile_rms <= error.tile_limit) ? "exceeds" : "is within",
                            error.tile_limit);
        if (error.mismatches == 0) {
            text += fmt::format("; at the largest error expected {:.7g}, found {:.7g}",
                                error.expected, error.found);
        }
    }
    if (!error.distribution.empty()) text += " (" + error.distribution + " inputs)";
    return text;
}

}  // namespace kernelforge::referee
