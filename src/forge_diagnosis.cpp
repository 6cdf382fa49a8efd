// SPDX-License-Identifier: Apache-2.0
#include "forge_diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <variant>

#include "occupancy.hpp"
#include "roofline.hpp"

namespace kernelforge {
namespace {

double lost_seconds(const Task& task, const WorkloadResult& result, const Roofs& roofs) {
    const double time = result.timing ? result.timing->median_s : 0.0;
    return time - bound_s(task, result.workload, roofs).value_or(0.0);
}

template <class T>
void append_new(std::vector<T>& all, const std::vector<T>& more) {
    for (const T& item : more) {
        if (std::find(all.begin(), all.end(), item) == all.end()) all.push_back(item);
    }
}

const KernelFacts* find_facts(const CompileResult& build, const std::string& kernel) {
    for (const KernelFacts& facts : build.kernels) {
        if (facts.name == kernel) return &facts;
    }
    return nullptr;
}

Finding residency_finding(const KernelFacts& facts, const plan::ResolvedLaunch& launch,
                          LaunchKey key, const DeviceInfo& device) {
    const std::int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    const std::int64_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
    const Occupancy resident = occupancy(facts, threads, launch.shared_bytes, blocks, device);
    Finding finding;
    finding.tool = "residency";
    finding.key = key;
    finding.kernel = launch.kernel;
    finding.cause = fmt::format(
        "{} blocks of {} threads, {} registers per thread, {} bytes of shared memory per block: {}",
        blocks, threads,
        facts.registers_per_thread ? std::to_string(*facts.registers_per_thread) : "?",
        facts.static_shared_bytes.value_or(0) + launch.shared_bytes, describe(resident, threads));
    finding.severity = Severity::info;
    return finding;
}

Finding spill_finding(const KernelFacts& facts, LaunchKey key) {
    Finding finding;
    finding.tool = "residency";
    finding.key = key;
    finding.kernel = facts.name;
    finding.cause =
        fmt::format("{} bytes are spilled per thread and {} loaded back, expected none",
                    facts.spill_store_bytes.value_or(0), facts.spill_load_bytes.value_or(0));
    finding.severity = Severity::advice;
    finding.actions = {
        {"lower register pressure: smaller per-thread tile, shorter live ranges, or "
         "fewer threads per block in __launch_bounds__",
         ""}};
    return finding;
}

/// Findings that need no measurement, of the launches of one workload; a kernel is spoken of once.
void add_static_findings(std::vector<Finding>& findings, std::set<std::string>& said,
                         const Built& built, std::size_t position, std::size_t workload,
                         const DeviceInfo& device) {
    const CompileResult& build =
        built.compiled.builds.at(built.compiled.build_of_workload.at(position));
    std::size_t launch_index = 0;
    for (const auto& step : built.resolved.at(position).steps) {
        const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
        if (launch == nullptr) continue;
        const LaunchKey key{workload, launch_index++};
        const KernelFacts* facts = find_facts(build, launch->kernel);
        if (facts == nullptr || !said.insert(facts->name).second) continue;
        findings.push_back(residency_finding(*facts, *launch, key, device));
        if (facts->spill_store_bytes.value_or(0) > 0)
            findings.push_back(spill_finding(*facts, key));
    }
}

double relevance(const ProfilerTool& tool, const std::vector<Bottleneck>& bottlenecks) {
    double best = 0.0;
    for (const Bottleneck& b : bottlenecks) best = std::max(best, tool.relevance(b));
    return best;
}

std::vector<Finding> tool_findings(const Tools& tools, const ProfileInput& input) {
    std::vector<const ProfilerTool*> ranked;
    for (const auto& tool : tools) ranked.push_back(tool.get());
    std::stable_sort(ranked.begin(), ranked.end(), [&](const auto* a, const auto* b) {
        return relevance(*a, input.bottlenecks) > relevance(*b, input.bottlenecks);
    });
    std::vector<Finding> findings;
    for (const ProfilerTool* tool : ranked) {
        std::vector<Finding> found = tool->analyze(input);
        std::move(found.begin(), found.end(), std::back_inserter(findings));
    }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    if (findings.size() > max_findings) findings.resize(max_findings);
    return findings;
}

}  // namespace

std::vector<std::size_t> workloads_to_diagnose(const Task& task, const Evaluation& evaluation,
                                               const Roofs& roofs) {
    std::vector<const WorkloadResult*> timed;
    for (const WorkloadResult& result : evaluation.workloads) {
        if (result.timing && result.workload < task.workloads.size()) timed.push_back(&result);
    }
    std::stable_sort(timed.begin(), timed.end(), [&](const auto* a, const auto* b) {
        return lost_seconds(task, *a, roofs) > lost_seconds(task, *b, roofs);
    });
    if (timed.size() > max_diagnosed_workloads) timed.resize(max_diagnosed_workloads);
    std::vector<std::size_t> chosen;
    for (const WorkloadResult* result : timed) chosen.push_back(result->workload);
    return chosen;
}

DataRequest union_of_needs(const Tools& tools) {
    DataRequest all;
    for (const auto& tool : tools) {
        const DataRequest needs = tool->needs();
        append_new(all.metrics, needs.metrics);
        append_new(all.custom, needs.custom);
        all.sass_metrics = all.sass_metrics || needs.sass_metrics;
        all.pc_samples = all.pc_samples || needs.pc_samples;
        all.timeline = all.timeline || needs.timeline;
        all.energy = all.energy || needs.energy;
    }
    return all;
}

Diagnosis diagnose(const Task& task, const DeviceInfo& device, const Built& built,
                   const Evaluation& evaluation, const Tools& tools, const ProfileData& data) {
    Diagnosis diagnosis;
    diagnosis.missing = data.missing;
    std::set<std::string> said;
    for (const std::size_t workload : workloads_to_diagnose(task, evaluation, device.roofs)) {
        const auto result = std::find_if(
            evaluation.workloads.begin(), evaluation.workloads.end(),
            [&](const WorkloadResult& r) { return r.workload == workload && r.timing; });
        const auto position = static_cast<std::size_t>(result - evaluation.workloads.begin());
        const double time_s = result->timing->median_s;
        diagnosis.bottlenecks.push_back(bottleneck(task, {workload, 0}, time_s, device.roofs));
        if (position < built.resolved.size()) {
            add_static_findings(diagnosis.findings, said, built, position, workload, device);
        }
    }
    const ProfileInput input{task, device, built.compiled, evaluation, data, diagnosis.bottlenecks};
    for (Finding& finding : tool_findings(tools, input)) {
        diagnosis.findings.push_back(std::move(finding));
    }
    return diagnosis;
}

std::vector<Finding> raw_findings(const ProfileData& data) {
    std::vector<Finding> findings;
    for (const auto& [key, launch] : data.launches) {
        Finding finding;
        finding.tool = "raw";
        finding.key = key;
        finding.kernel = launch.kernel;
        for (const auto& [name, metric] : launch.metrics) {
            if (!finding.cause.empty()) finding.cause += ", ";
            finding.cause += fmt::format("{}={:g}", name, metric.value);
        }
        if (!finding.cause.empty()) findings.push_back(std::move(finding));
    }
    return findings;
}

}  // namespace kernelforge
