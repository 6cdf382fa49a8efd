// SPDX-License-Identifier: Apache-2.0
#include "base/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernelforge/error.hpp"

extern "C" char** environ;

namespace kernelforge {
namespace {

std::string cause_text(int cause) {
    return std::generic_category().message(cause);
}

void close_if_open(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

bool is_file(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Looked up before the fork, because the child may only call async-signal-safe functions.
std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) {
        if (::access(name.c_str(), X_OK) != 0) {
            throw Error(ErrorCode::not_found, "cannot start " + name + ": " + cause_text(errno));
        }
        if (!is_file(name)) {
            throw Error(ErrorCode::not_found,
                        "cannot start " + name + ": expected a program, found no regular file");
        }
        return name;
    }
    const char* path = ::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
    while (!rest.empty()) {
        const std::size_t colon = rest.find(':');
        const std::string candidate = std::string(rest.substr(0, colon)) + "/" + name;
        if (::access(candidate.c_str(), X_OK) == 0 && is_file(candidate)) return candidate;
        if (colon == std::string_view::npos) break;
        rest.remove_prefix(colon + 1);
    }
    throw Error(ErrorCode::not_found, "cannot start " + name + ": no such program in PATH");
}

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        variables[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
    }
    for (const auto& [name, value] : changes) variables[name] = value;
    std::vector<std::string> lines;
    lines.reserve(variables.size());
    for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
    return lines;
}

std::vector<char*> pointers(std::vector<std::string>& lines) {
    std::vector<char*> result;
    result.reserve(lines.size() + 1);
    for (std::string& line : lines) result.push_back(line.data());
    result.push_back(nullptr);
    return result;
}

/// A descriptor above the ones that the child is given, so that dup2 cannot overwrite a source.
int above_channel(int descriptor) {
    if (descriptor > 3) return descriptor;
    const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
    ::close(descriptor);
    return moved;
}

}  // namespace

std::string ExitStatus::describe() const {
    if (!signalled) return "exit code " + std::to_string(code);
    const char* name = ::strsignal(code);
    return "signal " + std::to_string(code) + " (" + (name != nullptr ? name : "unknown") + ")";
}

struct Subprocess::Streams {
    mutable std::mutex mutex;  // guards output, error_output
    std::string output;
    std::string error_output;
    std::jthread thread;

    /// Owns the three descriptors (-1: none). Ends when both outputs are closed, or on a stop, or
    /// when stdout reaches its limit; then it kills `group` (0: goes on and drops the rest).
    void pump(std::stop_token stop, int out, int err, int in, std::string input,
              std::size_t max_bytes, pid_t group) {
        std::size_t written = 0;
        while ((out >= 0 || err >= 0 || in >= 0) && !stop.stop_requested()) {
            std::array<pollfd, 3> polls = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0},
                                           pollfd{in, POLLOUT, 0}};
            if (::poll(polls.data(), polls.size(), 50) < 0 && errno != EINTR) break;
            if (polls[0].revents != 0) take(out, output, max_bytes);
            if (group > 0 && output.size() >= max_bytes) {
                ::kill(-group, SIGKILL);
                break;
            }
            if (polls[1].revents != 0) take(err, error_output, max_bytes);
            if (polls[2].revents != 0) {
                const ssize_t n = ::send(in, input.data() + written, input.size() - written,
                                         MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n > 0) written += static_cast<std::size_t>(n);
                const bool failed = n < 0 && errno != EINTR && errno != EAGAIN;
                if (failed || written == input.size()) close_if_open(in);
            }
        }
        // What is in the pipes now still counts; what comes later does not.
        for (int* descriptor : {&out, &err}) {
            std::string& text = descriptor == &out ? output : error_output;
            while (*descriptor >= 0 && text.size() < max_bytes) {
                pollfd poll_one{*descriptor, POLLIN, 0};
                if (::poll(&poll_one, 1, 0) <= 0) break;
                take(*descriptor, text, max_bytes);
            }
        }
        close_if_open(out);
        close_if_open(err);
        close_if_open(in);
    }

    void take(int& descriptor, std::string& text, std::size_t max_bytes) {
        std::array<char, 65536> buffer;
        const ssize_t n = ::read(descriptor, buffer.data(), buffer.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
        if (n <= 0) {
            close_if_open(descriptor);
            return;
        }
        const std::lock_guard lock(mutex);
        text.append(buffer.data(), std::min(static_cast<std::size_t>(n),
                                            max_bytes - std::min(max_bytes, text.size())));
    }
};

