// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"

// When a candidate takes the leader's place (docs/forge.md, "Promotion").

namespace kernelforge {

/// A request's id: `PREFIX-` and a hash of everything in the request that decides its answer: task,
/// the candidate's, reference's and opponent's identity, workloads, hidden shapes, depth, seed,
/// device, and whether the worker is fresh. Usable as a file name.
[[nodiscard]] std::string request_id(const EvaluationRequest& request, const std::string& prefix);

/// Share of a workload in geometric means over the workloads of a task.
[[nodiscard]] double weight_of(const Task& task, std::size_t workload);

/// Candidate against opponent over all workloads: geometric mean of the ratios, weighted by
/// `Workload::weight`; the interval assumes that the workloads' errors are independent: weighted
/// log distances add in squares and are divided by the sum of weights. `quads` is the smallest.
/// Absent when a workload has no pairs.
[[nodiscard]] std::optional<PairedRatio> combined_ratio(const Task& task,
                                                        const Evaluation& evaluation);

/// Least promotable gain (`referee::least_gain` at each workload's median), weighted geometric mean
/// over workloads, as a share.
[[nodiscard]] double combined_least_gain(const Task& task, const Evaluation& evaluation);

/// Weighted geometric mean over workloads of baseline time over the candidate's median.
/// `baseline_s` has one time a workload of the task. Absent when a workload of the evaluation has
/// no time.
[[nodiscard]] std::optional<double> speedup_over(const Task& task,
                                                 std::span<const double> baseline_s,
                                                 const Evaluation& evaluation);

/// Whether a screen is right and on average faster than its opponent, so that a promotion is worth
/// seconds.
[[nodiscard]] bool worth_promoting(const Task& task, const Evaluation& screen);

/// Whether one promotion evaluation lets the candidate win: it is ok; the lower end of the combined
/// interval is at least one plus the combined least gain; and no workload is slower by more than
/// 2 % beyond doubt (upper end below 0.98).
[[nodiscard]] bool passes_promotion(const Task& task, const Evaluation& promotion);

/// A model that ranks candidates is no finer than this.
inline constexpr double least_modelled_gain = 0.01;

/// The same for modelled times: ok, the combined ratio is at least 1 + `least_modelled_gain`, and
/// no workload is slower by more than 2 %.
[[nodiscard]] bool passes_modelled_promotion(const Task& task, const Evaluation& promotion);

/// Why a verdict cannot be true, in one sentence; nothing when it can. Workloads must be among the
/// asked ones, each once; times finite and above 0; ratios of pairs likewise. `timed`: an ok
/// verdict has a time of every asked workload.
[[nodiscard]] std::optional<std::string> implausible(const Evaluation& evaluation,
                                                     std::span<const std::size_t> workloads,
                                                     bool timed);

/// The same for hidden shapes: at most one result of each of `count`. `all`: an ok verdict says of
/// each how it fared.
[[nodiscard]] std::optional<std::string> implausible_hidden(const Evaluation& evaluation,
                                                            std::size_t count, bool all);

/// Evaluates under the id that `request_id` gives. What is wrong with a worker or a device, a
/// cancellation that nobody asked for, and a verdict that is implausible is the status
/// evaluator_failed. The first failure on a hidden shape is the verdict of an evaluation that is
/// otherwise ok; its message names the shape's axes. [device]
/// @throws Error as `Evaluator::evaluate`, but not worker_failed, device_unavailable, io, cancelled
[[nodiscard]] Evaluation evaluate_as_status(Evaluator& evaluator, EvaluationRequest request,
                                            const std::string& prefix, std::stop_token stop);

/// What the times on a device are.
[[nodiscard]] constexpr Provenance times_of(const DeviceInfo& device) noexcept {
    return device.emulated ? Provenance::modelled_static : Provenance::measured;
}

/// Gives a request the hidden shapes of its depth and seed, with builds of all sides. A verdict:
/// the candidate cannot be built for one of them.
using AddHidden = std::function<std::optional<Evaluation>(EvaluationRequest& request)>;

struct Promotion {
    bool pending = false;   ///< ask again later
    bool promoted = false;  ///< both passes let the candidate win, and no tool found anything
    /// The last pass that has an answer, with what the tools said in `sanitizer`. Findings of a
    /// tool make it `rejected` by rule "compute-sanitizer TOOL".
    Evaluation evaluation;
    std::string message;                ///< one sentence on the outcome
    std::vector<std::string> warnings;  ///< one for each tool that gave no verdict
};

/// Evaluates candidate against `request.opponent` at promotion depth, twice, under ids of its own
/// and with hidden shapes of its own. The second pass confirms the first in a worker that has run
/// nothing before, so that chance must strike twice and no state of the first helps. Between them
/// the candidate is run once under compute-sanitizer. What follows a failure is skipped, but queued
/// at once where answers are pending.
///
/// Modelled times are exact and need no confirmation, and what modelled them has looked for faults:
/// one pass, won by a ratio of at least `least_modelled_gain` more than 1. [device]
/// @throws Error as `Evaluator::evaluate`; invalid_argument without an opponent
[[nodiscard]] Promotion promote(Evaluator& evaluator, EvaluationRequest request,
                                const AddHidden& add_hidden, std::stop_token stop,
                                Provenance times = Provenance::measured);

}  // namespace kernelforge
