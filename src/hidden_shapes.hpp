// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "builds.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"

// Shapes that a candidate is checked on and that its author has not seen (docs/referee.md, "Hidden
// shapes"). Pure but for `add_hidden_shapes`, which compiles.

namespace kernelforge {

/// At most this many bytes of all tensors together, and no more than the largest workload has, so
/// that a hidden shape is quick.
inline constexpr double most_hidden_bytes = 2.0 * 1024 * 1024 * 1024;

/// Bytes of all tensors of a shape. @throws Error as `axis_values`
[[nodiscard]] double tensor_bytes(const Definition& definition, const Workload& shape);

/// Up to `count` different shapes, none of them a workload: variable axes that `Task::axis_ranges`
/// names are drawn log-uniformly in their range, the others and scalar inputs are a random
/// workload's; expression axes follow. In this order, as far as `count` goes and the ranges hold
/// such values:
/// 1. every ranged axis odd;
/// 2. where the plan has `//@valid`: two neighbours along one axis, one that it holds for and one
///    that it does not;
/// 3. one axis a multiple of 64, 128 or 256, plus or minus one;
/// 4. every ranged axis at the low end of its range;
/// 5. free draws.
/// Where the plan has `//@valid`, those of 1, 3 and 5 hold it when such a shape is found. Fewer, or
/// none: the task has no ranges, or the ranges hold too few small enough shapes. An input of kind
/// `distinct` is never longer than its bound. Same arguments, same shapes.
[[nodiscard]] std::vector<Workload> hidden_shapes(const Task& task, const plan::Plan& plan,
                                                  const Bindings& bindings,
                                                  const DeviceInfo& device, std::uint64_t seed,
                                                  std::size_t count);

/// How many hidden shapes a request of this depth gets: one in a screen, four in a promotion and
/// six where the plan has `//@valid`.
[[nodiscard]] std::size_t hidden_count(EvaluationDepth depth, const plan::Plan& plan);

/// The small shapes that a candidate is run on under compute-sanitizer: the task's emulator
/// workloads that the plan serves. Empty: take the smallest workload.
[[nodiscard]] std::vector<Workload> small_shapes(const Task& task, const plan::Plan& plan,
                                                 const Bindings& bindings,
                                                 const DeviceInfo& device);

/// A task as an emulated device judges it.
struct SmallTask {
    Task task;
    std::string note;  ///< one line: where its workloads come from
};

/// The task with its workloads replaced by its emulator workloads, in weight and order as they are
/// there, and with the constant axes of `Task::emulator_axes`. Ranges of axes end at the longest of
/// those workloads. Where it has none: by its smallest workload, with the axes that have a range
/// cut to at most 67, or as it is where no such shape is possible. Applied twice it changes nothing
/// more.
[[nodiscard]] SmallTask emulator_task(const Task& task);

/// Index of the workload with the fewest bytes.
[[nodiscard]] std::size_t smallest_workload(const Task& task);

/// Up to three workloads: of fewest, median and most bytes, in this order, each once; those over
/// `most_bytes` are left out unless nothing else is there.
[[nodiscard]] std::vector<std::size_t> spread_of_workloads(const Task& task, double most_bytes);

/// Completes a request whose sides are built for its workloads: draws the hidden shapes of its
/// depth, from its seed and the candidate, and adds their builds to all sides. At depth sanitize
/// the shapes are the small ones, and the request has no workload or only the smallest. A verdict,
/// not ok: the candidate cannot be built for one of the shapes, or a stop came. [any]
/// @throws Error as `Compiler::compile`; invalid_argument: the task's reference cannot be built for
/// a shape in the task's ranges
[[nodiscard]] std::optional<Evaluation> add_hidden_shapes(Compiler& compiler,
                                                          const DeviceInfo& device,
                                                          const BuildLimits& limits,
                                                          EvaluationRequest& request,
                                                          std::stop_token stop);

}  // namespace kernelforge
