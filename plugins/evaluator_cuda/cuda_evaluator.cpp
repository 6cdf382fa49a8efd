// SPDX-License-Identifier: Apache-2.0
#include "cuda_evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "base/worker_path.hpp"
#include "kernelforge/error.hpp"
#include "roofs_file.hpp"
#include "sanitizer.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using worker_host::Exchange;

constexpr const char* evaluator_name = "cuda";
constexpr std::chrono::milliseconds roofs_limit = 120s;

std::vector<std::string> worker_command(const CudaOptions& options, const PluginContext& context) {
    std::vector<std::string> argv = {find_worker(context.worker_path), "--role", "measure"};
    if (!context.cache_folder.empty()) {
        argv.insert(argv.end(), {"--cache", context.cache_folder});
    }
    argv.insert(argv.end(), options.worker_arguments.begin(), options.worker_arguments.end());
    return argv;
}

worker_host::WorkerOptions worker_options(const CudaOptions& options,
                                          const PluginContext& context) {
    worker_host::WorkerOptions result;
    result.evaluator = evaluator_name;
    result.command = [options, context] { return worker_command(options, context); };
    result.margin = options.margin;
    result.log = context.log;
    return result;
}

}  // namespace

CudaOptions parse_options(std::string_view json) {
    const JsonDocument document(std::string(json), "options of evaluator cuda");
    const JsonNode root = document.root();
    root.only_members({"devices", "worker_arguments", "remeasure_roofs", "plugins",
                       "library_folders", "compute_sanitizer"});
    CudaOptions options;
    if (const auto devices = root.find("devices")) {
        options.devices.emplace();
        for (std::size_t i = 0; i < devices->array_size(); ++i) {
            options.devices->push_back(static_cast<int>(devices->at(i).as_integer(0, 1023)));
        }
    }
    if (const auto words = root.find("worker_arguments")) {
        for (std::size_t i = 0; i < words->array_size(); ++i) {
            options.worker_arguments.push_back(words->at(i).as_string());
        }
    }
    const auto folders = root.find("library_folders");
    for (std::size_t i = 0; folders && i < folders->array_size(); ++i) {
        options.worker_arguments.insert(options.worker_arguments.end(),
                                        {"--library-folder", folders->at(i).as_string()});
    }
    const auto plugins = root.find("plugins");
    for (std::size_t i = 0; plugins && i < plugins->array_size(); ++i) {
        options.worker_arguments.insert(options.worker_arguments.end(),
                                        {"--plugin", plugins->at(i).as_string()});
    }
    options.compute_sanitizer = root.string_or("compute_sanitizer", "");
    options.remeasure_roofs = root.boolean_or("remeasure_roofs", false);
    return options;
}

CudaEvaluator::CudaEvaluator(CudaOptions options, PluginContext context)
    : options_(std::move(options)),
      context_(std::move(context)),
      workers_(worker_options(options_, context_)) {}

CudaEvaluator::~CudaEvaluator() = default;

std::vector<DeviceInfo> CudaEvaluator::list() {
    const int first =
        options_.devices && !options_.devices->empty() ? options_.devices->front() : 0;
    std::vector<DeviceInfo> devices = workers_.list(first);
    if (options_.devices) {
        std::erase_if(devices, [&](const DeviceInfo& device) {
            return std::find(options_.devices->begin(), options_.devices->end(), device.index) ==
                   options_.devices->end();
        });
    }
    for (DeviceInfo& device : devices) device.slots = 1;
    return devices;
}

std::vector<DeviceInfo> CudaEvaluator::devices() {
    const std::lock_guard lock(devices_mutex_);
    if (known_devices_) return *known_devices_;
    std::vector<DeviceInfo> devices = list();
    for (DeviceInfo& device : devices) add_roofs(device);
    // None may mean that a driver is not up yet.
    if (!devices.empty()) known_devices_ = devices;
    return devices;
}

void CudaEvaluator::add_roofs(DeviceInfo& device) {
    const std::string path = roofs_path(context_.cache_folder, device);
    if (!path.empty() && !options_.remeasure_roofs) {
        try {
            if (const auto kept = read_roofs(path)) {
                device.roofs = *kept;
                return;
            }
        } catch (const Error& error) {
            workers_.log(LogLevel::warning,
                         std::string(error.what()) + "; roofs are measured again");
        }
    }
    const std::optional<Roofs> measured = measured_roofs(device.index);
    if (!measured) return;
    device.roofs = *measured;
    if (path.empty()) return;
    try {
        write_roofs(path, device, *measured);
    } catch (const Error& error) {
        workers_.log(LogLevel::warning, std::string("roofs are not kept: ") + error.what());
    }
}

/// Nothing, with a warning in the log, when they cannot be measured: a device without roofs is
/// usable.
std::optional<Roofs> CudaEvaluator::measured_roofs(int device) {
    std::string why;
    try {
        const Exchange exchange =
            workers_.ask(device, wire::message("roofs", Json{{"device", device}}), roofs_limit, {});
        if (exchange.outcome == Exchange::Outcome::answered) {
            return worker_host::decode_roofs(exchange.answer);
        }
        why = worker_host::silence(exchange, roofs_limit);
    } catch (const Error& error) {
        why = error.what();
    }
    workers_.log(LogLevel::warning, fmt::format("roofs of device {} are unknown: {}", device, why));
    return std::nullopt;
}

Evaluation CudaEvaluator::evaluate(const EvaluationRequest& request, std::stop_token stop) {
    if (request.depth != EvaluationDepth::sanitize) return workers_.evaluate(request, stop);
    return workers_.evaluate(request, stop, [&] { return sanitize(request, stop); });
}

ProfileData CudaEvaluator::collect(const CollectRequest& request, std::stop_token stop) {
    return workers_.collect(request, stop);
}

/// Runs the request once under each tool. The worker that is there stays: the tools have one of
/// their own.
Evaluation CudaEvaluator::sanitize(const EvaluationRequest& request,
                                   const std::stop_token& stop) const {
    const std::string program = find_sanitizer(options_.compute_sanitizer);
    std::vector<std::string> worker = worker_command(options_, context_);
    worker.emplace_back("--no-cupti");
    const auto ended = [&](EvaluationStatus status, const char* message) {
        return worker_host::verdict_without_worker(request, evaluator_name, status, message);
    };
    Evaluation evaluation = ended(EvaluationStatus::ok, "");
    for (const char* tool : {"memcheck", "racecheck", "initcheck"}) {
        if (program.empty()) {
            evaluation.sanitizer.push_back(
                {tool, SanitizerResult::Status::unavailable,
                 "no compute-sanitizer program: give the option compute_sanitizer"});
            continue;
        }
        if (stop.stop_requested()) {
            return ended(EvaluationStatus::cancelled, "a stop was requested");
        }
        const SanitizerRun run = run_sanitizer(program, tool, worker, request,
                                               Clock::now() + options_.sanitizer_limit, stop);
        evaluation.sanitizer.push_back(run.result);
        add_sanitized(evaluation, run, worker_host::decode_evaluation);
        if (evaluation.status != EvaluationStatus::ok) break;
    }
    if (stop.stop_requested()) {
        return ended(EvaluationStatus::cancelled, "a stop was requested");
    }
    return evaluation;
}

}  // namespace kernelforge::cuda
