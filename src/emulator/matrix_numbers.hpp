// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

// Narrow floating-point formats as bits. Branches are written as selections, so that loops over
// these functions become vector code.

namespace kernelforge::emulator {

/// What the GPU writes for every NaN that an f32 or f16 operation makes.
inline constexpr std::uint32_t canonical_nan_f32 = 0x7fff'ffffU;
inline constexpr std::uint16_t canonical_nan_16 = 0x7fffU;

/// Exact. Subnormals become normal numbers: the scaling by 2^112 moves the exponent's bias from 15
/// to 127.
[[nodiscard]] inline float f32_of_f16(std::uint16_t half) noexcept {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffU) << 13;
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
    const std::uint32_t special = (half & 0x7c00U) == 0x7c00U ? 0x7f80'0000U : 0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special |
                                static_cast<std::uint32_t>(half & 0x8000U) << 16);
}

[[nodiscard]] inline float f32_of_bf16(std::uint16_t bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Round to nearest even, overflow to infinity, NaN canonical. From double, so that a sum that was
/// kept in double is rounded once.
[[nodiscard]] inline std::uint16_t f16_of(double value) noexcept {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000U);
    const double magnitude = std::bit_cast<double>(bits & 0x7fff'ffff'ffff'ffffULL);
    if (!(magnitude < 65520.0)) {
        return magnitude >= 65520.0 ? static_cast<std::uint16_t>(sign | 0x7c00U) : canonical_nan_16;
    }
    // Adding 2^52 units of the last place rounds to a multiple of that unit, ties to even.
    const int exponent = static_cast<int>(bits >> 52 & 0x7ffU) - 1023;
    const int unit = (exponent < -14 ? -14 : exponent) - 10;
    const double shift = std::bit_cast<double>(static_cast<std::uint64_t>(unit + 52 + 1023) << 52);
    const double rounded = (magnitude + shift) - shift;
    const double scale = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - unit) << 52);
    const auto units = static_cast<std::uint32_t>(rounded * scale);  // up to 2048: carries over
    const std::uint32_t biased = units < 1024 ? 0U : static_cast<std::uint32_t>(unit + 10 + 14);
    return static_cast<std::uint16_t>(sign | (biased * 1024U + units));
}

/// Round to nearest even, NaN canonical.
[[nodiscard]] inline std::uint16_t bf16_of(float value) noexcept {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fff'ffffU) > 0x7f80'0000U) return canonical_nan_16;
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/// Exact. e4m3 has no infinities; 0x7f and 0xff are NaN.
[[nodiscard]] inline float f32_of_e4m3(std::uint8_t bits) noexcept {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fU) << 20;
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p120F;
    const std::uint32_t special = (bits & 0x7fU) == 0x7fU ? 0x7fc0'0000U : 0U;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special |
                                static_cast<std::uint32_t>(bits & 0x80U) << 24);
}

/// Exact: e5m2 is the upper byte of f16.
[[nodiscard]] inline float f32_of_e5m2(std::uint8_t bits) noexcept {
    return f32_of_f16(static_cast<std::uint16_t>(bits << 8));
}

/// The tensor cores read the upper 19 bits of a tf32 operand.
[[nodiscard]] inline float f32_of_tf32(std::uint32_t bits) noexcept {
    return std::bit_cast<float>(bits & 0xffff'e000U);
}

}  // namespace kernelforge::emulator
