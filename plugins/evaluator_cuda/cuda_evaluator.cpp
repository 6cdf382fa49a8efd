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
using std::chrono::milliseconds;

constexpr std::string_view evaluator_name = "cuda";
/// Starting a driver, a context and CUPTI takes about a second; a loaded machine may need more.
constexpr milliseconds listing_limit = 60s;
constexpr milliseconds roofs_limit = 120s;
/// Keeps `Clock::now() + limit` far from overflow.
constexpr milliseconds longest_limit = std::chrono::hours(24 * 30);

void check_request(const std::shared_ptr<const Task>& task,
                   const std::vector<std::size_t>& workloads) {
    if (task == nullptr) {
        throw Error(ErrorCode::invalid_argument, "request: expected a task, found none");
    }
    for (const std::size_t workload : workloads) {
        if (workload < task->workloads.size()) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("request: expected workload indices below {}, found {}",
                                task->workloads.size(), workload));
    }
}

void check_builds(std::string_view what, const CompiledCandidate& candidate,
                  std::size_t workloads) {
    if (candidate.build_of_workload.size() != workloads) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("request: expected {} build indices of the {}, found {}", workloads,
                                what, candidate.build_of_workload.size()));
    }
    for (const std::size_t build : candidate.build_of_workload) {
        if (build < candidate.builds.size()) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("request: expected build indices of the {} below {}, found {}",
                                what, candidate.builds.size(), build));
    }
}

void check_request(const EvaluationRequest& request) {
    check_request(request.task, request.workloads);
    if (request.workloads.empty() && (request.hidden.empty() || request.command)) {
        throw Error(ErrorCode::invalid_argument,
                    "request: expected at least one workload, found none");
    }
    if (request.command) return;
    const std::size_t shapes = request.workloads.size() + request.hidden.size();
    check_builds("candidate", request.candidate, shapes);
    check_builds("reference", request.reference, shapes);
    if (request.opponent) check_builds("opponent", *request.opponent, shapes);
}

milliseconds bounded(milliseconds limit) {
    return std::clamp(limit, milliseconds(0), longest_limit);
}

Evaluation failed(const EvaluationRequest& request, EvaluationStatus status, std::string message) {
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.status = status;
    evaluation.message = std::move(message);
    evaluation.evaluator = evaluator_name;
    return evaluation;
}

/// The body of an answer of the wanted type. `error` answers and all else are thrown.
/// @throws Error worker_failed, or what the worker's error says
class Answer {
  public:
    Answer(const std::string& text, std::string_view wanted)
        : document_(text, "answer of the worker") {
        const JsonNode root = document_.root();
        const std::string type = root.at("type").as_string();
        if (type == wanted) return;
        if (type != "error") root.at("type").expected(std::string(wanted));
        const JsonNode body = root.at("body");
        throw Error(code_of(body.string_or("code", "")), body.at("message").as_string());
    }
    [[nodiscard]] JsonNode body() const { return document_.root().at("body"); }

  private:
    static ErrorCode code_of(const std::string& name) {
        for (const ErrorCode code :
             {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::io,
              ErrorCode::unsupported, ErrorCode::device_unavailable, ErrorCode::internal}) {
            if (name == to_string(code)) return code;
        }
        return ErrorCode::worker_failed;
    }
    JsonDocument document_;
};

std::vector<DeviceInfo> decode_devices(const std::string& text) {
    const Answer answer(text, "devices");
    std::vector<DeviceInfo> devices;
    const JsonNode body = answer.body();
    for (std::size_t i = 0; i < body.array_size(); ++i) {
        devices.push_back(wire::decode<DeviceInfo>(body.at(i)));
    }
    return devices;
}

