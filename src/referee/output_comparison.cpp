// SPDX-License-Identifier: Apache-2.0
#include "referee/output_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "kernelforge/error.hpp"
#include "referee/comparison.hpp"
#include "referee/device/elements.hpp"
#include "referee/distributions.hpp"
#include "referee/limits.hpp"

namespace kernelforge::referee {
namespace {

constexpr u64 tile_run = 16384;

s64 integer_at(u32 dtype, std::span<const std::byte> data, u64 index) {
    const u64 bits = load_bits(data.data(), index, bytes_of_type(dtype));
    switch (dtype) {
        case type_int64:
            return static_cast<s64>(bits);
        default:
            return static_cast<s64>(decode(dtype, bits));
    }
}

const TensorSpec& find(const std::vector<TensorSpec>& tensors, const std::string& name,
                       const std::string& output) {
    for (const TensorSpec& tensor : tensors) {
        if (tensor.name == name) return tensor;
    }
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("output {}: its comparison names \"{}\", which is not there", output, name));
}

std::int64_t extent(const std::map<std::string, std::int64_t>& axes, const std::string& axis) {
    const auto found = axes.find(axis);
    if (found != axes.end()) return found->second;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("comparison: expected a value of axis {}, found none", axis));
}

/// The values of one run of a set output.
void read_run(u32 dtype, std::span<const std::byte> data, u64 row, u64 length,
              std::vector<s64>& values) {
    values.resize(length);
    for (u64 i = 0; i < length; ++i) values[i] = integer_at(dtype, data, row * length + i);
}

/// What is in `a` and not in `b`, both sorted, each value as often as it is missing.
std::vector<s64> difference(const std::vector<s64>& a, const std::vector<s64>& b) {
    std::vector<s64> left;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(left));
    return left;
}

/// A mark for each value in [0, n) of every run.
class Ties {
  public:
    Ties(std::span<const std::byte> marks, u64 rows)
        : marks_(marks), length_(rows == 0 ? 0 : marks.size() / rows) {}
    [[nodiscard]] bool marked(u64 row, s64 value) const {
        const auto index = static_cast<u64>(value);
        return value >= 0 && index < length_ && marks_[row * length_ + index] == std::byte{1};
    }

  private:
    std::span<const std::byte> marks_;
    u64 length_;
};

/// One run of a set output.
class SetRun {
  public:
    SetRun(u32 dtype, u64 length) : dtype_(dtype), length_(length) {}

    /// @returns the first value that is wrong, nothing when the run is right
    std::optional<s64> wrong(std::span<const std::byte> found, std::span<const std::byte> expected,
                             u64 row, const Ties& ties) {
        read_run(dtype_, found, row, length_, found_);
        read_run(dtype_, expected, row, length_, expected_);
        if (found_ == expected_) return std::nullopt;
        std::sort(found_.begin(), found_.end());
        std::sort(expected_.begin(), expected_.end());
        for (const s64 value : difference(found_, expected_)) {
            // A value that is there already does not become right by being a near tie.
            const bool again = std::binary_search(expected_.begin(), expected_.end(), value) ||
                               std::count(found_.begin(), found_.end(), value) > 1;
            if (again || !ties.marked(row, value)) return value;
        }
        for (const s64 value : difference(expected_, found_)) {
            if (!ties.marked(row, value)) return value;
        }
        return std::nullopt;
    }

  private:
    u32 dtype_;
    u64 length_;
    std::vector<s64> found_;
    std::vector<s64> expected_;
};

/// Where a run of the reference has each value of the candidate's run; empty when the runs do not
/// hold the same different values.
std::vector<u64> partners(const std::vector<s64>& found, const std::vector<s64>& expected) {
    std::vector<std::pair<s64, u64>> places;
    for (u64 i = 0; i < expected.size(); ++i) places.emplace_back(expected[i], i);
    std::sort(places.begin(), places.end());
    std::vector<bool> taken(expected.size());
    std::vector<u64> result;
    for (const s64 value : found) {
        auto place = std::lower_bound(places.begin(), places.end(), std::pair<s64, u64>{value, 0});
        while (place != places.end() && place->first == value && taken[place->second]) ++place;
        if (place == places.end() || place->first != value) return {};
        taken[place->second] = true;
        result.push_back(place->second);
    }
    return result;
}

