// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "forge_run.hpp"
#include "roofline.hpp"

// What comes out of a run: the result, best.cu and run.json (docs/run_folder.md).

namespace kernelforge {
namespace {

constexpr const char* best_file = "best.cu";

Json number_or_null(const std::optional<double>& value) {
    return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

template <class T>
Json value_or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

std::string_view to_string(Feedback feedback) {
    switch (feedback) {
        case Feedback::none:
            return "none";
        case Feedback::raw:
            return "raw";
        case Feedback::findings:
            return "findings";
    }
    return "unknown";
}

Json json_of(const Budget& budget) {
    Json json;
    json["evaluations"] = value_or_null(budget.evaluations);
    json["time_s"] = budget.time ? Json(budget.time->count()) : Json(nullptr);
    json["tokens"] = value_or_null(budget.tokens);
    json["cost_usd"] = number_or_null(budget.cost_usd);
    return json;
}

Json json_of(const ForgeOptions& options) {
    Json json;
    json["seed"] = options.seed;
    json["generations"] = options.generations;
    json["max_rounds"] = options.max_rounds;
    json["max_in_flight"] = options.max_in_flight;
    json["max_repairs"] = options.max_repairs;
    json["feedback"] = to_string(options.feedback);
    json["stop_headroom"] = options.stop_headroom;
    json["target_speedup"] = number_or_null(options.target_speedup);
    json["budget"] = json_of(options.budget);
    return json;
}

Json json_of(const WorkloadSummary& summary) {
    Json json;
    json["uuid"] = summary.uuid;
    json["axes"] = summary.axes;
    json["baselines_s"] = Json::object();
    for (const auto& [name, seconds] : summary.baselines_s) json["baselines_s"][name] = seconds;
    json["best_s"] = number_or_null(summary.best_s);
    json["bound_s"] = number_or_null(summary.bound_s);
    json["speedup"] = number_or_null(summary.speedup);
    json["headroom"] = number_or_null(summary.headroom);
    return json;
}

Json json_of(const ForgeResult& result) {
    Json json;
    json["stop_reason"] = to_string(result.stop_reason);
    json["message"] = result.message;
    json["evaluator"] = result.evaluator;
    json["best_node"] = result.best_node.value;
    json["best_file"] = result.best_path.empty() ? "" : best_file;
    json["speedup"] = number_or_null(result.speedup);
    json["best_baseline"] = result.best_baseline;
    json["speedup_over_best_baseline"] = number_or_null(result.speedup_over_best);
    json["sanitizer"] = Json::object();
    for (const SanitizerResult& tool : result.sanitizer) {
        json["sanitizer"][tool.tool] = kernelforge::to_string(tool.status);
    }
    json["evaluations"] = result.evaluations;
    json["expansions"] = result.expansions;
    json["input_tokens"] = value_or_null(result.usage.input_tokens);
    json["cached_input_tokens"] = value_or_null(result.usage.cached_input_tokens);
    json["output_tokens"] = value_or_null(result.usage.output_tokens);
    json["cost_usd"] = number_or_null(result.usage.cost_usd);
    json["time_s"] = result.time.count();
    json["workloads"] = Json::array();
    for (const WorkloadSummary& summary : result.workloads)
        json["workloads"].push_back(json_of(summary));
    return json;
}

}  // namespace

std::vector<WorkloadSummary> ForgeRun::summaries() const {
    std::vector<WorkloadSummary> all;
    for (const std::size_t workload : workloads_) {
        WorkloadSummary summary;
        summary.uuid = task_->workloads[workload].uuid;
        summary.axes = axes_text(task_->workloads[workload]);
        summary.bound_s = bound_s(*task_, workload, device_.roofs);
        // The portable one first: speedups are against it.
        for (const bool portable : {true, false}) {
            for (std::size_t i = 0; i < baselines_.size(); ++i) {
                if ((i == portable_) != portable || baselines_[i].times_s.empty()) continue;
                if (const auto& time = baselines_[i].times_s[workload]) {
                    summary.baselines_s.emplace_back(baselines_[i].spec->name, *time);
                }
            }
        }
        all.push_back(std::move(summary));
    }
    const auto leader = known_.find(leader_);
    if (leader == known_.end()) return all;
    const NodeRecord& record = leader->second.record;
    const Evaluation& timed = record.promotion ? *record.promotion : *record.evaluation;
    for (const WorkloadResult& result : timed.workloads) {
        if (!result.timing || result.workload >= all.size()) continue;
        WorkloadSummary& summary = all[result.workload];
        summary.best_s = result.timing->median_s;
        summary.speedup = baseline_times_.at(result.workload) / *summary.best_s;
        if (summary.bound_s && *summary.bound_s > 0.0)
            summary.headroom = *summary.best_s / *summary.bound_s;
    }
    return all;
}

/// Weighted geometric mean over the workloads whose bound is known.
std::optional<double> ForgeRun::leader_headroom() const {
    double log_sum = 0.0;
    double weights = 0.0;
    const std::vector<WorkloadSummary> all = summaries();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!all[i].headroom) continue;
        const double weight = weight_of(*task_, workloads_[i]);
        log_sum += weight * std::log(*all[i].headroom);
        weights += weight;
    }
    return weights > 0.0 ? std::optional(std::exp(log_sum / weights)) : std::nullopt;
}

