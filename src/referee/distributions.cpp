// SPDX-License-Identifier: Apache-2.0
#include "referee/distributions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "kernelforge/error.hpp"
#include "referee/device/elements.hpp"

namespace kernelforge::referee {
namespace {

constexpr bool same(FillKind device, InitSpec::Kind host) {
    return static_cast<u32>(device) == static_cast<u32>(host);
}
static_assert(same(fill_normal, InitSpec::Kind::normal) &&
              same(fill_uniform, InitSpec::Kind::uniform) &&
              same(fill_integers, InitSpec::Kind::integers) &&
              same(fill_constant, InitSpec::Kind::constant) &&
              same(fill_permutation, InitSpec::Kind::permutation) &&
              same(fill_heavy_tail, InitSpec::Kind::heavy_tail) &&
              same(fill_offsets, InitSpec::Kind::offsets) &&
              same(fill_distinct, InitSpec::Kind::distinct));
static_assert(static_cast<u32>(fill_natural) == static_cast<u32>(Distribution::natural) &&
              static_cast<u32>(fill_scaled) == static_cast<u32>(Distribution::scaled) &&
              static_cast<u32>(fill_heavy_tails) == static_cast<u32>(Distribution::heavy_tails) &&
              static_cast<u32>(fill_structured) == static_cast<u32>(Distribution::structured));

constexpr double largest_exact_integer = 9007199254740992.0;  // 2^53

u32 device_type(DType dtype) {
    if (dtype == DType::float4_e2m1) {
        throw Error(ErrorCode::unsupported, "tensors of type float4_e2m1 cannot be filled yet");
    }
    return static_cast<u32>(dtype);
}

void check(const InitSpec& init) {
    for (const double value : {init.mean, init.stddev, init.low, init.high}) {
        if (!std::isfinite(value)) {
            throw Error(ErrorCode::invalid_argument,
                        "init: expected finite numbers, found " + std::to_string(value));
        }
    }
    const bool bounded =
        init.kind == InitSpec::Kind::uniform || init.kind == InitSpec::Kind::integers;
    if (bounded && init.high < init.low) {
        throw Error(ErrorCode::invalid_argument, "init: expected low <= high, found " +
                                                     std::to_string(init.low) + " and " +
                                                     std::to_string(init.high));
    }
    if (init.stddev < 0.0) {
        throw Error(ErrorCode::invalid_argument,
                    "init: expected stddev >= 0, found " + std::to_string(init.stddev));
    }
}

/// Elements and extent of the last axis.
std::pair<u64, u64> extents(std::span<const std::int64_t> shape) {
    u64 count = 1;
    for (const std::int64_t extent : shape) {
        if (extent < 0) {
            throw Error(ErrorCode::invalid_argument,
                        "shape: expected extents >= 0, found " + std::to_string(extent));
        }
        if (__builtin_mul_overflow(count, static_cast<u64>(extent), &count)) {
            throw Error(ErrorCode::invalid_argument, "shape: more than 2^64 elements");
        }
    }
    const u64 last = shape.empty() ? 1 : static_cast<u64>(shape.back());
    return {count, std::max<u64>(last, 1)};
}

u64 pick_wide(u32 high, u32 low, u64 span) {
    return high_product(joined(high, low), span);
}

/// Where the impulse stands, and the first late row.
void add_structure(FillParameters& p, const InitSpec& init) {
    const u64 rows = p.count / p.row_length;
    if (rows >= 2) p.late_row = rows - std::max<u64>(1, rows / 8);
    if (p.count < 64) return;
    const Words coins = draw(p.seed, p.stream, 1, purpose_tensor);
    const Words places = draw(p.seed, p.stream, 2, purpose_tensor);
    const u64 row = (coins.w[0] & 1U) != 0 ? rows - 1 : pick_wide(places.w[0], places.w[1], rows);
    const u64 tail = std::min<u64>(p.row_length, 64);
    const u64 column = (coins.w[1] & 1U) != 0
                           ? p.row_length - 1 - pick_wide(places.w[2], places.w[3], tail)
                           : pick_wide(places.w[2], places.w[3], p.row_length);
    p.impulse_index = row * p.row_length + column;
    p.impulse = 256.0 * (init.kind == InitSpec::Kind::uniform
                             ? std::max(std::abs(init.low), std::abs(init.high))
                             : std::abs(init.mean) + init.stddev);
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
    const Words words =
        philox_words(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
    return {words.w[0], words.w[1], words.w[2], words.w[3]};
}

Distribution distribution_of_trial(std::uint64_t seed, std::uint64_t trial) {
    std::array<std::uint32_t, 4> order = {0, 1, 2, 3};
    const Words words = draw(seed, 0, trial / 4, purpose_trial);
    for (u32 i = 3; i > 0; --i) std::swap(order[i], order[pick(words.w[i], i + 1)]);
    return static_cast<Distribution>(order[trial % 4]);
}

std::uint64_t seed_of_trial(std::uint64_t secret, std::uint64_t trial) {
    const Words words = draw(secret, 1, trial, purpose_trial);
    return joined(words.w[0], words.w[1]);
}

namespace {

std::int64_t value_of(const std::map<std::string, std::int64_t>& axes, const std::string& axis) {
    const auto found = axes.find(axis);
    if (found != axes.end()) return found->second;
    throw Error(ErrorCode::invalid_argument,
                "fill: expected a value of axis \"" + axis + "\", found none");
}

std::vector<std::int64_t> extents_of(const TensorSpec& tensor,
                                     const std::map<std::string, std::int64_t>& axes) {
    std::vector<std::int64_t> shape;
    for (const std::string& axis : tensor.shape) shape.push_back(value_of(axes, axis));
    return shape;
}

/// Parameters of a tensor that stands alone.
FillParameters lone_parameters(const InitSpec& init, DType dtype,
                               std::span<const std::int64_t> shape, Distribution distribution,
                               std::uint64_t seed, std::uint32_t ordinal) {
    check(init);
    FillParameters p;
    p.dtype = device_type(dtype);
    std::tie(p.count, p.row_length) = extents(shape);
    p.seed = seed;
    p.stream = ordinal;
    p.kind = static_cast<u32>(init.kind);
    p.base = init.mean;
    p.width = init.stddev;
    if (init.kind == InitSpec::Kind::uniform) p.width = init.high - init.low;
    if (init.kind == InitSpec::Kind::uniform || init.kind == InitSpec::Kind::constant) {
        p.base = init.low;
    }
    if (init.kind == InitSpec::Kind::integers) {
        const double low = std::floor(init.low);
        const double high = std::floor(init.high);
        if (std::abs(low) > largest_exact_integer || std::abs(high) > largest_exact_integer) {
            throw Error(ErrorCode::invalid_argument,
                        "init: expected integer bounds within 2^53 of 0");
        }
        p.integer_low = static_cast<s64>(low);
        p.integer_span = static_cast<u64>(static_cast<s64>(high) - p.integer_low) + 1;
    }
    const bool scalable = is_floating(p.dtype) && (init.kind == InitSpec::Kind::normal ||
                                                   init.kind == InitSpec::Kind::uniform ||
                                                   init.kind == InitSpec::Kind::heavy_tail);
    if (!scalable || !init.varied || p.count == 0) return p;
    p.distribution = static_cast<u32>(distribution);
    if (distribution == Distribution::scaled) {
        const Words words = draw(seed, ordinal, 0, purpose_tensor);
        p.scale = power_of_two(static_cast<int>(pick(words.w[0], 9)) - 4);
    }
    if (distribution == Distribution::structured) add_structure(p, init);
    return p;
}

/// Kinds offsets and distinct.
void add_bound(FillParameters& p, const std::string& input, const InitSpec& init,
               std::int64_t bound, Distribution distribution) {
    if (bound < 0 || (init.kind == InitSpec::Kind::distinct && p.count > static_cast<u64>(bound))) {
        throw Error(ErrorCode::invalid_argument,
                    "input " + input + ": " + std::to_string(p.count) +
                        " distinct values do not exist below the bound " + std::to_string(bound));
    }
    p.bound = static_cast<u64>(bound);
    if (init.kind == InitSpec::Kind::offsets) p.distribution = static_cast<u32>(distribution);
}

/// Which slices of the first axis `init.used_by` names.
void add_use(FillParameters& p, const Task& task, const TensorSpec& input, const InitSpec& init,
             const std::map<std::string, std::int64_t>& axes) {
    const auto& inputs = task.definition.inputs;
    const auto other = std::find_if(inputs.begin(), inputs.end(), [&](const TensorSpec& candidate) {
        return candidate.name == init.used_by;
    });
    if (other == inputs.end() || other->shape.empty() || input.shape.empty()) {
        throw Error(ErrorCode::invalid_argument, "input " + input.name +
                                                     ": expected an input that names its slices, "
                                                     "found \"" +
                                                     init.used_by + "\"");
    }
    p.slices = static_cast<u64>(value_of(axes, input.shape.front()));
    if (p.slices == 0 || p.count == 0) return;
    p.slice = p.count / p.slices;
    p.used_slices = static_cast<u64>(value_of(axes, other->shape.front()));
    p.used_stream = static_cast<u32>(other - inputs.begin());
}

/// Rows of equal elements would make every choice among them a tie.
bool chooses(const Task& task) {
    return std::any_of(task.compare.begin(), task.compare.end(), [](const auto& entry) {
        return entry.second.kind == CompareSpec::Kind::set;
    });
}

}  // namespace

FillParameters fill_parameters(const InitSpec& init, DType dtype,
                               std::span<const std::int64_t> shape, Distribution distribution,
                               std::uint64_t seed, std::uint32_t ordinal) {
    if (init.kind == InitSpec::Kind::offsets || init.kind == InitSpec::Kind::distinct ||
        !init.used_by.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "init: offsets, distinct and used_by need the task that they belong to");
    }
    return lone_parameters(init, dtype, shape, distribution, seed, ordinal);
}

FillParameters fill_parameters(const Task& task, const std::map<std::string, std::int64_t>& axes,
                               const TensorSpec& input, std::uint32_t ordinal,
                               Distribution distribution, std::uint64_t seed) {
    const InitSpec init = init_of(task, input);
    FillParameters p =
        lone_parameters(init, input.dtype, extents_of(input, axes), distribution, seed, ordinal);
    if (init.kind == InitSpec::Kind::offsets || init.kind == InitSpec::Kind::distinct) {
        add_bound(p, input.name, init, value_of(axes, init.bound), distribution);
    }
    if (!init.used_by.empty()) add_use(p, task, input, init, axes);
    if (chooses(task)) p.constant_rows = 0;
    return p;
}

InitSpec init_of(const Task& task, const TensorSpec& input) {
    if (const auto found = task.init.find(input.name); found != task.init.end()) {
        return found->second;
    }
    InitSpec init;
    switch (input.dtype) {
        case DType::int64:
        case DType::int32:
        case DType::int16:
        case DType::int8:
        case DType::uint8:
            init.kind = InitSpec::Kind::integers;
            init.low = 0.0;
            init.high = 100.0;
            break;
        default:
            break;
    }
    return init;
}

void fill_on_host(const FillParameters& parameters, std::uint64_t first,
                  std::span<std::byte> bytes) {
    const std::size_t size = bytes_of_type(parameters.dtype);
    for (std::size_t i = 0; (i + 1) * size <= bytes.size(); ++i) {
        const u64 bits = drawn_bits(parameters, first + i);
        std::memcpy(bytes.data() + i * size, &bits, size);  // little-endian, as the devices are
    }
}

std::size_t element_bytes(DType dtype) {
    return bytes_of_type(device_type(dtype));
}

double element_value(DType dtype, std::span<const std::byte> bytes) {
    u64 bits = 0;
    std::memcpy(&bits, bytes.data(), std::min(bytes.size(), element_bytes(dtype)));
    return decode(device_type(dtype), bits);
}

void store_element(DType dtype, double value, std::span<std::byte> bytes) {
    const u64 bits = encode(device_type(dtype), value);
    std::memcpy(bytes.data(), &bits, std::min(bytes.size(), element_bytes(dtype)));
}

}  // namespace kernelforge::referee
