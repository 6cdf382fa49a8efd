// SPDX-License-Identifier: Apache-2.0
#include "cli/subject.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <set>

#include "base/files.hpp"
#include "base/sha256.hpp"
#include "forge_promotion.hpp"
#include "hidden_shapes.hpp"
#include "kernelforge/forge.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

bool is_integer(std::string_view text, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

Bindings parse_bindings(const std::vector<std::string>& texts) {
    Bindings bindings;
    for (const std::string& text : texts) {
        const std::size_t equals = text.find('=');
        std::int64_t value = 0;
        if (equals == std::string::npos || equals == 0 ||
            !is_integer(std::string_view(text).substr(equals + 1), value)) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("--bind {}: expected NAME=INTEGER", text));
        }
        bindings[text.substr(0, equals)] = value;
    }
    return bindings;
}

/// `text` was checked when the command line was parsed.
EvaluationDepth parse_depth(const std::string& text) {
    if (text == to_string(EvaluationDepth::check)) return EvaluationDepth::check;
    if (text == to_string(EvaluationDepth::promotion)) return EvaluationDepth::promotion;
    if (text == to_string(EvaluationDepth::sanitize)) return EvaluationDepth::sanitize;
    return EvaluationDepth::screen;
}

/// A text without a plan may be a pasted host program; what it launches becomes the plan.
void lift(std::string& source, const std::string& file, const Task& task) {
    std::string why_not;
    if (auto lifted = plan::lift_host_launcher(source, task.definition, why_not)) {
        std::fprintf(stderr, "kernelforge: %s: launches of its host code are taken as the plan\n",
                     file.c_str());
        source = std::move(*lifted);
    } else if (!why_not.empty()) {
        std::fprintf(
            stderr,
            "kernelforge: %s: no //@launch line, and no plan could be made of host code: %s\n",
            file.c_str(), why_not.c_str());
    }
}

}  // namespace

void add_subject_options(CLI::App& app, SubjectOptions& options) {
    app.add_option("--evaluator", options.evaluator, evaluator_help)->capture_default_str();
    app.add_option("--depth", options.depth, "How much work it is worth")
        ->check(CLI::IsMember({"check", "screen", "promotion", "sanitize"}))
        ->capture_default_str();
    app.add_option("--workload", options.workloads,
                   "Line of workload.jsonl, from 0; may be repeated");
    app.add_option("--bind", options.bindings, "NAME=VALUE of a tunable; may be repeated");
    app.add_option("--seed", options.seed, "Order of the timed pairs")->capture_default_str();
    app.add_option("--device", options.device, "Device index")->capture_default_str();
    app.add_option("--time-limit", options.time_limit_s, "Seconds for one evaluation")
        ->check(CLI::Range(1, 86'400))
        ->capture_default_str();
}

DeviceInfo assumed_device() {
    // NVIDIA's Hopper tuning guide: limits of compute capability 9.0; sizes of an H200.
    DeviceInfo device;
    device.name = "NVIDIA H200, assumed: there is no GPU here";
    device.arch = "sm_90a";
    device.multiprocessors = 132;
    device.shared_bytes_per_multiprocessor = 228 * 1024;
    device.max_shared_bytes_per_block = 227 * 1024;
    device.reserved_shared_bytes_per_block = 1024;
    device.l2_bytes = 62'914'560;
    device.memory_bytes = 141LL * 1000 * 1000 * 1000;
    return device;
}

namespace {

/// The device of the index; an assumed one where there is none.
void find_device(Subject& subject, int index) {
    const std::vector<DeviceInfo> devices = subject.evaluator->devices();
    subject.device = assumed_device();
    for (const DeviceInfo& device : devices) {
        if (device.index != index) continue;
        subject.device = device;
        subject.has_device = true;
    }
    if (!devices.empty() && !subject.has_device) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("--device {}: there are {} devices", index, devices.size()));
    }
}

std::vector<std::size_t> chosen_workloads(const Task& task, const SubjectOptions& options) {
    std::vector<std::size_t> workloads = options.workloads;
    if (workloads.empty()) {
        workloads = options.spread_bytes ? spread_of_workloads(task, *options.spread_bytes)
                                         : all_workloads(task);
    }
    std::set<std::size_t> given;
    for (const std::size_t workload : workloads) {
        if (!given.insert(workload).second) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("--workload {}: expected it once, found it again", workload));
        }
        if (workload < task.workloads.size()) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("--workload {}: the task has {}, counted from 0", workload,
                                task.workloads.size()));
    }
    return workloads;
}

}  // namespace

