// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

// Bytes of scalar kernel arguments. Internal to the plan room.

namespace kernelforge::plan {

/// The bits of `value` in an IEEE-like format, rounded to nearest, ties to even; nothing when the
/// result would be infinite. `value` is finite.
[[nodiscard]] std::optional<std::uint64_t> encode_float(double value, int exponent_bits,
                                                        int mantissa_bits);

/// The 64 bits (upper ones 0) of a finite number as `f16 bf16 f32 f64`; nothing when it does not
/// fit.
[[nodiscard]] std::optional<std::uint64_t> encode_floating(double value, std::string_view type);

/// Likewise for an integer as `i8 … u64`. Unsigned types take values from 0.
[[nodiscard]] std::optional<std::uint64_t> encode_integer(std::int64_t value,
                                                          std::string_view type);

/// Little-endian.
[[nodiscard]] std::array<std::byte, 8> little_endian(std::uint64_t bits);

}  // namespace kernelforge::plan
