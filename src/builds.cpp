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
    facts.dtype = tensor.dtype;
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

/// A plan of library steps alone has no device code of its own.
CompileResult build_of_nothing(const CompileRequest& request) {
    CompileResult build;
    build.arch = request.arch;
    return build;
}

plan::ResolvedPlan resolve_and_check(const Built& built, const Task& task, std::size_t position,
                                     std::size_t workload, const DeviceInfo& device) {
    const CompileResult& build =
        built.compiled.builds.at(built.compiled.build_of_workload.at(position));
    plan::ResolvedPlan resolved = resolve_for(*built.plan, task, task.workloads.at(workload),
                                              built.compiled.candidate.bindings, device, &build);
    plan::check_build(*built.plan, resolved, build, device);
    return resolved;
}

/// Fills `built.plan` and finds what is wrong with it before anything is compiled.
void parse_and_resolve(Built& built, const Task& task, const std::string& file,
                       std::span<const std::size_t> workloads, const DeviceInfo& device) {
    const Candidate& candidate = built.compiled.candidate;
    built.plan = plan::parse_plan(candidate.source, file, task.definition, task.constant_inputs);
    for (const std::size_t workload : workloads) {
        const plan::ResolvedPlan resolved = resolve_for(
            *built.plan, task, task.workloads.at(workload), candidate.bindings, device, nullptr);
        if (!resolved.valid) {
            throw Error(
                ErrorCode::invalid_argument,
                fmt::format("{}: its //@valid line excludes workload {}{}, which must be served",
                            file, axes_text(task.workloads.at(workload)),
                            device.emulated ? " (one of the task's for the emulator)" : ""));
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

std::string axes_text(const Workload& workload) {
    std::string text;
    for (const auto& [name, value] : workload.axes) {
        text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
    }
    return text.empty() ? workload.uuid : text;
}

std::vector<std::size_t> all_workloads(const Task& task) {
    std::vector<std::size_t> workloads(task.workloads.size());
    std::iota(workloads.begin(), workloads.end(), std::size_t{0});
    return workloads;
}

plan::Environment environment_for(const Task& task, const Workload& workload,
                                  const Bindings& bindings, const DeviceInfo& device,
                                  const CompileResult* build) {
    plan::Environment environment;
    environment.axes = axis_values(task.definition, workload);
    environment.scalars = {workload.scalars.begin(), workload.scalars.end()};
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

plan::ResolvedPlan resolve_for(const plan::Plan& plan, const Task& task, const Workload& workload,
                               const Bindings& bindings, const DeviceInfo& device,
                               const CompileResult* build) {
    return plan::resolve(plan, environment_for(task, workload, bindings, device, build));
}

bool serves(const plan::Plan& plan, const Task& task, const Workload& workload,
            const Bindings& bindings, const DeviceInfo& device) {
    if (!plan.valid) return true;
    try {
        return resolve_for(plan, task, workload, bindings, device, nullptr).valid;
    } catch (const Error&) {
        return true;
    }
}

namespace {

/// What the compiler refuses to be asked for (an option, a name expression) is the candidate's.
CompileResult compile_as_result(Compiler& compiler, const CompileRequest& request,
                                const std::stop_token& stop) {
    try {
        return compiler.compile(request, stop);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) throw;
        CompileResult refused;
        refused.status = CompileStatus::error;
        refused.message = error.what();
        refused.arch = request.arch;
        return refused;
    }
}

}  // namespace

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
        compiled.builds.push_back(request.kernels.empty()
                                      ? build_of_nothing(request)
                                      : compile_as_result(compiler, request, stop));
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

namespace {

/// Build indices for further shapes of one candidate.
class HiddenBuilder {
  public:
    HiddenBuilder(Compiler& compiler, const Task& task, CompiledCandidate& compiled,
                  const std::string& file, const DeviceInfo& device, const BuildLimits& limits)
        : compiler_(compiler),
          task_(task),
          compiled_(compiled),
          plan_(plan::parse_plan(compiled.candidate.source, file, task.definition,
                                 task.constant_inputs)),
          device_(device),
          limits_(limits) {}

    /// What the builds that are there were made from.
    void know(std::span<const std::size_t> workloads) {
        requests_.resize(compiled_.builds.size());
        for (std::size_t i = 0; i < workloads.size(); ++i) {
            requests_.at(compiled_.build_of_workload.at(i)) =
                request_for(task_.workloads.at(workloads[i]));
        }
    }

    /// @throws Error (a wrong plan)
    [[nodiscard]] HiddenBuilds add(const Workload& shape, const std::stop_token& stop) {
        if (!serves(plan_, task_, shape, compiled_.candidate.bindings, device_)) {
            if (compiled_.builds.empty()) {
                throw Error(ErrorCode::invalid_argument,
                            "its //@valid line excludes every shape that is to be checked");
            }
            compiled_.build_of_workload.push_back(0);
            return {};
        }
        const std::size_t index = find_or_compile(request_for(shape), stop);
        const CompileResult& build = compiled_.builds.at(index);
        if (build.status != CompileStatus::ok) {
            const bool cancelled = build.status == CompileStatus::cancelled;
            return {cancelled ? EvaluationStatus::cancelled : EvaluationStatus::compile_error,
                    describe_failure(build)};
        }
        const plan::ResolvedPlan resolved =
            resolve_for(plan_, task_, shape, compiled_.candidate.bindings, device_, &build);
        plan::check_build(plan_, resolved, build, device_);
        compiled_.build_of_workload.push_back(index);
        return {};
    }

  private:
    [[nodiscard]] CompileRequest request_for(const Workload& shape) const {
        CompileRequest request =
            plan::compile_request(plan_, compiled_.candidate, task_.definition,
                                  axis_values(task_.definition, shape), device_.arch);
        request.time_limit = limits_.time;
        request.memory_limit_bytes = limits_.memory_bytes;
        return request;
    }

    [[nodiscard]] std::size_t find_or_compile(CompileRequest request, const std::stop_token& stop) {
        const auto known =
            std::find_if(requests_.begin(), requests_.end(),
                         [&](const CompileRequest& other) { return same_request(request, other); });
        const auto index = static_cast<std::size_t>(known - requests_.begin());
        if (known != requests_.end()) return index;
        compiled_.builds.push_back(compile_as_result(compiler_, request, stop));
        requests_.push_back(std::move(request));
        return index;
    }

    Compiler& compiler_;
    const Task& task_;
    CompiledCandidate& compiled_;
    plan::Plan plan_;
    const DeviceInfo& device_;
    const BuildLimits& limits_;
    std::vector<CompileRequest> requests_;  ///< by build
};

}  // namespace

HiddenBuilds add_hidden_builds(Compiler& compiler, const Task& task, CompiledCandidate& compiled,
                               const std::string& file, std::span<const std::size_t> workloads,
                               std::span<const Workload> shapes, const DeviceInfo& device,
                               const BuildLimits& limits, std::stop_token stop) {
    if (shapes.empty()) return {};
    HiddenBuilder builder(compiler, task, compiled, file, device, limits);
    builder.know(workloads);
    for (const Workload& shape : shapes) {
        HiddenBuilds added;
        try {
            added = builder.add(shape, stop);
        } catch (const Error& error) {
            if (!is_plan_error(error)) throw;
            added = {EvaluationStatus::plan_error, error.what()};
        }
        if (added.ok()) continue;
        added.message =
            fmt::format("on another shape, {}: {}", describe_shape(shape), added.message);
        return added;
    }
    return {};
}

void skip_hidden_builds(CompiledCandidate& opponent, std::size_t workloads, std::size_t shapes) {
    opponent.build_of_workload.resize(workloads);
    opponent.build_of_workload.resize(workloads + shapes, 0);
}

std::string describe_shape(const Workload& shape) {
    std::string text;
    for (const auto& [name, value] : shape.axes) {
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
    }
    return text;
}

}  // namespace kernelforge
