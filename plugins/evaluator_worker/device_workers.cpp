// SPDX-License-Identifier: Apache-2.0
#include "evaluator_worker/device_workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"
#include "kernelforge/error.hpp"
#include "wire/codec.hpp"

namespace kernelforge::worker_host {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Starting a driver, a context and CUPTI takes about a second; a loaded machine may need more.
constexpr milliseconds listing_limit = 60s;
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

bool spoils_worker(EvaluationStatus status) {
    // After a fault or an endless kernel the worker's context is lost; it ends or should.
    return status == EvaluationStatus::crashed || status == EvaluationStatus::timed_out ||
           status == EvaluationStatus::evaluator_failed;
}

}  // namespace

Evaluation verdict_without_worker(const EvaluationRequest& request, const std::string& evaluator,
                                  EvaluationStatus status, std::string message) {
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.status = status;
    evaluation.message = std::move(message);
    evaluation.evaluator = evaluator;
    return evaluation;
}

Evaluation decode_evaluation(const std::string& answer) {
    return wire::decode<Evaluation>(Answer(answer, "evaluation").body());
}

Roofs decode_roofs(const std::string& answer) {
    return wire::decode<Roofs>(Answer(answer, "roofs").body());
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

DeviceWorkers::DeviceWorkers(WorkerOptions options) : options_(std::move(options)) {}

DeviceWorkers::~DeviceWorkers() = default;

void DeviceWorkers::log(LogLevel level, const std::string& line) const {
    if (options_.log) options_.log(level, "evaluator " + options_.evaluator + ": " + line);
}

DeviceWorkers::Slot& DeviceWorkers::slot(int device) {
    const std::lock_guard lock(mutex_);
    auto& slot = slots_[device];
    if (slot == nullptr) slot = std::make_unique<Slot>();
    return *slot;
}

DeviceWorkers::SlotLock DeviceWorkers::enter(Slot& slot, const std::stop_token& stop) {
    SlotLock lock(slot.busy, std::defer_lock);
    while (!stop.stop_requested() && !lock.try_lock_for(50ms)) {
    }
    return lock;
}

/// One attempt; returns what went wrong.
std::string DeviceWorkers::start(Slot& slot, const std::stop_token& stop) {
    slot.worker = std::make_unique<WorkerProcess>(options_.command(), options_.memory_limit_bytes);
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

void DeviceWorkers::ready(Slot& slot, const std::stop_token& stop) {
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

void DeviceWorkers::ready_for(Slot& slot, int device, const std::stop_token& stop) {
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

Exchange DeviceWorkers::ask(Slot& slot, const std::string& message, milliseconds limit,
                            const std::stop_token& stop) {
    Exchange exchange = slot.worker->ask(message, Clock::now() + bounded(limit), stop);
    if (exchange.outcome != Exchange::Outcome::answered) slot.worker.reset();
    return exchange;
}

std::vector<DeviceInfo> DeviceWorkers::list(int device) {
    Slot& listing = slot(device);
    const SlotLock lock = enter(listing, {});
    ready(listing, {});
    std::vector<DeviceInfo> devices = listing.seen;
    // Without a driver nothing else can be asked of it.
    if (devices.empty()) listing.worker.reset();
    return devices;
}

Exchange DeviceWorkers::ask(int device, const std::string& message, milliseconds limit,
                            const std::stop_token& stop) {
    Slot& own = slot(device);
    const SlotLock lock = enter(own, stop);
    if (!lock.owns_lock()) throw Error(ErrorCode::cancelled, "a stop was requested");
    ready_for(own, device, stop);
    return ask(own, message, limit, stop);
}

Evaluation DeviceWorkers::verdict(Slot& slot, const EvaluationRequest& request,
                                  const Exchange& exchange) const {
    Evaluation evaluation;
    switch (exchange.outcome) {
        case Exchange::Outcome::answered: {
            evaluation = decode_evaluation(exchange.answer);
            if (evaluation.id != request.id) {
                throw Error(ErrorCode::worker_failed,
                            fmt::format("the worker answered evaluation \"{}\", asked for \"{}\"",
                                        evaluation.id, request.id));
            }
            evaluation.evaluator = options_.evaluator;
            if (spoils_worker(evaluation.status)) slot.worker.reset();
            break;
        }
        case Exchange::Outcome::timed_out:
            evaluation = verdict_without_worker(
                request, options_.evaluator, EvaluationStatus::timed_out,
                fmt::format("no verdict within the time limit of {:.1f} s; the worker was killed",
                            std::chrono::duration<double>(request.time_limit).count()));
            break;
        case Exchange::Outcome::stopped:
            evaluation = verdict_without_worker(
                request, options_.evaluator, EvaluationStatus::cancelled, "a stop was requested");
            break;
        case Exchange::Outcome::died:
            evaluation = verdict_without_worker(
                request, options_.evaluator, EvaluationStatus::crashed,
                "the worker that ran the candidate ended with " + exchange.detail);
            break;
        case Exchange::Outcome::garbled:
            evaluation =
                verdict_without_worker(request, options_.evaluator,
                                       EvaluationStatus::evaluator_failed, silence(exchange, {}));
            break;
    }
    if (evaluation.output.empty()) evaluation.output = exchange.output;
    if (evaluation.output.size() > 4096) evaluation.output.resize(4096);
    return evaluation;
}

Evaluation DeviceWorkers::evaluate(const EvaluationRequest& request, const std::stop_token& stop) {
    return evaluate(request, stop, [&] { return run(slot(request.device), request, stop); });
}

Evaluation DeviceWorkers::evaluate(const EvaluationRequest& request, const std::stop_token& stop,
                                   const std::function<Evaluation()>& work) {
    check_request(request);
    const auto start = Clock::now();
    Slot& own = slot(request.device);
    const SlotLock lock = enter(own, stop);
    Evaluation evaluation;
    if (!lock.owns_lock()) {
        evaluation = verdict_without_worker(request, options_.evaluator,
                                            EvaluationStatus::cancelled, "a stop was requested");
    } else {
        try {
            evaluation = work();
        } catch (const Error& error) {
            own.worker.reset();
            evaluation = verdict_without_worker(request, options_.evaluator,
                                                error.code() == ErrorCode::cancelled
                                                    ? EvaluationStatus::cancelled
                                                    : EvaluationStatus::evaluator_failed,
                                                error.what());
        }
    }
    if (evaluation.total_time.count() == 0) evaluation.total_time = Clock::now() - start;
    return evaluation;
}

Exchange DeviceWorkers::attempt(Slot& slot, const EvaluationRequest& request,
                                const std::stop_token& stop) {
    // A command baseline brings its own process and needs no device of ours.
    if (request.command) {
        ready(slot, stop);
    } else {
        ready_for(slot, request.device, stop);
    }
    return ask(slot, wire::message("evaluate", wire::encode(request)),
               bounded(request.time_limit) + options_.margin, stop);
}

Evaluation DeviceWorkers::run(Slot& slot, const EvaluationRequest& request,
                              const std::stop_token& stop) {
    // What ran before must not be there to help.
    if (request.fresh_worker) slot.worker.reset();
    Exchange exchange = attempt(slot, request, stop);
    if (exchange.killed && options_.again_when_killed) {
        log(LogLevel::warning, silence(exchange, {}) + "; the candidate is judged once more");
        exchange = attempt(slot, request, stop);
        if (exchange.killed) {
            exchange.detail +=
                "; that was the second time: it was killed from outside, or by the system for "
                "want of memory";
        }
    }
    return verdict(slot, request, exchange);
}

ProfileData DeviceWorkers::collect(const CollectRequest& request, const std::stop_token& stop) {
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

}  // namespace kernelforge::worker_host
