// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kernelforge {

/// Where a number comes from. They are never mixed in one comparison.
enum class Provenance {
    measured,         ///< read from hardware
    estimated,        ///< counted, then corrected by a documented rule
    modelled,         ///< computed by a time model
    modelled_static,  ///< computed from the compiled kernel only
};

[[nodiscard]] constexpr std::string_view to_string(Provenance provenance) noexcept {
    switch (provenance) {
        case Provenance::measured:
            return "measured";
        case Provenance::estimated:
            return "estimated";
        case Provenance::modelled:
            return "modelled";
        case Provenance::modelled_static:
            return "modelled (static)";
    }
    return "unknown";
}

/// What a profiler tool wants to see.
struct DataRequest {
    std::vector<std::string>
        metrics;  ///< CUPTI names, in the order in which they should be scheduled
    bool sass_metrics = false;
    bool pc_samples = false;
    bool timeline = false;
    bool energy = false;
    std::vector<std::string> custom;  ///< data that a collector plugin provides under this name
};

struct MetricValue {
    double value = 0.0;
    Provenance provenance = Provenance::measured;
};

/// The key of everything that is known about running one candidate: which workload, which launch of
/// the plan (0-based, counting `//@launch` steps).
struct LaunchKey {
    std::size_t workload = 0;
    std::size_t launch = 0;
    friend auto operator<=>(const LaunchKey&, const LaunchKey&) = default;
};

/// What limits residency of a kernel.
enum class OccupancyLimiter { none, registers, shared_memory, threads, blocks, grid };

[[nodiscard]] constexpr std::string_view to_string(OccupancyLimiter limiter) noexcept {
    switch (limiter) {
        case OccupancyLimiter::none:
            return "none";
        case OccupancyLimiter::registers:
            return "registers";
        case OccupancyLimiter::shared_memory:
            return "shared memory";
        case OccupancyLimiter::threads:
            return "threads per multiprocessor";
        case OccupancyLimiter::blocks:
            return "blocks per multiprocessor";
        case OccupancyLimiter::grid:
            return "grid smaller than the device";
    }
    return "unknown";
}

/// Everything collected about one launch.
struct LaunchProfile {
    std::string kernel;
    std::map<std::string, MetricValue> metrics;
    /// Custom data by name, JSON text.
    std::map<std::string, std::string> custom;
};

/// A datum that was asked for and could not be had, and why. Absence is reported, never zero.
struct MissingDatum {
    std::string what;
    std::string why;
};

struct ProfileData {
    std::map<LaunchKey, LaunchProfile> launches;
    std::vector<MissingDatum> missing;
};

}  // namespace kernelforge
