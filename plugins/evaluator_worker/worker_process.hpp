// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/subprocess.hpp"

namespace kernelforge::worker_host {

/// How one request to a worker ended.
struct Exchange {
    enum class Outcome {
        answered,
        timed_out,  ///< no answer by the deadline
        stopped,    ///< a stop was requested
        died,       ///< the process ended, or closed its channel, before it answered
        garbled,    ///< what came is no message
    };
    Outcome outcome = Outcome::died;
    std::string answer;  ///< JSON text of the answer
    std::string detail;  ///< died, garbled: how, with the last line that the worker wrote to stderr
    bool killed = false;  ///< died: of signal 9, which was not ours
    std::string output;   ///< first 4 KiB that the worker's stdout gave during the exchange
};

/// A worker child with its message channel (src/wire/channel.hpp). A worker that did not answer is
/// killed with its whole process group, because what it would say later belongs to no request.
/// Whatever it prints is read and bounded. One thread at a time.
class WorkerProcess {
  public:
    /// Starts `argv` with the channel as its descriptor 3. With `memory_limit_bytes` its writable
    /// private memory is limited (RLIMIT_DATA), so that what a candidate makes it allocate is its
    /// end and not the machine's; not in sanitized builds. @throws Error not_found, io
    explicit WorkerProcess(std::vector<std::string> argv,
                           std::optional<std::uint64_t> memory_limit_bytes = std::nullopt);
    ~WorkerProcess();

    /// Sends a message and waits for one. Returns within a second after a stop, and soon after the
    /// deadline, also when the worker does not read. @throws Error invalid_argument (too long)
    [[nodiscard]] Exchange ask(const std::string& message,
                               std::chrono::steady_clock::time_point deadline,
                               const std::stop_token& stop);

    /// False once it was killed, has ended, or has printed so much that what a next candidate
    /// prints could not be told apart.
    [[nodiscard]] bool usable();

    /// Closes the channel, which asks the worker to end, and waits for that until `deadline`; then
    /// kills the group. The object can no longer be asked. Whether it ended by itself.
    bool finish(std::chrono::steady_clock::time_point deadline);

    /// Kills the process group. The object can no longer be asked.
    void kill();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kernelforge::worker_host
