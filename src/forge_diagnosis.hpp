// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "builds.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/profiler_tool.hpp"

// What is said about a candidate that ran (docs/forge.md, "Diagnosis"). Pure but for the tools.

namespace kernelforge {

/// At most this many findings of tools reach a diagnosis.
inline constexpr std::size_t max_findings = 5;
/// At most this many workloads are diagnosed: those with the most time above their bound.
inline constexpr std::size_t max_diagnosed_workloads = 3;

using Tools = std::vector<std::unique_ptr<ProfilerTool>>;

/// Indices of the workloads worth looking at, most time lost first (median minus bound).
[[nodiscard]] std::vector<std::size_t> workloads_to_diagnose(const Task& task,
                                                             const Evaluation& evaluation,
                                                             const Roofs& roofs);

/// Everything that the tools want collected, each thing once, in order of first mention.
[[nodiscard]] DataRequest union_of_needs(const Tools& tools);

/// The diagnosis: roofline position of the worst workloads, then findings on residency and spills
/// from the compiled kernels, then the tools' findings, those of the most relevant tools first,
/// more severe ones before others. `built` and `evaluation` belong to the same candidate; the
/// evaluation is ok.
[[nodiscard]] Diagnosis diagnose(const Task& task, const DeviceInfo& device, const Built& built,
                                 const Evaluation& evaluation, const Tools& tools,
                                 const ProfileData& data);

/// The collected numbers as findings of a tool named `raw`, one a launch, for `Feedback::raw`.
[[nodiscard]] std::vector<Finding> raw_findings(const ProfileData& data);

}  // namespace kernelforge
