// SPDX-License-Identifier: Apache-2.0
#include "builds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "occupancy.hpp"

namespace kernelforge {
namespace {

using Axes = std::map<std::string, std::int64_t>;

plan::TensorFacts tensor_facts(const TensorSpec& tensor, const Axes& axes) {
    plan::TensorFacts facts;
    for (const std::string& axis : tensor.shape) facts.shape.push_back(axes.at(axis));
    return facts;
}

bool same_request(const CompileRequest& a, const CompileRequest& b) {
    return a.arch == b.arch && a.options == b.options && a.defines == b.defines &&
           a.kernels == b.kernels;
}

const KernelFacts* facts_of(const CompileResult& build, const std::string& kernel) {
    const auto found = std::find_if(build.kernels.begin(), build.kernels.end(),
                                    [&](const KernelFacts& facts) { return facts.name == kernel; });
    return found == build.kernels.end() ? nullptr : &*found;
}

plan::ResolvedPlan resolve_and_check(const Built& built, const Task& task, std::size_t position,
                                     std::size_t workload, const DeviceInfo& device) {
    const CompileResult& build =
        built.compiled.builds.at(built.compiled.build_of_workload.at(position));
    plan::ResolvedPlan resolved =
        resolve_for(*built.plan, task, workload, built.compiled.candidate.bindings, device, &build);
    plan::check_build(*built.plan, resolved, build, device);
    return resolved;
}

/// Fills `built.plan` and finds what is wrong with it before anything is compiled.
void parse_and_resolve(Built& built, const Task& task, const std::string& file,
                       std::span<const std::size_t> workloads, const DeviceInfo& device) {
    const Candidate& candidate = built.compiled.candidate;
    built.plan = plan::parse_plan(candidate.source, file, task.definition);
    for (const std::size_t workload : workloads) {
        const plan::ResolvedPlan resolved =
            resolve_for(*built.plan, task, workload, candidate.bindings, device, nullptr);
        if (!resolved.valid) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format("{}: its //@valid line excludes workload {}, which must be served",
                            file, task.workloads.at(workload).uuid));
        }
    }
}

/// Whether an error is about the candidate's plan rather than about us.
bool is_plan_error(const Error& error) {
    return error.code() == ErrorCode::parse || error.code() == ErrorCode::invalid_argument ||
           error.code() == ErrorCode::unsupported;
}

void set_failure(Built& built, EvaluationStatus status, std::string message) {
    built.status = status;
    built.message = std::move(message);
    built.resolved.clear();
}

}  // namespace

std::vector<std::size_t> all_workloads(const Task& task) {
    std::vector<std::size_t> workloads(task.workloads.size());
    std::iota(workloads.begin(), workloads.end(), std::size_t{0});
    return workloads;
}

plan::Environment environment_for(const Task& task, std::size_t workload, const Bindings& bindings,
                                  const DeviceInfo& device, const CompileResult* build) {
    const Workload& chosen = task.workloads.at(workload);
    plan::Environment environment;
    environment.axes = axis_values(task.definition, chosen);
    environment.scalars = {chosen.scalars.begin(), chosen.scalars.end()};
    environment.bindings = bindings;
    environment.device = device;
    for (const auto* tensors : {&task.definition.inputs, &task.definition.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            if (!tensor.scalar) {
                environment.tensors[tensor.name] = tensor_facts(tensor, environment.axes);
            }
        }
    }
    if (build != nullptr) {
        environment.occupancy = [build, &device](const std::string& kernel, int threads,
                                                 std::int64_t shared_bytes) {
            const KernelFacts* facts = facts_of(*build, kernel);
            return facts == nullptr ? 1 : occupancy(*facts, threads, shared_bytes, device).blocks;
        };
    }
    return environment;
}

plan::ResolvedPlan resolve_for(const plan::Plan& plan, const Task& task, std::size_t workload,
                               const Bindings& bindings, const DeviceInfo& device,
                               const CompileResult* build) {
    return plan::resolve(plan, environment_for(task, workload, bindings, device, build));
}

CompiledCandidate compile_candidate(Compiler& compiler, const plan::Plan& plan,
                                    const Candidate& candidate, const Task& task,
                                    std::span<const std::size_t> workloads, const std::string& arch,
                                    const BuildLimits& limits, std::stop_token stop) {
    CompiledCandidate compiled;
    compiled.candidate = candidate;
    std::vector<CompileRequest> requests;
    for (const std::size_t workload : workloads) {
        const Axes axes = axis_values(task.definition, task.workloads.at(workload));
        CompileRequest request =
            plan::compile_request(plan, candidate, task.definition, axes, arch);
        request.time_limit = limits.time;
        request.memory_limit_bytes = limits.memory_bytes;
        const auto known =
            std::find_if(requests.begin(), requests.end(),
                         [&](const CompileRequest& other) { return same_request(request, other); });
        compiled.build_of_workload.push_back(static_cast<std::size_t>(known - requests.begin()));
        if (known != requests.end()) continue;
        compiled.builds.push_back(compiler.compile(request, stop));
        requests.push_back(std::move(request));
        if (compiled.builds.back().status != CompileStatus::ok) break;
    }
    return compiled;
}

const CompileResult* failed_build(const CompiledCandidate& compiled) {
    const auto failed =
        std::find_if(compiled.builds.begin(), compiled.builds.end(),
                     [](const CompileResult& build) { return build.status != CompileStatus::ok; });
    return failed == compiled.builds.end() ? nullptr : &*failed;
}

std::string describe_failure(const CompileResult& build) {
    std::string text = build.message.empty() ? "compilation failed" : build.message;
    for (const CompileDiagnostic& diagnostic : build.diagnostics) {
        if (diagnostic.severity != CompileDiagnostic::Severity::error) continue;
        // A compiler's own sentence may already be that error.
        if (text.find(diagnostic.message) != std::string::npos) return text;
        return text + ": " + to_string(diagnostic.position) + ": " + diagnostic.message;
    }
    return text;
}

Built build_candidate(Compiler& compiler, const Task& task, const Candidate& candidate,
                      const std::string& file, std::span<const std::size_t> workloads,
                      const DeviceInfo& device, const BuildLimits& limits, std::stop_token stop) {
    Built built;
    built.compiled.candidate = candidate;
    try {
        parse_and_resolve(built, task, file, workloads, device);
    } catch (const Error& error) {
        if (!is_plan_error(error)) throw;
        set_failure(built, EvaluationStatus::plan_error, error.what());
        return built;
    }
    built.compiled = compile_candidate(compiler, *built.plan, candidate, task, workloads,
                                       device.arch, limits, stop);
    if (const CompileResult* failed = failed_build(built.compiled)) {
        const bool cancelled = failed->status == CompileStatus::cancelled;
        set_failure(built,
                    cancelled ? EvaluationStatus::cancelled : EvaluationStatus::compile_error,
                    describe_failure(*failed));
        return built;
    }
    try {
        for (std::size_t i = 0; i < workloads.size(); ++i) {
            built.resolved.push_back(resolve_and_check(built, task, i, workloads[i], device));
        }
    } catch (const Error& error) {
        if (!is_plan_error(error)) throw;
        set_failure(built, EvaluationStatus::plan_error, error.what());
    }
    return built;
}

}  // namespace kernelforge
