// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace kernelforge {

/// What a job came to. Written by its thread, read by the control thread once `Jobs` says it has
/// ended.
template <class T>
struct JobOutcome {
    std::optional<T> value;
    std::exception_ptr error;
    bool ended = false;  ///< guarded by the mutex of `Jobs`

    /// The value, or throws what the job threw. Once.
    [[nodiscard]] T take() {
        if (error) std::rethrow_exception(error);
        return std::move(*value);
    }
};

/// Model calls and compilations that run beside the control thread, at most `most` at once, each on
/// a thread of its own. Destruction asks all of them to stop and joins them. [control]
class Jobs {
  public:
    /// A stop of `stop` stops the jobs.
    Jobs(std::size_t most, const std::stop_token& stop)
        : most_(most), on_stop_(stop, [this] { source_.request_stop(); }) {}
    ~Jobs() {
        source_.request_stop();
        threads_.clear();
    }
    Jobs(const Jobs&) = delete;
    Jobs& operator=(const Jobs&) = delete;

    [[nodiscard]] bool full() const { return running() >= most_; }
    [[nodiscard]] bool idle() const { return running() == 0; }

    /// Starts `work(std::stop_token) -> T`. What it refers to must outlive this object or its end.
    template <class T, class F>
    [[nodiscard]] std::shared_ptr<JobOutcome<T>> start(F work) {
        join_ended();
        auto outcome = std::make_shared<JobOutcome<T>>();  // shared by the job and who waits for it
        {
            const std::lock_guard lock(mutex_);
            ++running_;
        }
        threads_.emplace_back([this, outcome, work = std::move(work)] {
            try {
                outcome->value = work(source_.get_token());
            } catch (...) {
                outcome->error = std::current_exception();
            }
            const std::lock_guard lock(mutex_);
            outcome->ended = true;
            --running_;
            ended_.push_back(std::this_thread::get_id());
            changed_.notify_all();
        });
        return outcome;
    }

    template <class T>
    [[nodiscard]] bool has_ended(const std::shared_ptr<JobOutcome<T>>& outcome) const {
        const std::lock_guard lock(mutex_);
        return outcome->ended;
    }

    /// Waits until a job has ended that the last call did not know of; false when none runs.
    [[nodiscard]] bool wait() {
        std::unique_lock lock(mutex_);
        if (ended_.empty() && running_ == 0) return false;
        changed_.wait(lock, [this] { return !ended_.empty(); });
        lock.unlock();
        join_ended();
        return true;
    }

  private:
    [[nodiscard]] std::size_t running() const {
        const std::lock_guard lock(mutex_);
        return running_;
    }

    void join_ended() {
        std::vector<std::thread::id> ended;
        {
            const std::lock_guard lock(mutex_);
            ended.swap(ended_);
        }
        std::erase_if(threads_, [&](const std::jthread& thread) {
            return std::find(ended.begin(), ended.end(), thread.get_id()) != ended.end();
        });
    }

    const std::size_t most_;
    std::stop_source source_;
    mutable std::mutex mutex_;  ///< guards the next three and `JobOutcome::ended`
    std::condition_variable changed_;
    std::size_t running_ = 0;
    std::vector<std::thread::id> ended_;
    std::vector<std::jthread> threads_;
    std::stop_callback<std::function<void()>> on_stop_;
};

}  // namespace kernelforge