/// What is wrong when the exchange brought no answer.
std::string silence(const Exchange& exchange, milliseconds limit) {
    switch (exchange.outcome) {
        case Exchange::Outcome::timed_out:
            return fmt::format("the worker gave no answer within {:.1f} s and was killed",
                               std::chrono::duration<double>(limit).count());
        case Exchange::Outcome::stopped:
            return "a stop was requested";
        case Exchange::Outcome::garbled:
            return "the worker broke its protocol: " + exchange.detail;
        default:
            return "the worker ended with " + exchange.detail;
    }
}

bool spoils_worker(EvaluationStatus status) {
    // After a fault or an endless kernel the worker's context is lost; it ends or should.
    return status == EvaluationStatus::crashed || status == EvaluationStatus::timed_out ||
           status == EvaluationStatus::evaluator_failed;
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
    : options_(std::move(options)), context_(std::move(context)) {}

CudaEvaluator::~CudaEvaluator() = default;

void CudaEvaluator::log(LogLevel level, const std::string& line) const {
    if (context_.log) context_.log(level, "evaluator cuda: " + line);
}

CudaEvaluator::Slot& CudaEvaluator::slot(int device) {
    const std::lock_guard lock(mutex_);
    auto& slot = slots_[device];
    if (slot == nullptr) slot = std::make_unique<Slot>();
    return *slot;
}

CudaEvaluator::SlotLock CudaEvaluator::enter(Slot& slot, const std::stop_token& stop) {
    SlotLock lock(slot.busy, std::defer_lock);
    while (!stop.stop_requested() && !lock.try_lock_for(50ms)) {
    }
    return lock;
}

std::vector<std::string> CudaEvaluator::worker_command() const {
    std::vector<std::string> argv = {find_worker(context_.worker_path), "--role", "measure"};
    if (!context_.cache_folder.empty()) {
        argv.insert(argv.end(), {"--cache", context_.cache_folder});
    }
    argv.insert(argv.end(), options_.worker_arguments.begin(), options_.worker_arguments.end());
    return argv;
}

/// One attempt; returns what went wrong.
std::string CudaEvaluator::start(Slot& slot, const std::stop_token& stop) {
    slot.worker = std::make_unique<WorkerProcess>(worker_command());
    const Exchange exchange = slot.worker->ask(wire::message("devices", Json::object()),
                                               Clock::now() + listing_limit, stop);
    if (exchange.outcome == Exchange::Outcome::answered) {
        slot.seen = decode_devices(exchange.answer);
        return {};
    }
    slot.worker.reset();
    if (exchange.outcome == Exchange::Outcome::stopped) {
        throw Error(ErrorCode::cancelled, "a stop was requested");
    }
    return silence(exchange, listing_limit);
}

void CudaEvaluator::ready(Slot& slot, const std::stop_token& stop) {
    if (slot.worker != nullptr && slot.worker->usable()) return;
    slot.worker.reset();
    std::string why;
    try {
        why = start(slot, stop);
        if (why.empty()) return;
        log(LogLevel::warning, why + "; it is started again");
        why = start(slot, stop);
    } catch (const Error&) {
        slot.worker.reset();
        throw;
    }
    if (!why.empty()) {
        throw Error(ErrorCode::worker_failed, why + ", twice without a candidate");
    }
}

void CudaEvaluator::ready_for(Slot& slot, int device, const std::stop_token& stop) {
    ready(slot, stop);
    const bool there = std::any_of(slot.seen.begin(), slot.seen.end(),
                                   [&](const DeviceInfo& info) { return info.index == device; });
    if (there) return;
    // A driver may come back: ask again next time.
    slot.worker.reset();
    throw Error(ErrorCode::device_unavailable,
                slot.seen.empty()
                    ? fmt::format("device {}: the worker sees no usable CUDA device", device)
                    : fmt::format("device {}: the worker sees {} devices, but not this one", device,
                                  slot.seen.size()));
}

Exchange CudaEvaluator::ask(Slot& slot, const std::string& message, milliseconds limit,
                            const std::stop_token& stop) {
    Exchange exchange = slot.worker->ask(message, Clock::now() + bounded(limit), stop);
    if (exchange.outcome != Exchange::Outcome::answered) slot.worker.reset();
    return exchange;
}

std::vector<DeviceInfo> CudaEvaluator::list() {
    const int first =
        options_.devices && !options_.devices->empty() ? options_.devices->front() : 0;
    Slot& listing = slot(first);
    std::vector<DeviceInfo> devices;
    {
        const SlotLock lock = enter(listing, {});
        ready(listing, {});
        devices = listing.seen;
        // Without a driver nothing else can be asked of it.
        if (devices.empty()) listing.worker.reset();
    }
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
            log(LogLevel::warning, std::string(error.what()) + "; roofs are measured again");
        }
    }
    const std::optional<Roofs> measured = measured_roofs(device.index);
    if (!measured) return;
    device.roofs = *measured;
    if (path.empty()) return;
    try {
        write_roofs(path, device, *measured);
    } catch (const Error& error) {
        log(LogLevel::warning, std::string("roofs are not kept: ") + error.what());
    }
}

