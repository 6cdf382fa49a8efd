// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/forge.hpp"

// A world without GPU and model: a task, candidates whose source says how they fare, and one fake
// of every interface. What a fake counts is in a shared state, so that a test sees it after the
// fake was moved into a Forge. Test code only.

namespace kernelforge::test {

// ---- candidates that say how they fare ----

/// What becomes of a fake candidate. Every difference changes the source beyond comments.
struct FakeFate {
    std::int64_t time_ns = 10'000;  ///< on workload 0; workload i takes i + 1 times as long
    EvaluationStatus status = EvaluationStatus::ok;  ///< compile_error, plan_error and evaluation's
    int spill_bytes = 0;
    std::string cubin;  ///< machine code, when it must equal another candidate's
    /// At promotion depth it takes this much longer, in percent: a screen's lucky shot.
    int slower_in_promotion = 0;
};

/// Source of a candidate for `fake_task`.
[[nodiscard]] std::string fake_source(const FakeFate& fate);

/// A model's answer with that source.
[[nodiscard]] std::string fake_reply(const FakeFate& fate, std::string_view plan = "try something",
                                     std::string_view change_class = "tiling");

/// y[rows, cols] = 2 * x over one variable and one constant axis; two workloads; baseline
/// `portable` of 10 us; bound far below every time used here.
[[nodiscard]] Task fake_task();

// ---- compiler ----

class FakeCompiler final : public Compiler {
  public:
    struct State {
        std::atomic<int> calls{0};
        std::atomic<int> running{0};
        std::atomic<int> most_running{0};
        std::chrono::milliseconds duration{0};  ///< of each compilation, cut short by a stop
    };
    explicit FakeCompiler(std::shared_ptr<State> state = std::make_shared<State>())
        : state_(std::move(state)) {}
    [[nodiscard]] CompileResult compile(const CompileRequest& request,
                                        std::stop_token stop) override;

  private:
    std::shared_ptr<State> state_;
};

// ---- evaluator ----

class FakeEvaluator final : public Evaluator {
  public:
    struct State {
        mutable std::mutex mutex;
        std::vector<DeviceInfo> devices;          ///< one, unless a test changes it
        std::map<std::string, int> calls;         ///< evaluations by request id, pending ones too
        std::vector<EvaluationRequest> requests;  ///< in order
        bool pending = false;                     ///< answers pending to what is not in `released`
        std::set<std::string> queued;             ///< ids that were answered pending
        std::set<std::string> released;
        int fail_next = 0;                      ///< so many calls end with evaluator_failed
        bool throws = false;                    ///< they throw worker_failed instead
        std::chrono::milliseconds duration{0};  ///< of each evaluation, cut short by a stop
        std::function<void(const EvaluationRequest&)> on_evaluate;
        /// Changes a verdict, when set: an evaluator that cannot be trusted.
        std::function<void(const EvaluationRequest&, Evaluation&)> edit;
        /// What the tools say at depth sanitize; clean unless a test changes it.
        std::vector<SanitizerResult> sanitizer;
        ProfileData profile;  ///< what `collect` returns
        int collected = 0;

        State();
        /// The device has been visited: everything queued has an answer from now on.
        void visit();
        [[nodiscard]] int screens_of_candidates() const;  ///< with an opponent, not pending
    };
    explicit FakeEvaluator(std::shared_ptr<State> state = std::make_shared<State>())
        : state_(std::move(state)) {}
    [[nodiscard]] std::vector<DeviceInfo> devices() override { return state_->devices; }
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request,
                                      std::stop_token stop) override;
    [[nodiscard]] ProfileData collect(const CollectRequest& request, std::stop_token stop) override;

  private:
    std::shared_ptr<State> state_;
};

// ---- model ----

class FakeLlm final : public LlmBackend {
  public:
    struct State {
        mutable std::mutex mutex;
        std::map<CompletionKey, std::string> replies;  ///< by key
        /// Answers what is not in `replies`.
        std::function<std::string(const ChatRequest&)> otherwise;
        std::map<CompletionKey, int> answered;          ///< completions given out, by key
        std::map<CompletionKey, ChatRequest> requests;  ///< the last of each key
        bool pending = false;  ///< answers pending to what is not in `released`
        std::set<CompletionKey> queued;
        std::set<CompletionKey> released;
        std::map<CompletionKey, ErrorCode> errors;  ///< throws instead
        Usage usage{100, {}, 50, 0.25};             ///< of each completion
        ChatStatus status = ChatStatus::ok;
        std::chrono::milliseconds duration{0};  ///< of each call, cut short by a stop
        std::atomic<int> running{0};
        std::atomic<int> most_running{0};
        std::function<void(const ChatRequest&)> on_complete;

        /// Everything queued has been answered.
        void deliver();
        [[nodiscard]] int total_answered() const;
        [[nodiscard]] int most_answered() const;  ///< of one key
        /// The last message of a request.
        [[nodiscard]] std::string last_message(CompletionKey key) const;
    };
    explicit FakeLlm(std::shared_ptr<State> state = std::make_shared<State>())
        : state_(std::move(state)) {}
    [[nodiscard]] ChatReply complete(const ChatRequest& request, std::stop_token stop) override;

  private:
    std::shared_ptr<State> state_;
};

// ---- strategy ----

/// Improves the leader, at most `most` times.
class FakeStrategy final : public SearchStrategy {
  public:
    struct State {
        std::size_t most = 4;
        std::vector<NodeSummary> tells;
        std::vector<Expansion> asked;
        /// Changes what is asked, when set.
        std::function<void(Expansion&)> edit;
        /// Tells of one expansion, by id; anything but 1 at the end is a bug of the loop.
        [[nodiscard]] std::map<std::uint64_t, int> tells_by_expansion() const;
    };
    explicit FakeStrategy(std::shared_ptr<State> state = std::make_shared<State>())
        : state_(std::move(state)) {}
    [[nodiscard]] std::vector<Expansion> ask(std::size_t max_count) override;
    void tell(const NodeSummary& summary) override;

  private:
    std::shared_ptr<State> state_;
    NodeId leader_;
};

}  // namespace kernelforge::test
