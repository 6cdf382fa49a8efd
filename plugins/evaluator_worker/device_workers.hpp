// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "evaluator_worker/worker_process.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/log.hpp"

namespace kernelforge::worker_host {

/// What differs between the evaluators that run candidates in workers.
struct WorkerOptions {
    std::string evaluator;  ///< its name, in verdicts and in the log
    /// Program and arguments of a worker; called whenever one is started. @throws Error not_found
    std::function<std::vector<std::string>()> command;
    std::optional<std::uint64_t> memory_limit_bytes;  ///< of a worker
    /// Beyond a request's own limit, for a worker that answers at its limit.
    std::chrono::milliseconds margin{10'000};
    /// Judge once more, in a fresh worker, what was at hand when one was killed by signal 9 that
    /// the host did not send: for workers that no candidate can bring to that.
    bool again_when_killed = false;
    LogSink log;  ///< may be empty
};

/// The workers of an evaluator, one a device, each started when it is first needed and again after
/// it has died. Whatever a worker does, its end included, is a verdict or an error. Any thread may
/// call; calls for one device wait for each other.
class DeviceWorkers {
  public:
    explicit DeviceWorkers(WorkerOptions options);
    ~DeviceWorkers();

    /// What the worker of `device` says there is; it is ended again where that is nothing. [any]
    /// @throws Error worker_failed, not_found, io
    [[nodiscard]] std::vector<DeviceInfo> list(int device);

    /// Asks the worker of a device for something else. [device]
    /// @throws Error worker_failed, device_unavailable, not_found, io, cancelled
    [[nodiscard]] Exchange ask(int device, const std::string& message,
                               std::chrono::milliseconds limit, const std::stop_token& stop);

    /// As `Evaluator::evaluate`. [device]
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request,
                                      const std::stop_token& stop);
    /// The same for work that needs the device but not this object's worker: `work` runs while
    /// nobody else uses the device, and what it throws is a status. [device]
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request, const std::stop_token& stop,
                                      const std::function<Evaluation()>& work);
    /// As `Evaluator::collect`. [device]
    [[nodiscard]] ProfileData collect(const CollectRequest& request, const std::stop_token& stop);

    /// A line in the host's log, after the evaluator's name.
    void log(LogLevel level, const std::string& line) const;

  private:
    /// One device: its worker, and who may use it now.
    struct Slot {
        std::timed_mutex busy;  // guards the rest
        std::unique_ptr<WorkerProcess> worker;
        std::vector<DeviceInfo> seen;  // by the worker when it was started
    };
    using SlotLock = std::unique_lock<std::timed_mutex>;

    Slot& slot(int device);
    /// Waits for the slot; not owned when a stop came first.
    static SlotLock enter(Slot& slot, const std::stop_token& stop);
    /// Makes sure that the slot has a worker that has just said which devices it sees; one that
    /// dies while doing so is replaced once. @throws Error worker_failed, not_found, io, cancelled
    void ready(Slot& slot, const std::stop_token& stop);
    [[nodiscard]] std::string start(Slot& slot, const std::stop_token& stop);
    /// As `ready`, and the device is there. @throws also device_unavailable
    void ready_for(Slot& slot, int device, const std::stop_token& stop);
    static Exchange ask(Slot& slot, const std::string& message, std::chrono::milliseconds limit,
                        const std::stop_token& stop);
    /// As `ready` for this request, then asks it.
    [[nodiscard]] Exchange attempt(Slot& slot, const EvaluationRequest& request,
                                   const std::stop_token& stop);
    [[nodiscard]] Evaluation run(Slot& slot, const EvaluationRequest& request,
                                 const std::stop_token& stop);
    [[nodiscard]] Evaluation verdict(Slot& slot, const EvaluationRequest& request,
                                     const Exchange& exchange) const;

    WorkerOptions options_;
    std::mutex mutex_;  // guards slots_ (the map, not what it points to)
    std::map<int, std::unique_ptr<Slot>> slots_;
};

/// A verdict that no worker gave.
[[nodiscard]] Evaluation verdict_without_worker(const EvaluationRequest& request,
                                                const std::string& evaluator,
                                                EvaluationStatus status, std::string message);

/// The body of an evaluation that a worker answered.
/// @throws Error worker_failed, parse, or what an answer of type error says
[[nodiscard]] Evaluation decode_evaluation(const std::string& answer);
/// Likewise of roofs.
[[nodiscard]] Roofs decode_roofs(const std::string& answer);

/// What is wrong when the exchange brought no answer.
[[nodiscard]] std::string silence(const Exchange& exchange, std::chrono::milliseconds limit);

}  // namespace kernelforge::worker_host