/// Nothing, with a warning in the log, when they cannot be measured: a device without roofs is
/// usable.
std::optional<Roofs> CudaEvaluator::measured_roofs(int device) {
    try {
        Slot& own = slot(device);
        const SlotLock lock = enter(own, {});
        ready_for(own, device, {});
        const Exchange exchange =
            ask(own, wire::message("roofs", Json{{"device", device}}), roofs_limit, {});
        if (exchange.outcome == Exchange::Outcome::answered) {
            return wire::decode<Roofs>(Answer(exchange.answer, "roofs").body());
        }
        log(LogLevel::warning, fmt::format("roofs of device {} are unknown: {}", device,
                                           silence(exchange, roofs_limit)));
    } catch (const Error& error) {
        log(LogLevel::warning,
            fmt::format("roofs of device {} are unknown: {}", device, error.what()));
    }
    return std::nullopt;
}

Evaluation CudaEvaluator::verdict(Slot& slot, const EvaluationRequest& request,
                                  const Exchange& exchange) const {
    Evaluation evaluation;
    switch (exchange.outcome) {
        case Exchange::Outcome::answered: {
            evaluation = wire::decode<Evaluation>(Answer(exchange.answer, "evaluation").body());
            if (evaluation.id != request.id) {
                throw Error(ErrorCode::worker_failed,
                            fmt::format("the worker answered evaluation \"{}\", asked for \"{}\"",
                                        evaluation.id, request.id));
            }
            evaluation.evaluator = evaluator_name;
            if (spoils_worker(evaluation.status)) slot.worker.reset();
            break;
        }
        case Exchange::Outcome::timed_out:
            evaluation = failed(
                request, EvaluationStatus::timed_out,
                fmt::format("no verdict within the time limit of {:.1f} s; the worker was killed",
                            std::chrono::duration<double>(request.time_limit).count()));
            break;
        case Exchange::Outcome::stopped:
            evaluation = failed(request, EvaluationStatus::cancelled, "a stop was requested");
            break;
        case Exchange::Outcome::died:
            evaluation = failed(request, EvaluationStatus::crashed,
                                "the worker that ran the candidate ended with " + exchange.detail);
            break;
        case Exchange::Outcome::garbled:
            evaluation = failed(request, EvaluationStatus::evaluator_failed, silence(exchange, {}));
            break;
    }
    if (evaluation.output.empty()) evaluation.output = exchange.output;
    if (evaluation.output.size() > 4096) evaluation.output.resize(4096);
    return evaluation;
}

