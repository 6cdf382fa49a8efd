// SPDX-License-Identifier: Apache-2.0
#include "forge_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/sha256.hpp"
#include "referee/statistics.hpp"

namespace kernelforge {
namespace {

constexpr double worst_workload = 0.98;
constexpr int passes = 2;

void add_candidate(Sha256& hash, const CompiledCandidate& candidate) {
    hash.field(node_id(candidate.candidate).value);
    for (const CompileResult& build : candidate.builds) hash.field(build.arch);
}

bool is_positive(double value) {
    return std::isfinite(value) && value > 0.0;
}

/// Too few pairs leave an interval open.
bool is_ratio(const PairedRatio& paired) {
    return is_positive(paired.ratio) && paired.low >= 0.0 && paired.low <= paired.ratio &&
           paired.high >= paired.ratio;
}

std::string describe(const PairedRatio& paired) {
    return fmt::format("{:.4f} times the leader's speed, 99 % interval {:.4f} to {:.4f}",
                       paired.ratio, paired.low, paired.high);
}

double combined_least_gain(const Evaluation& evaluation) {
    double log_sum = 0.0;
    for (const WorkloadResult& workload : evaluation.workloads) {
        const double seconds = workload.timing ? workload.timing->median_s : 0.0;
        log_sum += std::log1p(referee::least_gain(seconds));
    }
    return std::expm1(log_sum / static_cast<double>(evaluation.workloads.size()));
}

}  // namespace

std::string request_id(const EvaluationRequest& request, const std::string& prefix) {
    Sha256 hash;
    hash.field(request.task->definition.name);
    for (const std::size_t workload : request.workloads) {
        const Workload& chosen = request.task->workloads.at(workload);
        hash.field(chosen.uuid);
        for (const auto& [axis, value] : chosen.axes) hash.field(fmt::format("{}={}", axis, value));
        for (const auto& [name, value] : chosen.scalars)
            hash.field(fmt::format("{}={}", name, value));
    }
    add_candidate(hash, request.candidate);
    add_candidate(hash, request.reference);
    if (request.opponent) add_candidate(hash, *request.opponent);
    if (request.command) {
        for (const std::string& argument : request.command->command) hash.field(argument);
    }
    hash.field(to_string(request.depth));
    hash.field(fmt::format("{} {}", request.seed, request.device));
    return prefix + "-" + hash.hex().substr(0, 16);
}

std::optional<PairedRatio> combined_ratio(const Evaluation& evaluation) {
    if (evaluation.workloads.empty()) return std::nullopt;
    double log_sum = 0.0;
    double below = 0.0;
    double above = 0.0;
    PairedRatio combined;
    combined.quads = std::numeric_limits<int>::max();
    for (const WorkloadResult& workload : evaluation.workloads) {
        if (!workload.paired || !(workload.paired->ratio > 0.0)) return std::nullopt;
        const PairedRatio& paired = *workload.paired;
        log_sum += std::log(paired.ratio);
        below += std::pow(std::log(paired.ratio) - std::log(paired.low), 2);
        above += std::pow(std::log(paired.high) - std::log(paired.ratio), 2);
        combined.quads = std::min(combined.quads, paired.quads);
    }
    const auto count = static_cast<double>(evaluation.workloads.size());
    combined.ratio = std::exp(log_sum / count);
    combined.low = std::exp((log_sum - std::sqrt(below)) / count);
    combined.high = std::exp((log_sum + std::sqrt(above)) / count);
    return combined;
}

std::optional<double> speedup_over(std::span<const double> baseline_s,
                                   const Evaluation& evaluation) {
    if (evaluation.workloads.empty()) return std::nullopt;
    double log_sum = 0.0;
    for (const WorkloadResult& workload : evaluation.workloads) {
        if (!workload.timing || !(workload.timing->median_s > 0.0)) return std::nullopt;
        if (workload.workload >= baseline_s.size() || !(baseline_s[workload.workload] > 0.0)) {
            return std::nullopt;
        }
        log_sum += std::log(baseline_s[workload.workload] / workload.timing->median_s);
    }
    return std::exp(log_sum / static_cast<double>(evaluation.workloads.size()));
}

bool worth_promoting(const Evaluation& screen) {
    if (screen.status != EvaluationStatus::ok) return false;
    const std::optional<PairedRatio> paired = combined_ratio(screen);
    return paired && paired->ratio > 1.0;
}

bool passes_promotion(const Evaluation& promotion) {
    if (promotion.status != EvaluationStatus::ok) return false;
    const std::optional<PairedRatio> paired = combined_ratio(promotion);
    if (!paired || !(paired->low >= 1.0 + combined_least_gain(promotion))) return false;
    return std::none_of(
        promotion.workloads.begin(), promotion.workloads.end(),
        [](const WorkloadResult& workload) { return workload.paired->high < worst_workload; });
}

std::optional<std::string> implausible(const Evaluation& evaluation,
                                       std::span<const std::size_t> workloads, bool timed) {
    std::set<std::size_t> seen;
    std::size_t times = 0;
    for (const WorkloadResult& result : evaluation.workloads) {
        if (std::find(workloads.begin(), workloads.end(), result.workload) == workloads.end()) {
            return fmt::format("implausible verdict: workload {} was not asked for",
                               result.workload);
        }
        if (!seen.insert(result.workload).second) {
            return fmt::format("implausible verdict: workload {} is there twice", result.workload);
        }
        for (const auto* timing : {&result.timing, &result.opponent_timing}) {
            if (*timing && !is_positive((*timing)->median_s)) {
                return fmt::format(
                    "implausible verdict: workload {}: expected a time above 0, found {} s",
                    result.workload, (*timing)->median_s);
            }
        }
        if (result.paired && !is_ratio(*result.paired)) {
            return fmt::format(
                "implausible verdict: workload {}: expected a ratio above 0 in its interval, found "
                "{} in {} to {}",
                result.workload, result.paired->ratio, result.paired->low, result.paired->high);
        }
        if (result.timing) ++times;
    }
    if (timed && evaluation.status == EvaluationStatus::ok && times != workloads.size()) {
        return fmt::format("implausible verdict: expected times of {} workloads, found {}",
                           workloads.size(), times);
    }
    return std::nullopt;
}

Evaluation evaluate_as_status(Evaluator& evaluator, EvaluationRequest request,
                              const std::string& prefix, std::stop_token stop) {
    request.id = request_id(request, prefix);
    Evaluation evaluation;
    try {
        evaluation = evaluator.evaluate(request, stop);
    } catch (const Error& error) {
        switch (error.code()) {
            case ErrorCode::cancelled:
                evaluation.status = EvaluationStatus::cancelled;
                break;
            case ErrorCode::worker_failed:
            case ErrorCode::device_unavailable:
            case ErrorCode::io:
                evaluation.status = EvaluationStatus::evaluator_failed;
                break;
            default:
                throw;
        }
        evaluation.id = request.id;
        evaluation.message = error.what();
    }
    if (evaluation.status == EvaluationStatus::cancelled && !stop.stop_requested()) {
        evaluation.status = EvaluationStatus::evaluator_failed;
        evaluation.message = "evaluation cancelled although no stop was requested";
    }
    // A command may leave out what it cannot run.
    const bool timed = request.depth != EvaluationDepth::check && !request.command;
    if (const auto why = implausible(evaluation, request.workloads, timed)) {
        Evaluation refused;  // nothing of it is kept: none of it can be trusted
        refused.id = request.id;
        refused.device = evaluation.device;
        refused.evaluator = evaluation.evaluator;
        refused.message = *why;
        return refused;
    }
    return evaluation;
}

Promotion promote(Evaluator& evaluator, EvaluationRequest request, std::stop_token stop) {
    if (!request.opponent) {
        throw Error(ErrorCode::invalid_argument, "promotion: expected an opponent, found none");
    }
    request.depth = EvaluationDepth::promotion;
    Promotion result;
    for (int pass = 1; pass <= passes; ++pass) {
        ++request.seed;  // another order of pairs
        const Evaluation evaluation =
            evaluate_as_status(evaluator, request, fmt::format("promotion{}", pass), stop);
        if (evaluation.status == EvaluationStatus::pending) {
            result.pending = true;
            continue;
        }
        result.evaluation = evaluation;
        result.promoted = passes_promotion(evaluation);
        if (!result.promoted) {
            result.pending = false;
            break;
        }
    }
    result.promoted = result.promoted && !result.pending;
    const std::optional<PairedRatio> paired = combined_ratio(result.evaluation);
    result.message = !result.evaluation.message.empty() ? result.evaluation.message
                     : paired                           ? describe(*paired)
                                                        : "no pairs were timed";
    return result;
}

}  // namespace kernelforge
