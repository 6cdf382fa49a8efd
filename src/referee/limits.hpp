// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernelforge/definition.hpp"

namespace kernelforge::referee {

/// Largest errors that pass. All are relative and are derived in docs/referee.md.
struct Limits {
    /// sqrt(sum (found - expected)^2) / sqrt(sum expected^2) over the whole output.
    double rms = 0.0;
    /// The same over each tile, where the tile's denominator is at least `tile_floor` times that of
    /// an average tile: twice `rms`.
    double tile = 0.0;
    /// |found - expected| / (|expected| + RMS of the tile's expected values) of each element: 16
    /// times `rms`, at most 0.5.
    double element = 0.0;
};

/// Tiles whose expected values have a smaller RMS than this share of the whole output's are judged
/// against this share instead (a tile of zeros has no scale of its own).
inline constexpr double tile_floor = 1e-4;

/// Limits of a tier for an output of `count` elements, times `slack`. An output of fewer than 64
/// elements gets sqrt(64 / count) times more, because its own RMS is a poor estimate of its scale.
///
/// float64 1e-10, float32 1e-5, tensor_float32 and float16 1.1e-3 (same significand), bfloat16
/// 6e-3, float8 0.1.
/// @throws Error invalid_argument (slack is not a positive finite number)
[[nodiscard]] Limits limits_of(PrecisionTier tier, double slack, std::uint64_t count);

/// The same for a way of comparing: kind lse has log2(e) times more, so that a relative error of
/// the sum of `rms` passes in base 2 (and 1.44 times as much in base e).
[[nodiscard]] Limits limits_of(const CompareSpec& spec, std::uint64_t count);

/// How an output is compared when the task says nothing: rms at the tier of its own type; exact for
/// integers and booleans. @throws Error unsupported (float4_e2m1)
[[nodiscard]] CompareSpec default_compare(DType output);

/// What `task.compare` says about an output, else the default.
/// @throws Error unsupported (float4_e2m1)
[[nodiscard]] CompareSpec compare_of(const Task& task, const TensorSpec& output);

}  // namespace kernelforge::referee
