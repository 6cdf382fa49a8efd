// SPDX-License-Identifier: Apache-2.0
#include "worker_session.hpp"

#include <chrono>
#include <utility>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/subprocess.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"

namespace kernelforge::compile {
namespace {

using Clock = std::chrono::steady_clock;
/// Loading NVRTC from a cold disk takes seconds.
constexpr std::chrono::seconds start_limit{60};

std::unique_ptr<Subprocess> start_worker(const std::string& program) {
    SubprocessOptions options;
    options.argv = {program, "--role", "compile"};
    options.channel = true;
    return std::make_unique<Subprocess>(std::move(options));
}

}  // namespace

WorkerSession::WorkerSession(const std::string& program, const std::string& settings)
    : folder_(std::make_unique<TemporaryFolder>()),
      process_(start_worker(program)),
      settings_(settings),
      sender_(std::make_unique<wire::Channel>(process_->channel())) {
    reader_ = std::jthread([this](std::stop_token stop) { read_answers(stop); });
}

WorkerSession::~WorkerSession() {
    reader_.request_stop();
    process_->kill();
    if (reader_.joinable()) reader_.join();
}

bool WorkerSession::dead() const {
    const std::lock_guard lock(mutex_);
    return state_ == State::dead;
}

std::string WorkerSession::obituary() const {
    const std::lock_guard lock(mutex_);
    return cause_;
}

void WorkerSession::end(State state, std::string cause) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    cause_ = std::move(cause);
    changed_.notify_all();
}

void WorkerSession::read_answers(std::stop_token stop) {
    std::string cause = "the compile worker ended";
    try {
        {
            Json body = Json::parse(settings_);
            body["temporary_folder"] = folder_->path().string();
            const std::lock_guard lock(send_mutex_);
            sender_->send(wire::message("configure", body), stop);
        }
        wire::Channel channel(process_->channel());
        auto deadline = Clock::now() + start_limit;
        while (true) {
            auto received = channel.receive(deadline, stop);
            if (received.outcome == wire::Channel::Outcome::stopped) return;
            if (received.outcome == wire::Channel::Outcome::closed) break;
            if (received.outcome == wire::Channel::Outcome::message) {
                take(std::move(received.message));
                // An answer may be a long time coming; the worker enforces the limits.
                deadline = Clock::now() + std::chrono::hours(24);
                continue;
            }
            const std::lock_guard lock(mutex_);
            if (state_ != State::starting) {
                deadline = Clock::now() + std::chrono::hours(24);
                continue;
            }
            cause = "the compile worker did not start within " +
                    std::to_string(start_limit.count()) + " s";
            break;
        }
    } catch (const Error& error) {
        cause = error.what();
    }
    const auto status = process_->wait_until(Clock::now() + std::chrono::milliseconds(500), stop);
    if (status) cause += " (" + status->describe() + ")";
    process_->kill();
    const std::string said = process_->error_output();
    if (!said.empty()) cause += ", after saying: " + said.substr(0, 500);
    const std::lock_guard lock(mutex_);
    if (state_ != State::unsupported) {
        state_ = State::dead;
        cause_ = cause;
    }
    changed_.notify_all();
}

void WorkerSession::take(std::string message) {
    const JsonDocument document(std::move(message), "compile worker");
    const std::string type = document.root().at("type").as_string();
    const JsonNode body = document.root().at("body");
    if (type == "ready") {
        end(State::ready, {});
        return;
    }
    if (type == "unsupported") {
        end(State::unsupported, body.at("message").as_string());
        return;
    }
    if (type == "failed") throw Error(ErrorCode::worker_failed, body.at("message").as_string());
    const auto id = static_cast<std::uint64_t>(body.at("id").as_integer());
    Call answer;
    if (type == "result") {
        answer.result = wire::decode<CompileResult>(body.at("result"));
    } else {
        answer.failure = body.at("message").as_string();
    }
    const std::lock_guard lock(mutex_);
    const auto call = calls_.find(id);
    if (call == calls_.end()) return;  // cancelled meanwhile
    *call->second = std::move(answer);
    changed_.notify_all();
}

std::optional<CompileResult> WorkerSession::compile(const CompileRequest& request,
                                                    const std::string& headers,
                                                    std::stop_token stop) {
    Call call;
    std::uint64_t id = 0;
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [this] { return state_ != State::starting; });
        if (state_ == State::unsupported) throw Error(ErrorCode::unsupported, cause_);
        if (state_ == State::dead) return std::nullopt;
        id = next_id_++;
        if (!stop.stop_requested()) calls_[id] = &call;
    }
    CompileResult cancelled;
    cancelled.status = CompileStatus::cancelled;
    cancelled.message = "the compile was cancelled";
    cancelled.arch = request.arch;
    if (stop.stop_requested()) {
        const std::lock_guard lock(mutex_);
        calls_.erase(id);
        return cancelled;
    }
    const auto send = [this](const std::string& message) {
        try {
            const std::lock_guard lock(send_mutex_);
            sender_->send(message);
        } catch (const Error&) {
            // The worker has gone; the reading thread finds that out and says so to all callers.
        }
    };
    send(wire::message("compile",
                       Json{{"id", id}, {"headers", headers}, {"request", wire::encode(request)}}));
    bool answered = false;
    {
        std::unique_lock lock(mutex_);
        answered = changed_.wait(
            lock, stop, [&] { return call.result || call.failure || state_ == State::dead; });
        calls_.erase(id);
    }
    if (!answered) {
        send(wire::message("cancel", Json{{"id", id}}));
        return cancelled;
    }
    if (call.failure) throw Error(ErrorCode::worker_failed, *call.failure);
    return std::move(call.result);
}

}  // namespace kernelforge::compile
