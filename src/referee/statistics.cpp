// SPDX-License-Identifier: Apache-2.0
#include "referee/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernelforge/error.hpp"
#include "referee/distributions.hpp"

namespace kernelforge::referee {
namespace {

constexpr int resamples = 2000;
constexpr std::size_t least_quads = 6;
constexpr double z995 = 2.5758293035489004;  // 99.5 % quantile of the normal distribution

std::vector<double> sorted(std::span<const double> values) {
    if (values.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "statistics: expected at least one value, found none");
    }
    for (const double value : values) {
        if (!std::isfinite(value)) {
            throw Error(ErrorCode::invalid_argument,
                        "statistics: expected finite values, found " + std::to_string(value));
        }
    }
    std::vector<double> copy(values.begin(), values.end());
    std::sort(copy.begin(), copy.end());
    return copy;
}

double percentile_of_sorted(const std::vector<double>& values, double share) {
    const double position = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double weight = position - static_cast<double>(below);
    return values[below] + weight * (values[above] - values[below]);
}

double trimmed_mean_of_sorted(const std::vector<double>& values) {
    const std::size_t cut = values.size() / 5;
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(cut);
    const auto last = values.end() - static_cast<std::ptrdiff_t>(cut);
    return std::accumulate(first, last, 0.0) / static_cast<double>(values.size() - 2 * cut);
}

/// 99.5 % quantile of Student's t by the Cornish-Fisher series (Abramowitz and Stegun 26.7.5),
/// within 4 % from 3 degrees of freedom on.
double t995(double degrees) {
    const double z = z995;
    const double z3 = z * z * z;
    const double z5 = z3 * z * z;
    const double z7 = z5 * z * z;
    return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
           (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

/// Uniform indices from Philox, so that a seed gives the same interval on every platform.
class Indices {
  public:
    explicit Indices(std::uint64_t seed)
        : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)} {}

    std::size_t next(std::size_t size) {
        if (used_ == words_.size()) {
            words_ = philox({counter_++, 0, 0, 0xB0075742U}, key_);
            used_ = 0;
        }
        return static_cast<std::size_t>((std::uint64_t{words_[used_++]} * size) >> 32);
    }

  private:
    std::array<std::uint32_t, 2> key_;
    std::array<std::uint32_t, 4> words_{};
    std::size_t used_ = 4;
    std::uint32_t counter_ = 0;
};

/// 0.5 % and 99.5 % quantiles of the trimmed means of resamples.
std::pair<double, double> bootstrap(const std::vector<double>& values, std::uint64_t seed) {
    Indices indices(seed);
    std::vector<double> means;
    means.reserve(resamples);
    std::vector<double> sample(values.size());
    for (int i = 0; i < resamples; ++i) {
        for (double& value : sample) value = values[indices.next(values.size())];
        std::sort(sample.begin(), sample.end());
        means.push_back(trimmed_mean_of_sorted(sample));
    }
    std::sort(means.begin(), means.end());
    return {percentile_of_sorted(means, 0.005), percentile_of_sorted(means, 0.995)};
}

}  // namespace

double median(std::span<const double> values) {
    return percentile(values, 0.5);
}

double percentile(std::span<const double> values, double share) {
    return percentile_of_sorted(sorted(values), share);
}

double trimmed_mean(std::span<const double> values) {
    return trimmed_mean_of_sorted(sorted(values));
}

Timing summarize(std::span<const double> seconds, std::string clock) {
    const std::vector<double> values = sorted(seconds);
    Timing timing;
    timing.median_s = percentile_of_sorted(values, 0.5);
    timing.trimmed_mean_s = trimmed_mean_of_sorted(values);
    timing.p10_s = percentile_of_sorted(values, 0.1);
    timing.p90_s = percentile_of_sorted(values, 0.9);
    timing.samples = static_cast<int>(values.size());
    timing.clock = std::move(clock);
    return timing;
}

bool candidate_first(std::uint64_t seed, std::uint64_t index) {
    const std::uint64_t pair = index / 2;
    const auto words = philox(
        {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), 0, 0x0A8BA000U},
        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    return ((words[0] & 1U) != 0) == (index % 2 == 0);
}

double log_ratio(const Quad& quad) {
    for (const double time :
         {quad.candidate_s[0], quad.candidate_s[1], quad.opponent_s[0], quad.opponent_s[1]}) {
        if (!std::isfinite(time) || time <= 0.0) {
            throw Error(ErrorCode::invalid_argument,
                        "statistics: expected times above 0, found " + std::to_string(time));
        }
    }
    return 0.5 * (std::log(quad.opponent_s[0] / quad.candidate_s[0]) +
                  std::log(quad.opponent_s[1] / quad.candidate_s[1]));
}

PairedRatio paired_ratio(std::span<const Quad> quads, std::uint64_t seed) {
    std::vector<double> logs;
    logs.reserve(quads.size());
    for (const Quad& quad : quads) logs.push_back(log_ratio(quad));
    const double centre = trimmed_mean(logs);
    PairedRatio result;
    result.quads = static_cast<int>(quads.size());
    result.ratio = std::exp(centre);
    if (quads.size() < least_quads) {
        result.low = 0.0;
        result.high = std::numeric_limits<double>::infinity();
        return result;
    }
    const auto [low, high] = bootstrap(logs, seed);
    const std::size_t kept = logs.size() - 2 * (logs.size() / 5);
    const double widen = t995(static_cast<double>(kept - 1)) / z995;
    // The estimate lies inside its interval even when the resamples are all on one side of it.
    result.low = std::exp(centre - widen * std::max(centre - low, 0.0));
    result.high = std::exp(centre + widen * std::max(high - centre, 0.0));
    return result;
}

double least_gain(double seconds) {
    if (seconds > 50e-6) return 0.005;
    if (seconds >= 5e-6) return 0.01;
    return 0.03;
}

bool promotes(const PairedRatio& paired, double seconds) {
    return paired.low >= 1.0 + least_gain(seconds);
}

}  // namespace kernelforge::referee
