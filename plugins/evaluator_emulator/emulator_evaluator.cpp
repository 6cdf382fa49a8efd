// SPDX-License-Identifier: Apache-2.0
#include "emulator_evaluator.hpp"

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "base/worker_path.hpp"

namespace kernelforge::emulator_host {
namespace {

constexpr const char* evaluator_name = "emulator";
constexpr const char* checker_name = "emulator checker";
// Rules of the worker's role emulate.
constexpr const char* checker_rule = "emulator_checker";
constexpr const char* not_emulated_rule = "not_emulated";

std::vector<std::string> worker_command(const EmulatorOptions& options,
                                        const std::string& worker_path) {
    std::vector<std::string> argv = {
        find_worker(options.worker.empty() ? worker_path : options.worker), "--role", "emulate",
        "--threads", std::to_string(options.threads)};
    if (!options.check) argv.emplace_back("--no-check");
    argv.insert(argv.end(), options.worker_arguments.begin(), options.worker_arguments.end());
    return argv;
}

worker_host::WorkerOptions worker_options(const EmulatorOptions& options,
                                          const PluginContext& context) {
    worker_host::WorkerOptions result;
    result.evaluator = evaluator_name;
    result.command = [options, path = context.worker_path] {
        return worker_command(options, path);
    };
    result.memory_limit_bytes = options.memory_limit_bytes;
    result.margin = options.margin;
    // Memory over the limit is std::bad_alloc there, not a signal.
    result.again_when_killed = true;
    result.log = context.log;
    return result;
}

}  // namespace

EmulatorOptions parse_options(std::string_view json) {
    const JsonDocument document(std::string(json), "options of evaluator emulator");
    const JsonNode root = document.root();
    root.only_members({"worker", "worker_arguments", "threads", "check", "memory_limit_mib",
                       "time_limit_s", "plugins"});
    EmulatorOptions options;
    options.worker = root.string_or("worker", "");
    const auto words = root.find("worker_arguments");
    for (std::size_t i = 0; words && i < words->array_size(); ++i) {
        options.worker_arguments.push_back(words->at(i).as_string());
    }
    const auto plugins = root.find("plugins");
    for (std::size_t i = 0; plugins && i < plugins->array_size(); ++i) {
        options.worker_arguments.insert(options.worker_arguments.end(),
                                        {"--plugin", plugins->at(i).as_string()});
    }
    if (const auto threads = root.find("threads")) {
        options.threads = static_cast<int>(threads->as_integer(0, 256));
    }
    options.check = root.boolean_or("check", true);
    if (const auto limit = root.find("memory_limit_mib")) {
        options.memory_limit_bytes = static_cast<std::uint64_t>(limit->as_integer(256, 1 << 24))
                                     << 20U;
    }
    if (const auto limit = root.find("time_limit_s")) {
        options.time_limit = std::chrono::seconds(limit->as_integer(1, 86'400));
    }
    return options;
}

EmulatorEvaluator::EmulatorEvaluator(EmulatorOptions options, PluginContext context)
    : options_(std::move(options)), workers_(worker_options(options_, context)) {}

EmulatorEvaluator::~EmulatorEvaluator() = default;

std::vector<DeviceInfo> EmulatorEvaluator::devices() {
    const std::lock_guard lock(devices_mutex_);
    if (known_devices_) return *known_devices_;
    std::vector<DeviceInfo> devices = workers_.list(0);
    for (DeviceInfo& device : devices) {
        device.slots = 1;
        device.emulated = true;
        device.roofs = {};  // a ceiling is measured on the device it is of
    }
    known_devices_ = devices;
    return devices;
}

Evaluation EmulatorEvaluator::evaluate(const EvaluationRequest& request, std::stop_token stop) {
    if (request.command) {
        Evaluation evaluation = worker_host::verdict_without_worker(
            request, evaluator_name, EvaluationStatus::rejected,
            "a command has times of its own, and measured times are not compared with modelled "
            "ones");
        evaluation.rule = not_emulated_rule;
        return evaluation;
    }
    EvaluationRequest own = request;
    if (options_.time_limit) own.time_limit = std::min(own.time_limit, *options_.time_limit);
    if (own.depth == EvaluationDepth::sanitize) return sanitize(std::move(own), stop);
    return workers_.evaluate(own, stop);
}

Evaluation EmulatorEvaluator::sanitize(EvaluationRequest request, const std::stop_token& stop) {
    request.depth = EvaluationDepth::check;
    Evaluation evaluation = workers_.evaluate(request, stop);
    SanitizerResult checker{checker_name, SanitizerResult::Status::clean, ""};
    if (!options_.check) {
        checker = {checker_name, SanitizerResult::Status::unavailable,
                   "switched off by option check"};
    } else if (evaluation.status != EvaluationStatus::ok) {
        // A finding is a verdict of the evaluation itself: what hardware hides is rejected, what it
        // may fault at is a crash. All else kept the checker from looking.
        const bool found =
            evaluation.rule == checker_rule || evaluation.status == EvaluationStatus::crashed;
        checker.status =
            found ? SanitizerResult::Status::findings : SanitizerResult::Status::failed;
        checker.message = evaluation.message;
    }
    evaluation.sanitizer.push_back(std::move(checker));
    return evaluation;
}

ProfileData EmulatorEvaluator::collect(const CollectRequest& request, std::stop_token stop) {
    CollectRequest own = request;
    if (options_.time_limit) own.time_limit = std::min(own.time_limit, *options_.time_limit);
    return workers_.collect(own, stop);
}

}  // namespace kernelforge::emulator_host
