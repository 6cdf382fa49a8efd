// SPDX-License-Identifier: Apache-2.0
#include "plan/scalar_bytes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "plan/source_text.hpp"

namespace kernelforge::plan {

std::optional<std::uint64_t> encode_float(double value, int exponent_bits, int mantissa_bits) {
    const std::uint64_t sign =
        std::signbit(value) ? std::uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
    const double magnitude = std::fabs(value);
    if (magnitude == 0.0) return sign;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    exponent = std::max(exponent - 1, 1 - bias);
    // In units of the last place; exact, because every format here has fewer bits than double.
    const double scaled = std::ldexp(magnitude, mantissa_bits - exponent);
    double units = std::floor(scaled);
    const double rest = scaled - units;
    if (rest > 0.5 || (rest == 0.5 && std::fmod(units, 2.0) == 1.0)) units += 1.0;
    // A subnormal has exponent field 0, and a carry out of the mantissa moves to the next exponent.
    const std::uint64_t bits = (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa_bits) +
                               static_cast<std::uint64_t>(units);
    const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
    if (bits >= infinity) return std::nullopt;
    return sign | bits;
}

std::optional<std::uint64_t> encode_floating(double value, std::string_view type) {
    if (type == "f16") return encode_float(value, 5, 10);
    if (type == "bf16") return encode_float(value, 8, 7);
    if (type == "f32") return encode_float(value, 8, 23);
    if (type == "f64") return std::bit_cast<std::uint64_t>(value);
    return std::nullopt;
}

std::optional<std::uint64_t> encode_integer(std::int64_t value, std::string_view type) {
    const std::size_t bytes = scalar_bytes(type);
    if (bytes == 0 || is_floating_type(type)) return std::nullopt;
    const bool is_unsigned = type.front() == 'u';
    if (is_unsigned && value < 0) return std::nullopt;
    if (bytes == 8) return static_cast<std::uint64_t>(value);
    const int bits = static_cast<int>(bytes) * 8;
    const std::int64_t high = (std::int64_t{1} << (is_unsigned ? bits : bits - 1)) - 1;
    const std::int64_t low = is_unsigned ? 0 : -high - 1;
    if (value < low || value > high) return std::nullopt;
    return static_cast<std::uint64_t>(value) & ((std::uint64_t{1} << bits) - 1);
}

std::array<std::byte, 8> little_endian(std::uint64_t bits) {
    std::array<std::byte, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>((bits >> (8 * i)) & 0xFF);
    return bytes;
}

}  // namespace kernelforge::plan