/// A hash of 64 bits; nobody who does not write the data can aim at it.
u64 hash_of(std::span<const std::byte> data) {
    u64 hash = data.size();
    for (std::size_t at = 0; at < data.size(); at += sizeof(u64)) {
        u64 word = 0;
        std::memcpy(&word, data.data() + at, std::min(sizeof(u64), data.size() - at));
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32;
    }
    return hash;
}

/// Both transforms of one sample.
struct Transforms {
    double by_value = 0.0;
    double by_probability = 0.0;
};

/// The randomised probability integral transform (Czado, Gneiting, Held: "Predictive model
/// assessment for count data", Biometrics 2009): F(s-1) + v (F(s) - F(s-1)) is uniform when s is
/// drawn from F and v is uniform. Once in the order of the values, and once in that of falling
/// probability, in which always taking the likeliest shows.
Transforms transform(std::span<const float> row, u64 sample, const Words& random) {
    const double own = row[sample];
    double total = 0.0;
    double before = 0.0;
    double likelier = 0.0;
    for (u64 i = 0; i < row.size(); ++i) {
        const double p = row[i];
        if (!(p >= 0.0) || !is_finite(p)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("the reference's probability of value {} is {}", i, p));
        }
        total += p;
        if (i < sample) before += p;
        if (p > own || (p == own && i < sample)) likelier += p;
    }
    if (!(total > 0.0)) {
        throw Error(ErrorCode::invalid_argument, "the reference's probabilities are all zero");
    }
    return {(before + unit_uniform(random.w[0], random.w[1]) * own) / total,
            (likelier + unit_uniform(random.w[2], random.w[3]) * own) / total};
}

}  // namespace

double distance_from_uniform(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto n = static_cast<double>(values.size());
    double distance = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto rank = static_cast<double>(i);
        distance = std::max({distance, values[i] - rank / n, (rank + 1.0) / n - values[i]});
    }
    return distance;
}

double uniform_distance_limit(std::uint64_t n) {
    return std::sqrt(std::log(2e6) / (2.0 * static_cast<double>(std::max<std::uint64_t>(n, 1))));
}

OutputComparison::OutputComparison(const Task& task, const TensorSpec& output,
                                   const std::map<std::string, std::int64_t>& axes)
    : output_(output), spec_(compare_of(task, output)) {
    (void)element_bytes(output.dtype);
    for (const std::string& axis : output.shape) shape_.push_back(extent(axes, axis));
    const bool runs = spec_.kind == CompareSpec::Kind::set ||
                      spec_.kind == CompareSpec::Kind::by_index ||
                      spec_.kind == CompareSpec::Kind::ragged;
    if (runs && shape_.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("output {}: expected at least one axis", output.name));
    }
    if (spec_.kind == CompareSpec::Kind::by_index) {
        const TensorSpec& index = find(task.definition.outputs, spec_.index, output.name);
        index_type_ = static_cast<u32>(index.dtype);
    }
    if (spec_.kind == CompareSpec::Kind::ragged) {
        const TensorSpec& offsets = find(task.definition.inputs, spec_.offsets, output.name);
        offsets_type_ = static_cast<u32>(offsets.dtype);
        segments_ =
            static_cast<u64>(std::max<std::int64_t>(extent(axes, offsets.shape.at(0)) - 1, 0));
    }
}

bool OutputComparison::uses_kernels() const noexcept {
    switch (spec_.kind) {
        case CompareSpec::Kind::rms:
        case CompareSpec::Kind::exact:
        case CompareSpec::Kind::lse:
        case CompareSpec::Kind::ragged:
            return true;
        default:
            return false;
    }
}

