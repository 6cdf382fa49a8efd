// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "kernelforge/evaluator.hpp"

// When a candidate takes the leader's place (docs/forge.md, "Promotion").

namespace kernelforge {

/// A request's id: `PREFIX-` and a hash of everything in the request that decides its answer: task,
/// the candidate's, reference's and opponent's identity, workloads, depth, seed, device. Usable as
/// a file name.
[[nodiscard]] std::string request_id(const EvaluationRequest& request, const std::string& prefix);

/// Candidate against opponent over all workloads: geometric mean of the ratios; the interval
/// assumes that the workloads' errors are independent: log distances add in squares and are divided
/// by their count. `quads` is the smallest. Absent when a workload has no pairs.
[[nodiscard]] std::optional<PairedRatio> combined_ratio(const Evaluation& evaluation);

/// Geometric mean over workloads of baseline time over the candidate's median. `baseline_s` has one
/// time a workload of the task. Absent when a workload of the evaluation has no time.
[[nodiscard]] std::optional<double> speedup_over(std::span<const double> baseline_s,
                                                 const Evaluation& evaluation);

/// Whether a screen is right and on average faster than its opponent, so that a promotion is worth
/// seconds.
[[nodiscard]] bool worth_promoting(const Evaluation& screen);

/// Whether one promotion evaluation lets the candidate win: it is ok; the lower end of the combined
/// interval is at least one plus the least promotable gain (`referee::least_gain`, geometric mean
/// over workloads); and no workload is slower by more than 2 % beyond doubt (upper end below 0.98).
[[nodiscard]] bool passes_promotion(const Evaluation& promotion);

/// Why a verdict cannot be true, in one sentence; nothing when it can. Workloads must be among the
/// asked ones, each once; times finite and above 0; ratios of pairs likewise. `timed`: an ok
/// verdict has a time of every asked workload.
[[nodiscard]] std::optional<std::string> implausible(const Evaluation& evaluation,
                                                     std::span<const std::size_t> workloads,
                                                     bool timed);

/// Evaluates under the id that `request_id` gives. What is wrong with a worker or a device, a
/// cancellation that nobody asked for, and a verdict that is implausible is the status
/// evaluator_failed. [device]
/// @throws Error as `Evaluator::evaluate`, but not worker_failed, device_unavailable, io, cancelled
[[nodiscard]] Evaluation evaluate_as_status(Evaluator& evaluator, EvaluationRequest request,
                                            const std::string& prefix, std::stop_token stop);

struct Promotion {
    bool pending = false;   ///< ask again later
    bool promoted = false;  ///< both passes let the candidate win
    Evaluation evaluation;  ///< the last pass that has an answer
    std::string message;    ///< one sentence on the outcome
};

/// Evaluates candidate against `request.opponent` at promotion depth, twice, under ids of its own.
/// The second pass confirms the first, so that chance must strike twice; it is skipped when the
/// first fails, but queued at once where answers are pending. [device]
/// @throws Error as `Evaluator::evaluate`; invalid_argument without an opponent
[[nodiscard]] Promotion promote(Evaluator& evaluator, EvaluationRequest request,
                                std::stop_token stop);

}  // namespace kernelforge