Subject prepare(Context& context, const SubjectOptions& options, std::stop_token stop) {
    Subject subject;
    Task loaded = load_task(options.task);
    ChosenEvaluator chosen = make_evaluator(context, options.evaluator);
    subject.evaluator_name = std::move(chosen.name);
    subject.evaluator = std::move(chosen.evaluator);
    subject.compiler = context.registry.make<Compiler>("nvrtc", "{}", context.plugin_context());
    find_device(subject, options.device);
    if (subject.device.emulated) {
        SmallTask small = emulator_task(loaded);
        std::fprintf(stderr, "kernelforge: %s\n", small.note.c_str());
        loaded = std::move(small.task);
    }
    subject.task = std::make_shared<const Task>(std::move(loaded));
    const Task& task = *subject.task;
    subject.workloads = chosen_workloads(task, options);
    if (task.reference_cuda.empty()) {
        throw Error(
            ErrorCode::unsupported,
            fmt::format(
                "task {}: definition.json needs \"kernelforge\": {{\"reference_cuda\": ...}}; "
                "running the PyTorch reference is not supported yet",
                task.definition.name));
    }
    subject.reference =
        build_candidate(*subject.compiler, task, {task.reference_cuda, {}},
                        task.reference_cuda_path, subject.workloads, subject.device, {}, stop);
    if (!subject.reference.ok()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: the task's reference is unusable: {}",
                                task.reference_cuda_path, subject.reference.message));
    }
    for (const std::string& file : options.candidates) {
        Candidate candidate{read_file(file, std::size_t{16} << 20), {}};
        if (!plan::has_plan(candidate.source)) lift(candidate.source, file, task);
        if (subject.candidates.empty()) candidate.bindings = parse_bindings(options.bindings);
        subject.candidates.push_back(build_candidate(*subject.compiler, task, candidate, file,
                                                     subject.workloads, subject.device, {}, stop));
        subject.files.push_back(file);
    }
    return subject;
}

std::optional<Refusal> guard(const Subject& subject, std::size_t candidate) {
    const ForgeOptions limits;
    const Policy& policy = subject.task->policy;
    const CompiledCandidate& compiled = subject.candidates.at(candidate).compiled;
    if (auto refusal = guard_source(compiled.candidate.source, policy, limits.max_source_bytes)) {
        return refusal;
    }
    const auto& plan = subject.candidates.at(candidate).plan;
    if (plan && plan::has_calls(*plan) && !policy.library_calls) {
        return Refusal{"policy", "the task does not allow //@call steps"};
    }
    for (const CompileResult& build : compiled.builds) {
        if (auto refusal = guard_build(build, policy, limits.max_spill_bytes)) return refusal;
    }
    return std::nullopt;
}

EvaluationRequest request_for(const Subject& subject, const SubjectOptions& options,
                              std::size_t candidate) {
    EvaluationRequest request;
    request.task = subject.task;
    request.workloads = subject.workloads;
    request.candidate = subject.candidates.at(candidate).compiled;
    request.reference = subject.reference.compiled;
    request.depth = parse_depth(options.depth);
    request.seed = options.seed;
    request.device = options.device;
    request.time_limit = std::chrono::seconds(options.time_limit_s);
    request.id = sha256_hex(node_id(request.candidate.candidate).value + options.depth +
                            std::to_string(options.seed));
    return request;
}

Evaluation judge(const Subject& subject, EvaluationRequest request, std::stop_token stop) {
    if (auto unbuilt = add_hidden_shapes(*subject.compiler, subject.device, {}, request, stop)) {
        return std::move(*unbuilt);
    }
    Evaluation evaluation = evaluate_as_status(*subject.evaluator, request, "evaluate", stop);
    for (HiddenResult& result : evaluation.hidden) {
        // The shape is of no use as an index once the request is gone.
        result.message = fmt::format("{}{}{}", describe_shape(request.hidden.at(result.hidden)),
                                     result.message.empty() ? "" : ": ", result.message);
    }
    return evaluation;
}

int exit_code_of(EvaluationStatus status) {
    switch (status) {
        case EvaluationStatus::ok:
            return exit_done;
        case EvaluationStatus::evaluator_failed:
        case EvaluationStatus::pending:
            return exit_environment;
        default:
            return exit_negative;
    }
}

std::string describe_workload(const Task& task, std::size_t workload) {
    return axes_text(task.workloads.at(workload));
}

std::string static_facts(const Built& built) {
    std::string text;
    if (!built.ok()) text += fmt::format("{}: {}\n", to_string(built.status), built.message);
    for (const CompileResult& build : built.compiled.builds) {
        for (const CompileDiagnostic& diagnostic : build.diagnostics) {
            if (diagnostic.severity == CompileDiagnostic::Severity::note) continue;
            text += fmt::format(
                "{}: {}: {}\n", to_string(diagnostic.position),
                diagnostic.severity == CompileDiagnostic::Severity::error ? "error" : "warning",
                diagnostic.message);
        }
        for (const KernelFacts& kernel : build.kernels) {
            const auto number = [](const std::optional<int>& value) {
                return value ? std::to_string(*value) : std::string("?");
            };
            text += fmt::format(
                "kernel {} ({}): {} registers, {} bytes stack, {} bytes spill stores, {} bytes "
                "spill "
                "loads, {} bytes static shared memory\n",
                kernel.name, build.arch, number(kernel.registers_per_thread),
                number(kernel.stack_bytes), number(kernel.spill_store_bytes),
                number(kernel.spill_load_bytes), number(kernel.static_shared_bytes));
        }
    }
    return text;
}

Json static_facts_json(const Built& built) {
    Json builds = Json::array();
    for (const CompileResult& build : built.compiled.builds) {
        Json encoded = wire::encode(build);
        for (const char* bulky : {"ptx", "cubin", "log"}) encoded.erase(bulky);
        builds.push_back(std::move(encoded));
    }
    return {{"status", to_string(built.status)}, {"message", built.message}, {"builds", builds}};
}

}  // namespace kernelforge::cli
