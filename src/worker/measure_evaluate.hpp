// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

/// Called with the finished verdict when the device is lost to this process: a fault that only a
/// new process recovers from, or a kernel that does not end. It answers and ends the process at
/// once; it must not return, because releasing what a hanging kernel uses would hang too.
using LastWord = std::function<void(const Evaluation& evaluation, EvaluationStatus why)>;

/// Judges and times (docs/measuring.md). Whatever the candidate does is a status. [device]
/// @throws Error invalid_argument when the request contradicts itself
[[nodiscard]] Evaluation evaluate(Device& device, const EvaluationRequest& request,
                                  const LastWord& last_word);

/// Static facts of every launch as metrics (docs/measuring.md lists them); all else that was asked
/// for is in `missing`. Nothing is launched. [device]
/// @throws Error invalid_argument; unsupported when the candidate's plan cannot be resolved
[[nodiscard]] ProfileData collect(Device& device, const CollectRequest& request);

/// Runs a `command` baseline (docs/measuring.md) and reports its times.
[[nodiscard]] Evaluation run_command_baseline(const EvaluationRequest& request);

/// The lines that a command baseline printed, as results in the order of the request's workloads.
/// Pure; throws nothing: a missing, repeated or malformed line is that workload's evaluator_failed.
[[nodiscard]] std::vector<WorkloadResult> command_results(const EvaluationRequest& request,
                                                          const std::string& output);

/// Copies the first failure of a workload, else of a hidden shape, to the evaluation: status, and
/// the message with the axes in front. `Evaluation::rule`, that of the first rejected shape, stays
/// where the first failure is a rejection. `hidden` are those of the request.
void summarize_workloads(const Task& task, Evaluation& evaluation,
                         std::span<const Workload> hidden = {});

}  // namespace kernelforge::worker
