// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kernelforge/candidate.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"

// From a candidate's text to machine code for a set of workloads. Used by the loop and by the
// program.

namespace kernelforge {

struct BuildLimits {
    std::chrono::milliseconds time{60'000};
    std::uint64_t memory_bytes = 4ULL << 30;
};

/// A workload by its axes, as "B=3, M=131"; by its uuid where it has none.
[[nodiscard]] std::string axes_text(const Workload& workload);

/// All workloads of a task, in order.
[[nodiscard]] std::vector<std::size_t> all_workloads(const Task& task);

/// What `plan::resolve` needs for one workload, of the task or hidden. `build` gives OCC(kernel)
/// its value; null: OCC is 1. `build` and `device` must outlive the result.
[[nodiscard]] plan::Environment environment_for(const Task& task, const Workload& workload,
                                                const Bindings& bindings, const DeviceInfo& device,
                                                const CompileResult* build);

/// The plan in numbers. @throws Error invalid_argument, as `plan::resolve`
[[nodiscard]] plan::ResolvedPlan resolve_for(const plan::Plan& plan, const Task& task,
                                             const Workload& workload, const Bindings& bindings,
                                             const DeviceInfo& device, const CompileResult* build);

/// Whether the plan's `//@valid` lets it serve this shape. A condition that cannot be evaluated, or
/// a plan that fails behind it, counts as true: the failure is then the candidate's.
[[nodiscard]] bool serves(const plan::Plan& plan, const Task& task, const Workload& workload,
                          const Bindings& bindings, const DeviceInfo& device);

/// Compiles once for each set of definitions that the workloads need. Stops at the first build that
/// fails; it is then the last of `builds`, and `failed_build` finds it. [any]
/// @throws Error as `Compiler::compile` and `plan::compile_request`
[[nodiscard]] CompiledCandidate compile_candidate(Compiler& compiler, const plan::Plan& plan,
                                                  const Candidate& candidate, const Task& task,
                                                  std::span<const std::size_t> workloads,
                                                  const std::string& arch,
                                                  const BuildLimits& limits, std::stop_token stop);

/// The build that did not succeed; null when all did.
[[nodiscard]] const CompileResult* failed_build(const CompiledCandidate& compiled);

/// One line on why a build failed: its message and, unless it says so itself, its first error with
/// position.
[[nodiscard]] std::string describe_failure(const CompileResult& build);

/// A candidate that is ready to be evaluated, or why it is not.
struct Built {
    EvaluationStatus status = EvaluationStatus::ok;  ///< ok, plan_error, compile_error or cancelled
    std::string message;                             ///< one sentence, empty when ok
    std::optional<plan::Plan> plan;                  ///< when it could be parsed
    CompiledCandidate compiled;  ///< builds may be there although the status is not ok
    std::vector<plan::ResolvedPlan> resolved;  ///< one a workload, when ok
    [[nodiscard]] bool ok() const noexcept { return status == EvaluationStatus::ok; }
};

/// Everything before evaluation: parses the plan, resolves it for every workload, compiles,
/// resolves again with the compiled kernels' occupancy, and checks the plan against what was
/// compiled. A candidate's own failure is a status. `file` is its name in messages. [any]
/// @throws Error as `Compiler::compile`
[[nodiscard]] Built build_candidate(Compiler& compiler, const Task& task,
                                    const Candidate& candidate, const std::string& file,
                                    std::span<const std::size_t> workloads,
                                    const DeviceInfo& device, const BuildLimits& limits,
                                    std::stop_token stop);

/// Whether further shapes could be built for.
struct HiddenBuilds {
    EvaluationStatus status = EvaluationStatus::ok;  ///< ok, plan_error, compile_error or cancelled
    std::string message;  ///< one sentence that names the shape's axes; empty when ok
    [[nodiscard]] bool ok() const noexcept { return status == EvaluationStatus::ok; }
};

/// Appends to `compiled`, which has builds for `workloads`, what `EvaluationRequest::hidden` needs:
/// a build index for each of `shapes`, with a new build only where the plan specialises an axis
/// that differs. A shape that `//@valid` refuses is not run and points at the first build. [any]
/// @throws Error as `Compiler::compile`
[[nodiscard]] HiddenBuilds add_hidden_builds(Compiler& compiler, const Task& task,
                                             CompiledCandidate& compiled, const std::string& file,
                                             std::span<const std::size_t> workloads,
                                             std::span<const Workload> shapes,
                                             const DeviceInfo& device, const BuildLimits& limits,
                                             std::stop_token stop);

/// An opponent is timed on workloads and never runs a hidden shape: its indices only keep their
/// place.
void skip_hidden_builds(CompiledCandidate& opponent, std::size_t workloads, std::size_t shapes);

/// "rows=3 cols=17": variable axes.
[[nodiscard]] std::string describe_shape(const Workload& shape);

}  // namespace kernelforge
