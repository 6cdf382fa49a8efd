// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <algorithm>
#include <utility>

#include "plan/architecture.hpp"
#include "plan/source_text.hpp"

namespace kernelforge::plan {
namespace {

template <class F>
void each_launch(const Plan& plan, F&& f) {
    const auto look = [&](const std::vector<Step>& steps) {
        for (const Step& step : steps) {
            if (const auto* launch = std::get_if<Launch>(&step)) f(*launch);
        }
    };
    look(plan.steps);
    for (const Case& each : plan.cases) look(each.steps);
    look(plan.prepare);
}

std::vector<std::pair<std::string, std::int64_t>> defines(
    const Plan& plan, const Candidate& candidate, const Definition& definition,
    const std::map<std::string, std::int64_t>& axes) {
    std::vector<std::pair<std::string, std::int64_t>> result;
    for (const Axis& axis : definition.axes) {
        if (axis.kind == Axis::Kind::constant) result.emplace_back(axis.name, axis.value);
    }
    for (const Tune& tune : plan.tunes) {
        const auto bound = candidate.bindings.find(tune.name);
        const std::int64_t value =
            bound != candidate.bindings.end() ? bound->second : tune.values.front();
        if (std::find(tune.values.begin(), tune.values.end(), value) == tune.values.end()) {
            throw Error(ErrorCode::invalid_argument, tune.position,
                        "the tunable '" + tune.name + "' has no value " + std::to_string(value));
        }
        result.emplace_back(tune.name, value);
    }
    for (const std::string& name : plan.specialized) {
        const auto axis = axes.find(name);
        if (axis == axes.end())
            throw Error(ErrorCode::invalid_argument, {plan.file, 0, 0},
                        "the specialised axis '" + name + "' has no value");
        result.emplace_back(name, axis->second);
    }
    return result;
}

/// Name expressions are C++ outside of the text in which the macros are defined, so the macros'
/// values are put in.
std::string with_values(const std::string& expression,
                        const std::vector<std::pair<std::string, std::int64_t>>& defines) {
    std::string result;
    for (std::size_t i = 0; i < expression.size();) {
        if (!is_identifier_start(expression[i]) ||
            (i > 0 && is_identifier_part(expression[i - 1]))) {
            result += expression[i++];
            continue;
        }
        std::size_t end = i;
        while (end < expression.size() && is_identifier_part(expression[end])) ++end;
        const std::string word = expression.substr(i, end - i);
        const auto define = std::find_if(defines.begin(), defines.end(),
                                         [&](const auto& each) { return each.first == word; });
        result += define != defines.end() ? std::to_string(define->second) : word;
        i = end;
    }
    return result;
}

}  // namespace

CompileRequest compile_request(const Plan& plan, const Candidate& candidate,
                               const Definition& definition,
                               const std::map<std::string, std::int64_t>& axes,
                               const std::string& arch) {
    for (const auto& [name, value] : candidate.bindings) {
        const bool known =
            std::any_of(plan.tunes.begin(), plan.tunes.end(),
                        [&, &bound = name](const Tune& tune) { return tune.name == bound; });
        if (!known)
            throw Error(ErrorCode::invalid_argument, {plan.file, 0, 0},
                        "the plan has no tunable '" + name + "'");
    }
    if (!architecture_suits(plan.requires_arch, arch)) {
        throw Error(ErrorCode::invalid_argument, plan.requires_position,
                    "the candidate requires " + plan.requires_arch + ", compiled for " + arch);
    }
    CompileRequest request;
    request.source = candidate.source;
    if (!plan.file.empty()) request.file_name = plan.file;
    request.arch = arch;
    request.options = plan.options;
    request.defines = defines(plan, candidate, definition, axes);
    const KernelList kernels =
        read_kernels(read_source(candidate.source, plan.file), candidate.source, plan.file);
    each_launch(plan, [&](const Launch& launch) {
        const auto same = [&](const auto& each) { return each.first == launch.kernel; };
        if (std::any_of(request.kernels.begin(), request.kernels.end(), same)) return;
        const auto symbol =
            std::find_if(plan.symbols.begin(), plan.symbols.end(),
                         [&](const Symbol& each) { return each.alias == launch.kernel; });
        std::string expression = launch.kernel;
        if (symbol != plan.symbols.end()) {
            expression = with_values(symbol->expression, request.defines);
        } else if (const Kernel* kernel = kernels.find(launch.kernel)) {
            expression = kernel->qualified_name;
        }
        request.kernels.emplace_back(launch.kernel, expression);
    });
    return request;
}

namespace {

[[noreturn]] void fail(const ResolvedLaunch& launch, const std::string& message) {
    throw Error(ErrorCode::invalid_argument, launch.position,
                "kernel '" + launch.kernel + "': " + message);
}

void check_parameters(const ResolvedLaunch& launch, const KernelFacts& facts) {
    // No sizes and no types: the compiled kernel could not be read, or takes nothing.
    if (facts.parameter_bytes.empty() && facts.parameter_types.empty()) return;
    const std::size_t expected =
        facts.parameter_bytes.empty() ? facts.parameter_types.size() : facts.parameter_bytes.size();
    if (expected != launch.arguments.size()) {
        fail(launch, "the compiled kernel takes " + std::to_string(expected) +
                         " parameters, the launch passes " +
                         std::to_string(launch.arguments.size()));
    }
    for (std::size_t i = 0; i < facts.parameter_bytes.size(); ++i) {
        const ResolvedArgument& argument = launch.arguments[i];
        if (static_cast<std::size_t>(facts.parameter_bytes[i]) == argument.size) continue;
        const std::string what =
            argument.kind == Argument::Kind::buffer       ? "the buffer '" + argument.name + "'"
            : argument.kind == Argument::Kind::tensor_map ? "the tensor map '" + argument.name + "'"
                                                          : "a scalar";
        fail(launch, "parameter " + std::to_string(i + 1) + " has " +
                         std::to_string(facts.parameter_bytes[i]) + " bytes, the launch passes " +
                         what + " of " + std::to_string(argument.size));
    }
}

void check_resources(const ResolvedLaunch& launch, const KernelFacts& facts,
                     const DeviceInfo& device) {
    const std::int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    if (facts.max_threads_per_block && threads > *facts.max_threads_per_block) {
        fail(launch, "the block has " + std::to_string(threads) +
                         " threads, __launch_bounds__ allows " +
                         std::to_string(*facts.max_threads_per_block));
    }
    const std::int64_t shared = facts.static_shared_bytes.value_or(0) + launch.shared_bytes;
    if (device.max_shared_bytes_per_block > 0 && shared > device.max_shared_bytes_per_block) {
        fail(launch, "static (" + std::to_string(facts.static_shared_bytes.value_or(0)) +
                         ") and dynamic (" + std::to_string(launch.shared_bytes) +
                         ") shared memory are " + std::to_string(shared) +
                         " bytes, the device allows " +
                         std::to_string(device.max_shared_bytes_per_block));
    }
    if (!facts.registers_per_thread) return;
    // Registers are given out to warps in units of 256 (CUDA occupancy calculator, all since
    // sm_30).
    constexpr std::int64_t unit = 256;
    const std::int64_t warps = (threads + device.warp_size - 1) / device.warp_size;
    const std::int64_t each =
        (std::int64_t{*facts.registers_per_thread} * device.warp_size + unit - 1) / unit * unit;
    if (warps * each > device.registers_per_multiprocessor) {
        fail(launch, std::to_string(threads) + " threads of " +
                         std::to_string(*facts.registers_per_thread) + " registers need " +
                         std::to_string(warps * each) + " registers, a multiprocessor has " +
                         std::to_string(device.registers_per_multiprocessor) +
                         ": use a smaller block, __launch_bounds__ or -maxrregcount");
    }
}

void check_launch(const ResolvedLaunch& launch, const CompileResult& build,
                  const DeviceInfo& device) {
    const auto facts =
        std::find_if(build.kernels.begin(), build.kernels.end(),
                     [&](const KernelFacts& each) { return each.name == launch.kernel; });
    if (facts == build.kernels.end()) {
        std::vector<std::string> known;
        for (const KernelFacts& each : build.kernels) known.push_back(each.name);
        fail(launch, "not among the compiled kernels" + known_names(launch.kernel, known));
    }
    check_parameters(launch, *facts);
    check_resources(launch, *facts, device);
}

}  // namespace

void check_build(const Plan& plan, const ResolvedPlan& resolved, const CompileResult& build,
                 const DeviceInfo& device) {
    if (build.status != CompileStatus::ok) {
        throw Error(ErrorCode::invalid_argument, {plan.file, 0, 0},
                    "the candidate was not compiled: " + build.message);
    }
    for (const auto* steps : {&resolved.prepare, &resolved.steps}) {
        for (const ResolvedStep& step : *steps) {
            if (const auto* launch = std::get_if<ResolvedLaunch>(&step))
                check_launch(*launch, build, device);
        }
    }
}

}  // namespace kernelforge::plan