const std::string& OutputComparison::workspace() const noexcept {
    return spec_.kind == CompareSpec::Kind::set ? spec_.ties : spec_.probabilities;
}

std::uint64_t OutputComparison::count() const {
    const Tiling tiling = tiling_of(shape_);
    return tiling.rows * tiling.columns;
}

CompareParameters OutputComparison::parameters() const {
    CompareParameters p = compare_parameters(spec_, output_.dtype, shape_);
    if (spec_.kind == CompareSpec::Kind::ragged) p.tiles = segments_ + count() / tile_run;
    return p;
}

std::vector<std::uint64_t> OutputComparison::tile_starts(std::span<const std::byte> offsets) const {
    const u64 rows = static_cast<u64>(shape_.at(0));
    const u64 row = rows == 0 ? 0 : count() / rows;
    if (offsets.size() != (segments_ + 1) * bytes_of_type(offsets_type_)) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("output {}: expected {} offsets, found {} bytes", output_.name,
                                segments_ + 1, offsets.size()));
    }
    std::vector<std::uint64_t> starts = {0};
    for (u64 segment = 0; segment < segments_; ++segment) {
        const s64 begin = integer_at(offsets_type_, offsets, segment);
        const s64 end = integer_at(offsets_type_, offsets, segment + 1);
        if (begin < 0 || (segment == 0 && begin != 0) || end < begin ||
            static_cast<u64>(end) > rows) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("output {}: segment {} from row {} to {} is not one of {} rows",
                                    output_.name, segment, begin, end, rows));
        }
        const u64 first = static_cast<u64>(begin) * row;
        const u64 elements = static_cast<u64>(end - begin) * row;
        const u64 pieces = std::max<u64>(1, elements / tile_run);
        for (u64 piece = 1; elements > 0 && piece <= pieces; ++piece) {
            starts.push_back(piece == pieces ? first + elements : first + piece * tile_run);
        }
    }
    return starts;
}

OutputError OutputComparison::judge(const CompareResult& result,
                                    std::string_view distribution) const {
    return referee::judge(output_.name, spec_, result, distribution);
}

OutputError OutputComparison::compare(const ComparisonBuffers& buffers,
                                      std::string_view distribution) {
    check_sizes(buffers);
    OutputError error;
    switch (spec_.kind) {
        case CompareSpec::Kind::rms:
        case CompareSpec::Kind::exact:
        case CompareSpec::Kind::lse:
            return judge(compare_on_host(parameters(), buffers.found, buffers.expected),
                         distribution);
        case CompareSpec::Kind::ragged:
            return judge(compare_on_host(parameters(), buffers.found, buffers.expected,
                                         tile_starts(buffers.offsets)),
                         distribution);
        case CompareSpec::Kind::set:
            error = compare_set(buffers);
            break;
        case CompareSpec::Kind::by_index:
            error = compare_by_index(buffers, distribution);
            break;
        case CompareSpec::Kind::samples:
            error = compare_samples(buffers);
            break;
        case CompareSpec::Kind::custom:
            throw Error(ErrorCode::unsupported,
                        fmt::format("output {}: a comparator plugin compares it", output_.name));
    }
    error.output = output_.name;
    error.distribution = distribution;
    return error;
}

void OutputComparison::check_sizes(const ComparisonBuffers& buffers) const {
    const auto check = [&](const char* what, std::span<const std::byte> span, u64 bytes) {
        if (span.size() == bytes) return;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("output {}: expected {} bytes of {}, found {}", output_.name, bytes,
                                what, span.size()));
    };
    const u64 bytes = count() * element_bytes(output_.dtype);
    check("the output", buffers.found, bytes);
    check("the expected output", buffers.expected, bytes);
    if (spec_.kind == CompareSpec::Kind::by_index) {
        const u64 index_bytes = count() * bytes_of_type(index_type_);
        check("the index output", buffers.found_index, index_bytes);
        check("the expected index output", buffers.expected_index, index_bytes);
    }
    if (workspace().empty()) return;
    const bool samples = spec_.kind == CompareSpec::Kind::samples;
    const u64 rows =
        samples ? count() : count() / std::max<u64>(1, static_cast<u64>(shape_.back()));
    const u64 row_unit = rows * (samples ? sizeof(float) : 1);
    if (rows == 0) return;
    if (buffers.workspace.empty() || buffers.workspace.size() % row_unit != 0) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("output {}: expected workspace {} to hold {} equal rows, found {} "
                                "bytes",
                                output_.name, workspace(), rows, buffers.workspace.size()));
    }
}