Subprocess::Subprocess(SubprocessOptions options) : streams_(nullptr) {
    if (options.argv.empty()) {
        throw Error(ErrorCode::invalid_argument, "cannot start a process: empty command");
    }
    const std::string program = find_program(options.argv.front());
    std::vector<std::string> environment = merged_environment(options.environment);
    const std::vector<char*> argv = pointers(options.argv);
    const std::vector<char*> envp = pointers(environment);

    std::array<int, 2> out = {-1, -1};
    std::array<int, 2> err = {-1, -1};
    std::array<int, 2> in = {-1, -1};
    std::array<int, 2> socket = {-1, -1};
    std::array<int, 2> failure = {-1, -1};
    const auto close_all = [&] {
        for (auto* pair : {&out, &err, &in, &socket, &failure}) {
            for (int& descriptor : *pair) close_if_open(descriptor);
        }
    };
    const bool opened =
        ::pipe2(out.data(), O_CLOEXEC) == 0 && ::pipe2(err.data(), O_CLOEXEC) == 0 &&
        ::pipe2(failure.data(), O_CLOEXEC) == 0 &&
        (!options.input || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) == 0) &&
        (!options.channel ||
         ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket.data()) == 0);
    if (opened) {
        for (auto* pair : {&out, &err, &in, &socket, &failure}) {
            if ((*pair)[0] >= 0) (*pair)[0] = above_channel((*pair)[0]);
            if ((*pair)[1] >= 0) (*pair)[1] = above_channel((*pair)[1]);
        }
    }
    int null = opened ? above_channel(::open("/dev/null", O_RDONLY | O_CLOEXEC)) : -1;
    if (!opened || null < 0) {
        const int cause = errno;
        close_all();
        close_if_open(null);
        throw Error(ErrorCode::io, "cannot start " + program + ": " + cause_text(cause));
    }

    const pid_t child = ::fork();
    if (child == 0) {
        // Only async-signal-safe calls from here to exec.
        ::setpgid(0, 0);
        ::dup2(options.input ? in[1] : null, 0);
        ::dup2(out[1], 1);
        ::dup2(err[1], 2);
        if (options.channel) ::dup2(socket[1], 3);
        ::syscall(SYS_close_range, options.channel ? 4U : 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
        struct sigaction plain {};
        plain.sa_handler = SIG_DFL;
        for (int number = 1; number < NSIG; ++number) ::sigaction(number, &plain, nullptr);
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        if (options.working_folder.empty() || ::chdir(options.working_folder.c_str()) == 0) {
            ::execve(program.c_str(), argv.data(), envp.data());
        }
        const int cause = errno;
        [[maybe_unused]] const ssize_t n = ::write(failure[1], &cause, sizeof cause);
        ::_exit(127);
    }
    const int fork_cause = errno;
    close_if_open(null);
    close_if_open(out[1]);
    close_if_open(err[1]);
    close_if_open(in[1]);
    close_if_open(socket[1]);
    close_if_open(failure[1]);
    if (child < 0) {
        close_all();
        throw Error(ErrorCode::io, "cannot start " + program + ": " + cause_text(fork_cause));
    }
    ::setpgid(child, child);  // both sides do it, so that neither can be too early
    int cause = 0;
    ssize_t n = 0;
    do {
        n = ::read(failure[0], &cause, sizeof cause);
    } while (n < 0 && errno == EINTR);
    if (n == static_cast<ssize_t>(sizeof cause)) {
        ::waitpid(child, nullptr, 0);
        close_all();
        throw Error(cause == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                    "cannot start " + program +
                        (options.working_folder.empty() ? "" : " in " + options.working_folder) +
                        ": " + cause_text(cause));
    }
    close_if_open(failure[0]);

    pid_ = child;
    channel_ = socket[0];
    streams_ = new Streams;
    streams_->thread =
        std::jthread([streams = streams_, out = out[0], err = err[0], in = in[0],
                      input = options.input.value_or(""), limit = options.max_output_bytes,
                      group = options.end_at_output_limit ? child : 0](std::stop_token stop) {
            streams->pump(stop, out, err, in, input, limit, group);
        });
}

