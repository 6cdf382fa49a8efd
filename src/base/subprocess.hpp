// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace kernelforge {

/// What to start and how.
struct SubprocessOptions {
    std::vector<std::string> argv;  ///< argv[0] is a path, or a name that is looked up in PATH
    std::string working_folder;     ///< empty: inherited
    std::vector<std::pair<std::string, std::string>>
        environment;  ///< set on top of the inherited one
    std::size_t max_output_bytes =
        64 * 1024;                     ///< of stdout and of stderr; the rest is read and dropped
    bool channel = false;              ///< give the child one end of a socket as file descriptor 3
    std::optional<std::string> input;  ///< written to stdin, then closed; none: /dev/null
    /// Kill the process and its group as soon as `max_output_bytes` of stdout have been read.
    bool end_at_output_limit = false;
};

/// How a process ended.
struct ExitStatus {
    bool signalled = false;
    int code = 0;  ///< exit code, or signal number
    /// "exit code 3", "signal 11 (Segmentation fault)"
    [[nodiscard]] std::string describe() const;
    [[nodiscard]] bool ok() const noexcept { return !signalled && code == 0; }
};

/// A child process in a process group of its own; destruction kills the group. Output of the child
/// is read by a thread, so a child that prints without end never blocks and never fills memory.
/// When the owner itself is killed, a child with a channel sees it close and must end (our workers
/// do). The parent-death signal is not used: it fires when the *thread* that forked ends.
class Subprocess {
  public:
    /// @throws Error not_found (no such program), io
    explicit Subprocess(SubprocessOptions options);
    ~Subprocess();
    Subprocess(const Subprocess&) = delete;
    Subprocess& operator=(const Subprocess&) = delete;

    /// Our end of the socket; -1 without `channel`. Stays owned by this object.
    [[nodiscard]] int channel() const noexcept { return channel_; }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    /// Waits at most until `deadline`, or a stop; nothing when it still runs then.
    [[nodiscard]] std::optional<ExitStatus> wait_until(
        std::chrono::steady_clock::time_point deadline, std::stop_token stop = {});

    /// Sends SIGKILL to the whole group and reaps the child. Does nothing when it has ended and
    /// been reaped. Descendants that left the group are not reached.
    ExitStatus kill();

    [[nodiscard]] bool running();

    /// What was read so far; complete once the child has been reaped.
    [[nodiscard]] std::string output() const;
    [[nodiscard]] std::string error_output() const;

  private:
    struct Streams;
    std::optional<ExitStatus> reap(bool block);
    void finish_streams();

    pid_t pid_ = -1;
    int channel_ = -1;
    std::optional<ExitStatus> status_;
    Streams* streams_;  // owned; a raw pointer keeps <thread> out of this header
};

/// Runs a program to its end.
struct SubprocessResult {
    ExitStatus status;
    std::string output;
    std::string error_output;
    bool timed_out = false;
    bool stopped = false;
    std::chrono::duration<double> time{0};
};

/// @throws Error not_found, io
[[nodiscard]] SubprocessResult run_subprocess(SubprocessOptions options,
                                              std::chrono::milliseconds time_limit,
                                              std::stop_token stop = {});

}  // namespace kernelforge
