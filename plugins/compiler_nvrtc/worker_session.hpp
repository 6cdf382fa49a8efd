// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "kernelforge/compiler.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge {
class Subprocess;
class TemporaryFolder;
namespace wire {
class Channel;
}
}  // namespace kernelforge

namespace kernelforge::compile {

/// One life of a compile worker: the process, and a thread that hands its answers to the callers.
/// Once the worker has gone the session is dead and a new one is made.
class WorkerSession {
  public:
    /// Starts the program; does not wait for it. `settings` is the JSON text of what the role needs
    /// besides its temporary folder.
    /// @throws Error not_found or io (the program cannot be started)
    WorkerSession(const std::string& program, const std::string& settings);
    ~WorkerSession();
    WorkerSession(const WorkerSession&) = delete;
    WorkerSession& operator=(const WorkerSession&) = delete;

    /// Compiles; nothing when the worker ended before it answered. `headers` changes when a header
    /// of the leading include block does: a precompiled header is used for one value only. [any]
    /// @throws Error unsupported (the worker cannot load NVRTC), worker_failed (it refused the
    /// request)
    [[nodiscard]] std::optional<CompileResult> compile(const CompileRequest& request,
                                                       const std::string& headers,
                                                       std::stop_token stop);

    [[nodiscard]] bool dead() const;
    /// How the worker ended, with what it said last.
    [[nodiscard]] std::string obituary() const;

  private:
    struct Call {
        std::optional<CompileResult> result;
        std::optional<std::string> failure;
    };
    enum class State { starting, ready, unsupported, dead };

    void read_answers(std::stop_token stop);
    void take(std::string message);
    void end(State state, std::string cause);

    std::unique_ptr<TemporaryFolder> folder_;
    std::unique_ptr<Subprocess> process_;
    std::string settings_;

    std::mutex send_mutex_;  // guards sender_
    std::unique_ptr<wire::Channel> sender_;
    mutable std::mutex mutex_;  // guards the members below
    std::condition_variable_any changed_;
    State state_ = State::starting;
    std::string cause_;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, Call*> calls_;  // waiting in compile()

    std::jthread reader_;  // last: ends first
};

}  // namespace kernelforge::compile
