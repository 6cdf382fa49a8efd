// SPDX-License-Identifier: Apache-2.0
#include "forge_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/sha256.hpp"
#include "builds.hpp"
#include "referee/statistics.hpp"

namespace kernelforge {
namespace {

constexpr double worst_workload = 0.98;

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

std::string describe(const PairedRatio& paired, Provenance times) {
    if (times != Provenance::measured) {
        return fmt::format("{:.4f} times the leader's speed, {}", paired.ratio, to_string(times));
    }
    return fmt::format("{:.4f} times the leader's speed, 99 % interval {:.4f} to {:.4f}",
                       paired.ratio, paired.low, paired.high);
}

bool no_workload_lost(const Evaluation& promotion) {
    return std::none_of(
        promotion.workloads.begin(), promotion.workloads.end(),
        [](const WorkloadResult& workload) { return workload.paired->high < worst_workload; });
}

void add_workload(Sha256& hash, const Workload& workload) {
    hash.field(workload.uuid);
    for (const auto& [axis, value] : workload.axes) hash.field(fmt::format("{}={}", axis, value));
    for (const auto& [name, value] : workload.scalars)
        hash.field(fmt::format("{}={}", name, value));
}

}  // namespace

std::string request_id(const EvaluationRequest& request, const std::string& prefix) {
    Sha256 hash;
    hash.field(request.task->definition.name);
    for (const std::size_t workload : request.workloads) {
        add_workload(hash, request.task->workloads.at(workload));
    }
    for (const Workload& shape : request.hidden) {
        hash.field("hidden");
        add_workload(hash, shape);
    }
    add_candidate(hash, request.candidate);
    add_candidate(hash, request.reference);
    if (request.opponent) add_candidate(hash, *request.opponent);
    if (request.command) {
        for (const std::string& argument : request.command->command) hash.field(argument);
    }
    hash.field(to_string(request.depth));
    hash.field(
        fmt::format("{} {}{}", request.seed, request.device, request.fresh_worker ? " fresh" : ""));
    return prefix + "-" + hash.hex().substr(0, 16);
}

double weight_of(const Task& task, std::size_t workload) {
    return workload < task.workloads.size() ? task.workloads[workload].weight : 1.0;
}

std::optional<PairedRatio> combined_ratio(const Task& task, const Evaluation& evaluation) {
    if (evaluation.workloads.empty()) return std::nullopt;
    double log_sum = 0.0;
    double weights = 0.0;
    double below = 0.0;
    double above = 0.0;
    PairedRatio combined;
    combined.quads = std::numeric_limits<int>::max();
    for (const WorkloadResult& workload : evaluation.workloads) {
        if (!workload.paired || !(workload.paired->ratio > 0.0)) return std::nullopt;
        const PairedRatio& paired = *workload.paired;
        const double weight = weight_of(task, workload.workload);
        weights += weight;
        log_sum += weight * std::log(paired.ratio);
        below += std::pow(weight * (std::log(paired.ratio) - std::log(paired.low)), 2);
        above += std::pow(weight * (std::log(paired.high) - std::log(paired.ratio)), 2);
        combined.quads = std::min(combined.quads, paired.quads);
    }
    combined.ratio = std::exp(log_sum / weights);
    combined.low = std::exp((log_sum - std::sqrt(below)) / weights);
    combined.high = std::exp((log_sum + std::sqrt(above)) / weights);
    return combined;
}

double combined_least_gain(const Task& task, const Evaluation& evaluation) {
    double log_sum = 0.0;
    double weights = 0.0;
    for (const WorkloadResult& workload : evaluation.workloads) {
        const double seconds = workload.timing ? workload.timing->median_s : 0.0;
        const double weight = weight_of(task, workload.workload);
        weights += weight;
        log_sum += weight * std::log1p(referee::least_gain(seconds));
    }
    return std::expm1(log_sum / weights);
}

std::optional<double> speedup_over(const Task& task, std::span<const double> baseline_s,
                                   const Evaluation& evaluation) {
    if (evaluation.workloads.empty()) return std::nullopt;
    double log_sum = 0.0;
    double weights = 0.0;
    for (const WorkloadResult& workload : evaluation.workloads) {
        if (!workload.timing || !(workload.timing->median_s > 0.0)) return std::nullopt;
        if (workload.workload >= baseline_s.size() || !(baseline_s[workload.workload] > 0.0)) {
            return std::nullopt;
        }
        const double weight = weight_of(task, workload.workload);
        weights += weight;
        log_sum += weight * std::log(baseline_s[workload.workload] / workload.timing->median_s);
    }
    return std::exp(log_sum / weights);
}

bool worth_promoting(const Task& task, const Evaluation& screen) {
    if (screen.status != EvaluationStatus::ok) return false;
    const std::optional<PairedRatio> paired = combined_ratio(task, screen);
    return paired && paired->ratio > 1.0;
}

bool passes_promotion(const Task& task, const Evaluation& promotion) {
    if (promotion.status != EvaluationStatus::ok) return false;
    const std::optional<PairedRatio> paired = combined_ratio(task, promotion);
    if (!paired || !(paired->low >= 1.0 + combined_least_gain(task, promotion))) return false;
    return no_workload_lost(promotion);
}

bool passes_modelled_promotion(const Task& task, const Evaluation& promotion) {
    if (promotion.status != EvaluationStatus::ok) return false;
    const std::optional<PairedRatio> paired = combined_ratio(task, promotion);
    return paired && paired->ratio >= 1.0 + least_modelled_gain && no_workload_lost(promotion);
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

std::optional<std::string> implausible_hidden(const Evaluation& evaluation, std::size_t count,
                                              bool all) {
    std::set<std::size_t> seen;
    for (const HiddenResult& result : evaluation.hidden) {
        if (result.hidden >= count) {
            return fmt::format("implausible verdict: hidden shape {} was not asked for",
                               result.hidden);
        }
        if (!seen.insert(result.hidden).second) {
            return fmt::format("implausible verdict: hidden shape {} is there twice",
                               result.hidden);
        }
    }
    if (all && evaluation.status == EvaluationStatus::ok && seen.size() != count) {
        return fmt::format("implausible verdict: expected verdicts on {} hidden shapes, found {}",
                           count, seen.size());
    }
    return std::nullopt;
}

namespace {

/// A failure on a hidden shape is one of the candidate.
void fold_hidden(const EvaluationRequest& request, Evaluation& evaluation) {
    if (evaluation.status != EvaluationStatus::ok) return;
    for (const HiddenResult& result : evaluation.hidden) {
        if (result.status == EvaluationStatus::ok) continue;
        evaluation.status = result.status;
        evaluation.message =
            fmt::format("on another shape, {}: {}", describe_shape(request.hidden[result.hidden]),
                        result.message);
        return;
    }
}

/// Nothing of an implausible verdict is kept: none of it can be trusted.
Evaluation refuse(const EvaluationRequest& request, const Evaluation& evaluation,
                  const std::string& why) {
    Evaluation refused;
    refused.id = request.id;
    refused.device = evaluation.device;
    refused.evaluator = evaluation.evaluator;
    refused.message = why;
    return refused;
}

/// Whether an ok verdict on this request has times. A command may leave out what it cannot run.
bool is_timed(const EvaluationRequest& request) {
    return !request.command && (request.depth == EvaluationDepth::screen ||
                                request.depth == EvaluationDepth::promotion);
}

}  // namespace

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
    if (const auto why = implausible(evaluation, request.workloads, is_timed(request))) {
        return refuse(request, evaluation, *why);
    }
    // A command runs workloads only; a sanitizer that is missing runs nothing.
    const bool all = !request.command && request.depth != EvaluationDepth::admission &&
                     request.depth != EvaluationDepth::sanitize;
    if (const auto why = implausible_hidden(evaluation, request.hidden.size(), all)) {
        return refuse(request, evaluation, *why);
    }
    fold_hidden(request, evaluation);
    return evaluation;
}

namespace {

/// The steps of a promotion, in order.
enum class Step { first, sanitize, second };

EvaluationRequest request_of(Step step, const EvaluationRequest& request) {
    EvaluationRequest own = request;
    if (step == Step::sanitize) {
        own.depth = EvaluationDepth::sanitize;
        own.opponent.reset();
        return own;
    }
    own.depth = EvaluationDepth::promotion;
    own.seed += step == Step::first ? 1 : 2;  // another order of pairs, other hidden shapes
    own.fresh_worker = step == Step::second;
    return own;
}

std::string prefix_of(Step step) {
    switch (step) {
        case Step::first:
            return "promotion1";
        case Step::sanitize:
            return "sanitize";
        case Step::second:
            return "promotion2";
    }
    return "promotion";
}

/// Whether the tools let the candidate go on. That a tool gave no verdict is no fault of the
/// candidate's: a warning.
bool passes_tools(const Evaluation& sanitized, Promotion& result) {
    for (const SanitizerResult& tool : sanitized.sanitizer) {
        if (tool.status == SanitizerResult::Status::findings) {
            result.evaluation.status = EvaluationStatus::rejected;
            result.evaluation.rule = "compute-sanitizer " + tool.tool;
            result.evaluation.message = fmt::format("{}: {}", result.evaluation.rule, tool.message);
            return false;
        }
        if (tool.status != SanitizerResult::Status::clean) {
            result.warnings.push_back(fmt::format("sanitizer: {} {}: {}", tool.tool,
                                                  to_string(tool.status), tool.message));
        }
    }
    switch (sanitized.status) {
        // Slowed down by a tool, a race may show for the first time in what it computes.
        case EvaluationStatus::wrong_result:
        case EvaluationStatus::rejected:
            result.evaluation.message = "under compute-sanitizer: " + sanitized.message;
            break;
        // It cannot be built for the small shapes that the tools run.
        case EvaluationStatus::compile_error:
        case EvaluationStatus::plan_error:
            result.evaluation.message = sanitized.message;
            break;
        default:
            if (sanitized.sanitizer.empty()) {
                result.warnings.push_back(fmt::format("sanitizer: unavailable: {}",
                                                      sanitized.message.empty()
                                                          ? "the evaluator has no such tools"
                                                          : sanitized.message));
            }
            return true;
    }
    result.evaluation.status = sanitized.status;
    result.evaluation.rule = sanitized.rule;
    return false;
}

}  // namespace

Promotion promote(Evaluator& evaluator, EvaluationRequest request, const AddHidden& add_hidden,
                  std::stop_token stop, Provenance times) {
    if (!request.opponent) {
        throw Error(ErrorCode::invalid_argument, "promotion: expected an opponent, found none");
    }
    const bool measured = times == Provenance::measured;
    Promotion result;
    std::vector<SanitizerResult> tools;
    for (const Step step : {Step::first, Step::sanitize, Step::second}) {
        EvaluationRequest own = request_of(step, request);
        std::optional<Evaluation> verdict = add_hidden ? add_hidden(own) : std::nullopt;
        if (!verdict) verdict = evaluate_as_status(evaluator, own, prefix_of(step), stop);
        if (verdict->status == EvaluationStatus::pending) {
            result.pending = true;
            if (!measured) break;
            continue;
        }
        if (step == Step::sanitize && verdict->status != EvaluationStatus::cancelled) {
            tools = verdict->sanitizer;
            if (result.evaluation.status != EvaluationStatus::ok) continue;  // pending
            result.promoted = passes_tools(*verdict, result);
        } else {
            result.evaluation = *verdict;
            result.promoted = measured ? passes_promotion(*request.task, *verdict)
                                       : passes_modelled_promotion(*request.task, *verdict);
        }
        if (!result.promoted || !measured) {
            result.pending = false;
            break;
        }
    }
    result.promoted = result.promoted && !result.pending;
    result.evaluation.sanitizer = std::move(tools);
    const std::optional<PairedRatio> paired = combined_ratio(*request.task, result.evaluation);
    result.message = !result.evaluation.message.empty() ? result.evaluation.message
                     : paired                           ? describe(*paired, times)
                                                        : "no pairs were timed";
    return result;
}

}  // namespace kernelforge
