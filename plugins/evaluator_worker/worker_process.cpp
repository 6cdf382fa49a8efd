// SPDX-License-Identifier: Apache-2.0
#include "worker_process.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "kernelforge/error.hpp"
#include "wire/channel.hpp"

namespace kernelforge::worker_host {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// A sanitizer's shadow is terabytes of writable memory, of which hardly any is used.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool can_limit_memory = false;
#else
constexpr bool can_limit_memory = true;
#endif
constexpr std::size_t kept_output_bytes = 256 * 1024;
constexpr std::size_t shown_output_bytes = 4 * 1024;
/// A worker that has answered may still be read from: what was printed lags behind the channel.
constexpr auto output_lag = 5ms;
/// A process that closed its channel is about to end.
constexpr auto end_lag = 500ms;

/// Requests a stop at a deadline, or when the caller does. (`Channel::send` knows no deadline.)
class DeadlineStop {
  public:
    DeadlineStop(Clock::time_point deadline, const std::stop_token& stop)
        : forward_(stop, Forward{&source_}), timer_([this, deadline](std::stop_token done) {
              std::unique_lock lock(mutex_);
              if (!wake_.wait_until(lock, done, deadline, [&] { return done.stop_requested(); })) {
                  source_.request_stop();
              }
          }) {}

    [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

  private:
    struct Forward {
        std::stop_source* source;
        void operator()() const { source->request_stop(); }
    };
    std::stop_source source_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::stop_callback<Forward> forward_;
    std::jthread timer_;
};

std::string last_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    const std::size_t newline = text.rfind('\n');
    if (newline != std::string::npos) text.erase(0, newline + 1);
    if (text.size() > 300) text.resize(300);
    return text;
}

}  // namespace

struct WorkerProcess::State {
    explicit State(std::vector<std::string> argv)
        : process(
              {.argv = std::move(argv), .max_output_bytes = kept_output_bytes, .channel = true}),
          channel(process.channel()) {}

    /// Says how the process ended, and its last words.
    void tell_end(Exchange& exchange) {
        const auto status = process.wait_until(Clock::now() + end_lag);
        exchange.killed = status && status->signalled && status->code == SIGKILL;
        std::string text = status ? status->describe() : "its channel closed";
        process.kill();
        const std::string words = last_line(process.error_output());
        if (!words.empty()) text += ": " + words;
        exchange.detail = std::move(text);
    }

    Subprocess process;
    wire::Channel channel;
    bool killed = false;
};

WorkerProcess::WorkerProcess(std::vector<std::string> argv,
                             std::optional<std::uint64_t> memory_limit_bytes)
    : state_(std::make_unique<State>(std::move(argv))) {
    if (!memory_limit_bytes || !can_limit_memory) return;
    const rlimit limit{*memory_limit_bytes, *memory_limit_bytes};
    if (::prlimit(state_->process.pid(), RLIMIT_DATA, &limit, nullptr) == 0) return;
    const int error = errno;
    if (error == ESRCH) return;  // it has ended already, which the first message will find
    throw Error(ErrorCode::io, std::string("memory limit of a worker: ") + std::strerror(error));
}

WorkerProcess::~WorkerProcess() = default;

bool WorkerProcess::usable() {
    return !state_->killed && state_->process.running() &&
           state_->process.output().size() < kept_output_bytes;
}

bool WorkerProcess::finish(Clock::time_point deadline) {
    bool ended = false;
    if (!state_->killed) {
        ::shutdown(state_->process.channel(), SHUT_WR);
        ended = state_->process.wait_until(deadline).has_value();
    }
    kill();
    return ended;
}

void WorkerProcess::kill() {
    state_->killed = true;
    state_->process.kill();
}

Exchange WorkerProcess::ask(const std::string& message, Clock::time_point deadline,
                            const std::stop_token& stop) {
    State& state = *state_;
    const std::size_t printed_before = state.process.output().size();
    Exchange exchange;
    try {
        const DeadlineStop limit(deadline, stop);
        state.channel.send(message, limit.token());
        auto received = state.channel.receive(deadline, stop);
        switch (received.outcome) {
            case wire::Channel::Outcome::message:
                exchange.outcome = Exchange::Outcome::answered;
                exchange.answer = std::move(received.message);
                (void)state.process.wait_until(Clock::now() + output_lag);
                break;
            case wire::Channel::Outcome::closed:
                state.tell_end(exchange);
                break;
            case wire::Channel::Outcome::timed_out:
                exchange.outcome = Exchange::Outcome::timed_out;
                break;
            case wire::Channel::Outcome::stopped:
                exchange.outcome = Exchange::Outcome::stopped;
                break;
        }
    } catch (const Error& error) {
        if (error.code() == ErrorCode::invalid_argument) throw;
        if (error.code() == ErrorCode::cancelled) {
            exchange.outcome =
                stop.stop_requested() ? Exchange::Outcome::stopped : Exchange::Outcome::timed_out;
        } else {
            // Cut off because it died, or something that is no message from one that lives.
            if (state.process.wait_until(Clock::now() + end_lag)) {
                state.tell_end(exchange);
            } else {
                exchange.outcome = Exchange::Outcome::garbled;
                exchange.detail = error.what();
            }
        }
    }
    if (exchange.outcome != Exchange::Outcome::answered) kill();
    const std::string printed = state.process.output();
    exchange.output = printed.substr(std::min(printed_before, printed.size()), shown_output_bytes);
    return exchange;
}

}  // namespace kernelforge::worker_host
