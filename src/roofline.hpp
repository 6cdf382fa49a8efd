// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/profiler_tool.hpp"

// How fast a workload can be at best on a device, and what a measured time is limited by
// (docs/forge.md, "The bound"). Pure.

namespace kernelforge {

/// What a workload must move and compute, whatever the kernel does.
struct WorkloadCost {
    double bytes = 0.0;  ///< `Task::bytes`, else every input read once, every output written once
    double write_share = 0.0;          ///< of `bytes`, 0 to 1: outputs over inputs plus outputs
    std::optional<double> operations;  ///< `Task::flops`; absent: unknown
};

/// @throws Error invalid_argument (an expression fails or is negative), parse (it is malformed)
[[nodiscard]] WorkloadCost workload_cost(const Task& task, std::size_t workload);

/// Bytes a second that a mixture with this share of writes can reach. The measured roofs are points
/// at 0 (read), 0.5 (copy) and 1 (write); between them the time of a byte is interpolated, because
/// a mixture takes turns. A roof that was not measured is replaced by the nearest that was; none:
/// nothing.
[[nodiscard]] std::optional<double> memory_roof(const Roofs& roofs, double write_share);

/// Operations a second: the matrix roof where every large floating-point input has at most 16 bits
/// and the task's policy allows matrix instructions (twice that where they have at most 8), else
/// the fp32 roof; nothing where it was not measured, and for float64. Large: at least a 64th of the
/// elements of the largest, in the first workload.
[[nodiscard]] std::optional<double> compute_roof(const Task& task, const Roofs& roofs);

/// T_SOL in seconds: the largest of bytes over memory roof, operations over compute roof, and the
/// time of an empty kernel. Absent when no roof is known.
[[nodiscard]] std::optional<double> bound_s(const Task& task, std::size_t workload,
                                            const Roofs& roofs);

/// Where a time stands under the roofs. Below 60 % of both roofs is latency: the threshold that
/// Nsight Compute's "speed of light" section uses. Within twice the empty kernel's time it is
/// launch.
[[nodiscard]] Bottleneck bottleneck(const Task& task, LaunchKey key, double time_s,
                                    const Roofs& roofs);

}  // namespace kernelforge