Subprocess::~Subprocess() {
    kill();
    close_if_open(channel_);
    delete streams_;
}

std::optional<ExitStatus> Subprocess::reap(bool block) {
    if (status_) return status_;
    int raw = 0;
    pid_t result = 0;
    do {
        result = ::waitpid(pid_, &raw, block ? 0 : WNOHANG);
    } while (result < 0 && errno == EINTR);
    if (result == 0) return std::nullopt;
    ExitStatus status;
    if (result < 0) {
        // Somebody else reaped our child (a host that ignores SIGCHLD); all we know is that it is
        // gone.
        status = {.signalled = false, .code = 127};
    } else if (WIFSIGNALED(raw)) {
        status = {.signalled = true, .code = WTERMSIG(raw)};
    } else {
        status = {.signalled = false, .code = WEXITSTATUS(raw)};
    }
    status_ = status;
    // The leader is gone; whatever it started must go too, or its pipes stay open.
    ::kill(-pid_, SIGKILL);
    finish_streams();
    return status_;
}

void Subprocess::finish_streams() {
    if (!streams_->thread.joinable()) return;
    streams_->thread.request_stop();
    streams_->thread.join();
}

std::optional<ExitStatus> Subprocess::wait_until(std::chrono::steady_clock::time_point deadline,
                                                 std::stop_token stop) {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
    for (;;) {
        if (auto status = reap(false)) {
            if (handle >= 0) ::close(handle);
            return status;
        }
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0 || stop.stop_requested()) {
            if (handle >= 0) ::close(handle);
            return std::nullopt;
        }
        // A stop is noticed within the slice; the end of the process at once.
        const int slice =
            static_cast<int>(std::min<long long>(left.count() + 1, handle >= 0 ? 100 : 5));
        pollfd poll_one{handle, POLLIN, 0};
        ::poll(&poll_one, handle >= 0 ? 1 : 0, slice);
    }
}

ExitStatus Subprocess::kill() {
    if (!status_) {
        ::kill(-pid_, SIGKILL);
        reap(true);
    }
    return *status_;
}

bool Subprocess::running() {
    return !reap(false).has_value();
}

std::string Subprocess::output() const {
    const std::lock_guard lock(streams_->mutex);
    return streams_->output;
}

std::string Subprocess::error_output() const {
    const std::lock_guard lock(streams_->mutex);
    return streams_->error_output;
}

SubprocessResult run_subprocess(SubprocessOptions options, std::chrono::milliseconds time_limit,
                                std::stop_token stop) {
    const auto start = std::chrono::steady_clock::now();
    Subprocess process(std::move(options));
    SubprocessResult result;
    const auto status = process.wait_until(start + time_limit, stop);
    result.stopped = !status && stop.stop_requested();
    result.timed_out = !status && !result.stopped;
    result.status = process.kill();
    result.output = process.output();
    result.error_output = process.error_output();
    result.time = std::chrono::steady_clock::now() - start;
    return result;
}

}  // namespace kernelforge
