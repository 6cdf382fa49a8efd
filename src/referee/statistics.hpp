// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"

// Statistics of timings. Times are seconds, all functions are pure. Empty input is Error
// invalid_argument; so is a value that is not finite, or not positive where a logarithm is taken.

namespace kernelforge::referee {

/// Middle value; mean of the two middle ones.
[[nodiscard]] double median(std::span<const double> values);

/// Linear interpolation between order statistics, position share * (n - 1); `share` in 0 … 1.
[[nodiscard]] double percentile(std::span<const double> values, double share);

/// Mean without the floor(0.2 n) lowest and as many highest values. (Medians stick to the 32 ns
/// tick of the device's clock; means follow outliers.)
[[nodiscard]] double trimmed_mean(std::span<const double> values);

/// Summary of spans.
[[nodiscard]] Timing summarize(std::span<const double> seconds, std::string clock);

/// Four timed calls in the order A B B A or B A A B, so that a linear drift cancels.
struct Quad {
    double candidate_s[2] = {0.0, 0.0};
    double opponent_s[2] = {0.0, 0.0};
};

/// Whether quad `index` runs as candidate, opponent, opponent, candidate (else the other way
/// round). Every two consecutive quads from an even index hold one of each order; which is first is
/// drawn.
[[nodiscard]] bool candidate_first(std::uint64_t seed, std::uint64_t index);

/// Half the log of (opponent times over candidate times) of one quad.
[[nodiscard]] double log_ratio(const Quad& quad);

/// exp(trimmed mean of the quads' log ratios), with the two-sided 99 % percentile-bootstrap
/// interval of 2000 resamples drawn from `seed`. The quantiles are widened for few quads
/// (docs/referee.md). Fewer than six quads give no interval: low 0, high infinity, so that nothing
/// is promoted.
[[nodiscard]] PairedRatio paired_ratio(std::span<const Quad> quads, std::uint64_t seed);

/// Least gain that may be promoted, as a share: 3 % under 5 us, 1 % to 50 us, 0.5 % above.
/// `seconds` is the candidate's median. Source: A/A spread of CUPTI spans on an H200
/// (docs/referee.md).
[[nodiscard]] double least_gain(double seconds);

/// Whether the candidate replaces the opponent: the interval's lower end is at least 1 +
/// least_gain.
[[nodiscard]] bool promotes(const PairedRatio& paired, double seconds);

}  // namespace kernelforge::referee
