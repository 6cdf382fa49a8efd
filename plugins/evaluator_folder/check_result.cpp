// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/check_result.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "kernelforge/error.hpp"

namespace kernelforge::folder {
namespace {

std::string text_of(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", number);
    return text;
}

/// @returns what is wrong, empty when nothing is
std::string wrong_timing(const Timing& timing) {
    const struct {
        const char* name;
        double seconds;
    } members[] = {{"median_s", timing.median_s},
                   {"trimmed_mean_s", timing.trimmed_mean_s},
                   {"p10_s", timing.p10_s},
                   {"p90_s", timing.p90_s}};
    for (const auto& [name, seconds] : members) {
        if (std::isfinite(seconds) && seconds > 0.0) continue;
        return std::string("expected a finite ") + name + " above 0, found " + text_of(seconds);
    }
    // What was modelled was not sampled.
    const bool sampled = timing.provenance == Provenance::measured;
    if (timing.samples > 0 || (!sampled && timing.samples == 0)) return {};
    return "expected samples above 0, found " + std::to_string(timing.samples);
}

/// Few quads have an interval from 0 to infinity, which is no mistake.
std::string wrong_ratio(const PairedRatio& paired) {
    if (!std::isfinite(paired.ratio) || paired.ratio <= 0.0) {
        return "expected a finite ratio above 0, found " + text_of(paired.ratio);
    }
    if (paired.low >= 0.0 && paired.low <= paired.ratio && paired.ratio <= paired.high) return {};
    return "expected low <= ratio <= high, found " + text_of(paired.low) + ", " +
           text_of(paired.ratio) + ", " + text_of(paired.high);
}

std::string wrong_workload(const WorkloadResult& result) {
    if (result.timing) {
        if (auto wrong = wrong_timing(*result.timing); !wrong.empty()) return "timing: " + wrong;
    }
    if (result.opponent_timing) {
        if (auto wrong = wrong_timing(*result.opponent_timing); !wrong.empty()) {
            return "opponent_timing: " + wrong;
        }
    }
    if (result.paired) {
        if (auto wrong = wrong_ratio(*result.paired); !wrong.empty()) return "paired: " + wrong;
    }
    return {};
}

/// Each asked hidden shape at most once, and all of them in an evaluation that is ok.
void check_hidden(const Evaluation& evaluation, const EvaluationRequest& request,
                  const std::string& file) {
    const auto refuse = [&](const std::string& what) {
        throw Error(ErrorCode::parse,
                    file + ": " + what + "; delete the file to have the job done again");
    };
    std::set<std::size_t> seen;
    for (const HiddenResult& result : evaluation.hidden) {
        if (result.hidden >= request.hidden.size() || !seen.insert(result.hidden).second) {
            refuse("hidden shape " + std::to_string(result.hidden) +
                   ": expected one result of each that the job asks for, found another");
        }
    }
    // Without the tools of compute-sanitizer nothing is run.
    const bool all = evaluation.status == EvaluationStatus::ok && !request.command &&
                     request.depth != EvaluationDepth::sanitize &&
                     request.depth != EvaluationDepth::admission;
    if (all && seen.size() != request.hidden.size()) {
        refuse("expected results of " + std::to_string(request.hidden.size()) +
               " hidden shapes in an evaluation that is ok, found " + std::to_string(seen.size()));
    }
}

}  // namespace

void check_result(const Evaluation& evaluation, const EvaluationRequest& request,
                  const std::string& file) {
    const auto refuse = [&](std::size_t workload, const std::string& what) {
        throw Error(ErrorCode::parse, file + ": workload " + std::to_string(workload) + ": " +
                                          what + "; delete the file to have the job done again");
    };
    std::set<std::size_t> seen;
    std::set<std::size_t> timed;
    for (const WorkloadResult& result : evaluation.workloads) {
        const auto& asked = request.workloads;
        if (std::find(asked.begin(), asked.end(), result.workload) == asked.end()) {
            refuse(result.workload, "expected one that the job asks for, found another");
        }
        if (!seen.insert(result.workload).second) {
            refuse(result.workload, "expected one result, found several");
        }
        if (const auto wrong = wrong_workload(result); !wrong.empty()) {
            refuse(result.workload, wrong);
        }
        if (result.timing) timed.insert(result.workload);
    }
    check_hidden(evaluation, request, file);
    if (evaluation.status != EvaluationStatus::ok) return;
    const bool has_times = request.command || request.depth == EvaluationDepth::screen ||
                           request.depth == EvaluationDepth::promotion;
    if (!has_times) return;
    for (const std::size_t workload : request.workloads) {
        if (!timed.contains(workload)) {
            refuse(workload, "expected a timing in an evaluation that is ok, found none");
        }
    }
}

}  // namespace kernelforge::folder