OutputError OutputComparison::compare_set(const ComparisonBuffers& buffers) const {
    const auto dtype = static_cast<u32>(output_.dtype);
    const u64 length = static_cast<u64>(shape_.back());
    const u64 rows = length == 0 ? 0 : count() / length;
    const Ties ties(buffers.workspace, rows);
    SetRun run(dtype, length);
    OutputError error;
    for (u64 row = 0; row < rows; ++row) {
        const std::optional<s64> value = run.wrong(buffers.found, buffers.expected, row, ties);
        if (!value) continue;
        if (error.mismatches++ > 0) continue;
        // Shown where the value stands, or at the run's start when it is missing.
        u64 at = 0;
        while (at < length && integer_at(dtype, buffers.found, row * length + at) != *value) ++at;
        const u64 index = row * length + (at == length ? 0 : at);
        error.first_index = static_cast<std::int64_t>(index);
        error.found = static_cast<double>(integer_at(dtype, buffers.found, index));
        error.expected = static_cast<double>(integer_at(dtype, buffers.expected, index));
    }
    error.ok = error.mismatches == 0;
    return error;
}

OutputError OutputComparison::compare_by_index(const ComparisonBuffers& buffers,
                                               std::string_view distribution) const {
    const u64 size = element_bytes(output_.dtype);
    const u64 length = static_cast<u64>(shape_.back());
    const u64 rows = length == 0 ? 0 : count() / length;
    std::vector<std::byte> found;
    std::vector<std::byte> expected;
    std::vector<u64> kept;
    std::vector<s64> found_index;
    std::vector<s64> expected_index;
    u64 left_out_bad = 0;  // what stands beside another value still has to be a number
    for (u64 row = 0; row < rows; ++row) {
        read_run(index_type_, buffers.found_index, row, length, found_index);
        read_run(index_type_, buffers.expected_index, row, length, expected_index);
        const std::vector<u64> places = partners(found_index, expected_index);
        const auto own = buffers.found.subspan(row * length * size, length * size);
        if (places.size() != length) {
            for (u64 i = 0; i < length; ++i) {
                const double value = element_value(output_.dtype, own.subspan(i * size, size));
                if (!std::isfinite(value)) ++left_out_bad;
            }
            continue;
        }
        kept.push_back(row);
        found.insert(found.end(), own.begin(), own.end());
        for (const u64 place : places) {
            const auto partner = buffers.expected.subspan((row * length + place) * size, size);
            expected.insert(expected.end(), partner.begin(), partner.end());
        }
    }
    CompareSpec spec = spec_;
    spec.kind = CompareSpec::Kind::rms;
    const std::int64_t compared = static_cast<std::int64_t>(kept.size() * length);
    const CompareParameters p = compare_parameters(spec, output_.dtype, {{compared}});
    OutputError error =
        referee::judge(output_.name, spec, compare_on_host(p, found, expected), distribution);
    if (error.first_index) {
        const u64 index = static_cast<u64>(*error.first_index);
        error.first_index =
            static_cast<std::int64_t>(kept[index / length] * length + index % length);
    }
    if (left_out_bad > 0) {
        error.ok = false;
        error.mismatches += static_cast<std::int64_t>(left_out_bad);
    }
    // More than ties explain.
    const u64 left_out = rows - kept.size();
    if (left_out > std::max<u64>(2, rows / 100) || (rows > 0 && kept.empty())) {
        error.ok = false;
        error.mismatches += static_cast<std::int64_t>(left_out * length);
    }
    return error;
}