/// The fastest of those with a time of every workload: what a result must be compared with.
const ForgeRun::Baseline* ForgeRun::best_baseline() const {
    const Baseline* best = nullptr;
    double least = 0.0;
    for (const Baseline& baseline : baselines_) {
        double log_sum = 0.0;
        bool whole = !baseline.times_s.empty();
        for (std::size_t i = 0; i < baseline.times_s.size(); ++i) {
            const std::optional<double>& seconds = baseline.times_s[i];
            whole = whole && seconds && *seconds > 0.0;
            if (whole) log_sum += weight_of(*task_, i) * std::log(*seconds);
        }
        if (!whole || (best != nullptr && log_sum >= least)) continue;
        best = &baseline;
        least = log_sum;
    }
    return best;
}

ForgeResult ForgeRun::result() const {
    ForgeResult result;
    result.stop_reason = ended_->first;
    result.message = ended_->second;
    result.workloads = summaries();
    result.evaluations = evaluations_;
    result.expansions = expansions_told_;
    result.usage = usage_;
    result.time = elapsed();
    result.device = device_;
    const auto leader = known_.find(leader_);
    if (leader == known_.end()) return result;
    result.best_node = leader_;
    const NodeRecord& record = leader->second.record;
    result.speedup = record.speedup;
    const Evaluation& timed = record.promotion ? *record.promotion : *record.evaluation;
    result.sanitizer = timed.sanitizer;
    result.evaluator = timed.evaluator;
    if (const Baseline* best = best_baseline()) {
        std::vector<double> times;
        for (const auto& seconds : best->times_s) times.push_back(*seconds);
        result.best_baseline = best->spec->name;
        result.speedup_over_best = speedup_over(*task_, times, timed);
    }
    if (leader_ == root_) return result;
    const Candidate& best = *leader->second.record.candidate;
    const plan::Plan parsed =
        plan::parse_plan(best.source, "candidate.cu", task_->definition, task_->constant_inputs);
    result.best.variants.push_back({best, parsed.valid ? parsed.valid->text() : ""});
    result.best_path = (std::filesystem::path(options_.run_folder) / best_file).string();
    return result;
}

void ForgeRun::write_best() const {
    write_file_atomically(std::filesystem::path(options_.run_folder) / best_file,
                          known_.at(leader_).record.candidate->source);
}

/// Null while the run is under way.
void ForgeRun::write_run_file(const ForgeResult* result) const {
    Json json;
    json["format"] = "kernelforge-run";
    json["version"] = 1;
    json["task"] = task_->definition.name;
    json["task_sha256"] = task_hash_;
    json["device"] = device_.name;
    json["arch"] = device_.arch;
    json["times"] = kernelforge::to_string(times_of(device_));
    json["options"] = json_of(options_);
    json["state"] = result == nullptr ? "running" : "ended";
    if (result != nullptr) json["result"] = json_of(*result);
    write_file_atomically(std::filesystem::path(options_.run_folder) / "run.json",
                          json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace kernelforge