Evaluation CudaEvaluator::evaluate(const EvaluationRequest& request, std::stop_token stop) {
    check_request(request);
    const auto start = Clock::now();
    Slot& own = slot(request.device);
    const SlotLock lock = enter(own, stop);
    Evaluation evaluation;
    if (!lock.owns_lock()) {
        evaluation = failed(request, EvaluationStatus::cancelled, "a stop was requested");
    } else {
        try {
            evaluation = request.depth == EvaluationDepth::sanitize ? sanitize(request, stop)
                                                                    : run(own, request, stop);
        } catch (const Error& error) {
            own.worker.reset();
            evaluation =
                failed(request,
                       error.code() == ErrorCode::cancelled ? EvaluationStatus::cancelled
                                                            : EvaluationStatus::evaluator_failed,
                       error.what());
        }
    }
    if (evaluation.total_time.count() == 0) evaluation.total_time = Clock::now() - start;
    return evaluation;
}

Evaluation CudaEvaluator::run(Slot& slot, const EvaluationRequest& request,
                              const std::stop_token& stop) {
    const std::string message = wire::message("evaluate", wire::encode(request));
    // What ran before must not be there to help.
    if (request.fresh_worker) slot.worker.reset();
    // A command baseline brings its own process and needs no device of ours.
    if (request.command) {
        ready(slot, stop);
    } else {
        ready_for(slot, request.device, stop);
    }
    const Exchange exchange =
        ask(slot, message, bounded(request.time_limit) + options_.margin, stop);
    return verdict(slot, request, exchange);
}

/// Runs the request once under each tool. The worker that is there stays: the tools have one of
/// their own.
Evaluation CudaEvaluator::sanitize(const EvaluationRequest& request,
                                   const std::stop_token& stop) const {
    const std::string program = find_sanitizer(options_.compute_sanitizer);
    std::vector<std::string> worker = worker_command();
    worker.emplace_back("--no-cupti");
    const auto decode = [](const std::string& text) {
        return wire::decode<Evaluation>(Answer(text, "evaluation").body());
    };
    Evaluation evaluation = failed(request, EvaluationStatus::ok, "");
    for (const char* tool : {"memcheck", "racecheck", "initcheck"}) {
        if (program.empty()) {
            evaluation.sanitizer.push_back(
                {tool, SanitizerResult::Status::unavailable,
                 "no compute-sanitizer program: give the option compute_sanitizer"});
            continue;
        }
        if (stop.stop_requested()) {
            return failed(request, EvaluationStatus::cancelled, "a stop was requested");
        }
        const SanitizerRun run = run_sanitizer(program, tool, worker, request,
                                               Clock::now() + options_.sanitizer_limit, stop);
        evaluation.sanitizer.push_back(run.result);
        add_sanitized(evaluation, run, decode);
        if (evaluation.status != EvaluationStatus::ok) break;
    }
    if (stop.stop_requested()) {
        return failed(request, EvaluationStatus::cancelled, "a stop was requested");
    }
    return evaluation;
}

ProfileData CudaEvaluator::collect(const CollectRequest& request, std::stop_token stop) {
    check_request(request.task, request.workloads);
    if (request.workloads.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "request: expected at least one workload, found none");
    }
    check_builds("candidate", request.candidate, request.workloads.size());
    const std::string message = wire::message("collect", wire::encode(request));
    Slot& own = slot(request.device);
    const SlotLock lock = enter(own, stop);
    if (!lock.owns_lock()) throw Error(ErrorCode::cancelled, "a stop was requested");
    ready_for(own, request.device, stop);
    const milliseconds limit = bounded(request.time_limit) + options_.margin;
    const Exchange exchange = ask(own, message, limit, stop);
    if (exchange.outcome == Exchange::Outcome::stopped) {
        throw Error(ErrorCode::cancelled, "a stop was requested");
    }
    if (exchange.outcome != Exchange::Outcome::answered) {
        throw Error(ErrorCode::worker_failed, silence(exchange, limit));
    }
    try {
        return wire::decode<ProfileData>(Answer(exchange.answer, "profile").body());
    } catch (const Error&) {
        own.worker.reset();
        throw;
    }
}

}  // namespace kernelforge::cuda