OutputError OutputComparison::compare_samples(const ComparisonBuffers& buffers) {
    const auto dtype = static_cast<u32>(output_.dtype);
    const u64 rows = count();
    OutputError error;
    if (rows == 0) return error;
    const u64 values = buffers.workspace.size() / sizeof(float) / rows;
    std::vector<float> row(values);
    std::vector<double> by_value;
    std::vector<double> by_probability;
    for (u64 i = 0; i < rows; ++i) {
        std::memcpy(row.data(), buffers.workspace.data() + i * values * sizeof(float),
                    values * sizeof(float));
        const s64 sample = integer_at(dtype, buffers.found, i);
        const bool inside = sample >= 0 && static_cast<u64>(sample) < values;
        if (!inside || !(row[static_cast<u64>(sample)] > 0.0F)) {
            if (error.mismatches++ > 0) continue;
            error.first_index = static_cast<std::int64_t>(i);
            error.found = static_cast<double>(sample);
            error.expected = static_cast<double>(integer_at(dtype, buffers.expected, i));
            continue;
        }
        // Only the sampler must not know these words, and it has no use for them.
        const Words random = draw(0, 0, by_value_.size() + by_value.size(), purpose_trial);
        const Transforms u = transform(row, static_cast<u64>(sample), random);
        by_value.push_back(u.by_value);
        by_probability.push_back(u.by_probability);
    }
    if (seen_.insert(hash_of(buffers.workspace)).second) {
        by_value_.insert(by_value_.end(), by_value.begin(), by_value.end());
        by_probability_.insert(by_probability_.end(), by_probability.begin(), by_probability.end());
    }
    error.rms_limit = uniform_distance_limit(by_value.size());
    error.normalised_rms = std::max(distance_from_uniform(std::move(by_value)),
                                    distance_from_uniform(std::move(by_probability)));
    error.tile_limit = uniform_distance_limit(by_value_.size());
    error.max_tile_rms =
        std::max(distance_from_uniform(by_value_), distance_from_uniform(by_probability_));
    error.ok = error.mismatches == 0 && error.normalised_rms <= error.rms_limit &&
               error.max_tile_rms <= error.tile_limit;
    return error;
}

std::string OutputComparison::describe(const OutputError& error) const {
    if (error.ok) return {};
    const std::string inputs =
        error.distribution.empty() ? "" : " (" + error.distribution + " inputs)";
    const std::string head = "output " + error.output + ": ";
    switch (spec_.kind) {
        case CompareSpec::Kind::set: {
            const std::int64_t length = std::max<std::int64_t>(shape_.back(), 1);
            return head + fmt::format(
                              "{} of {} runs of {} do not hold the reference's values, each once, "
                              "in any order; the first one, run {}, holds {} that is not expected, "
                              "or lacks a value{}",
                              error.mismatches, count() / static_cast<u64>(length), length,
                              error.first_index.value_or(0) / length, error.found, inputs);
        }
        case CompareSpec::Kind::samples:
            return head +
                   fmt::format(
                       "{} samples have no probability; distance of the samples from their "
                       "distribution {:.3f} {} {:.3f}, of all calls together {:.3f} {} {:.3f}{}",
                       error.mismatches, error.normalised_rms,
                       error.normalised_rms <= error.rms_limit ? "is within" : "exceeds",
                       error.rms_limit, error.max_tile_rms,
                       error.max_tile_rms <= error.tile_limit ? "is within" : "exceeds",
                       error.tile_limit, inputs);
        case CompareSpec::Kind::by_index:
            return referee::describe(error, shape_) + ", elements matched by output " +
                   spec_.index + " (rows that hold other values count as wrong)";
        case CompareSpec::Kind::custom:
            return head + fmt::format(
                              "comparator {} finds it wrong: {} mismatches, expected {:.7g}, "
                              "found {:.7g}{}",
                              spec_.custom, error.mismatches, error.expected, error.found, inputs);
        default:
            return referee::describe(error, shape_);
    }
}

}  // namespace kernelforge::referee
