// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernelforge/candidate.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/export.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/log.hpp"
#include "kernelforge/profiler_tool.hpp"
#include "kernelforge/search_strategy.hpp"

namespace kernelforge {

/// Where a run ends at the latest. Absent: no limit of that kind. What was spent before a resume
/// counts.
struct Budget {
    std::optional<std::int64_t> evaluations = 40;  ///< of candidates
    std::optional<std::chrono::seconds> time;      ///< wall clock while running
    std::optional<std::int64_t> tokens;            ///< input plus output
    std::optional<double> cost_usd;
};

/// What of a parent's diagnosis a prompt shows.
enum class Feedback { none, raw, findings };

struct ForgeOptions {
    std::string run_folder;  ///< archive and candidates; created, or resumed when it holds a run
    Budget budget;
    Feedback feedback = Feedback::findings;
    std::string guide;              ///< a text that every prompt carries: a user's playbook
    std::size_t max_in_flight = 1;  ///< model calls and compilations at once, ≥ 1
    /// 0: a strategy's expansions are judged in the order in which they were asked for. n > 0:
    /// rounds of n, whose completions are all asked for before any is used and whose evaluations
    /// are all queued before any is used.
    std::size_t generations = 0;
    std::size_t max_rounds = 0;   ///< with generations: rounds at most; 0: no limit
    int max_repairs = 2;          ///< turns after the first, for compile errors and wrong results
    double stop_headroom = 1.05;  ///< stop when the leader's time over the bound is at most this
    std::optional<double> target_speedup;  ///< stop when reached
    std::uint64_t seed = 0;
    int device = 0;
    std::string arch;  ///< empty: the device's
    std::chrono::milliseconds compile_time_limit{60'000};
    std::chrono::milliseconds evaluation_time_limit{60'000};
    std::size_t max_source_bytes = 256 * 1024;
    int max_spill_bytes = 4096;  ///< guard on the compiled kernel: spill stores per thread
    std::int64_t max_output_tokens = 16'384;
};

/// Something that a host may want to show. Called on the control thread, between steps.
struct ForgeEvent {
    enum class Kind {
        started,
        baseline,
        prompted,
        replied,
        compiled,
        evaluated,
        leader,
        refused,
        warning,  ///< nothing failed, but a check could not be made; `message` says which
        waiting,
        stopped
    };
    Kind kind = Kind::started;
    std::optional<std::uint64_t> expansion;
    NodeId node;
    EvaluationStatus status = EvaluationStatus::ok;
    std::optional<double> speedup;
    std::string message;  ///< one line for a person
};

/// The parts that a run is made of; the run owns them. Made by `Registry::make` or by the host.
struct ForgeParts {
    std::unique_ptr<Compiler> compiler;
    std::unique_ptr<Evaluator> evaluator;
    std::unique_ptr<LlmBackend> llm;
    std::unique_ptr<SearchStrategy> strategy;
    std::vector<std::unique_ptr<ProfilerTool>> tools;
    std::function<void(const ForgeEvent&)> on_event;  ///< may be empty
    LogSink log;                                      ///< may be empty
};

enum class StopReason {
    nothing_to_ask,
    budget,
    headroom,
    target,
    stopped,                  ///< through the stop token
    waiting_for_completions,  ///< run again once they are there
    waiting_for_evaluations,  ///< likewise
    backend_failed,           ///< the model could not be reached; run again to go on
    evaluator_failed,
};

[[nodiscard]] constexpr std::string_view to_string(StopReason reason) noexcept {
    switch (reason) {
        case StopReason::nothing_to_ask:
            return "nothing_to_ask";
        case StopReason::budget:
            return "budget";
        case StopReason::headroom:
            return "headroom";
        case StopReason::target:
            return "target";
        case StopReason::stopped:
            return "stopped";
        case StopReason::waiting_for_completions:
            return "waiting_for_completions";
        case StopReason::waiting_for_evaluations:
            return "waiting_for_evaluations";
        case StopReason::backend_failed:
            return "backend_failed";
        case StopReason::evaluator_failed:
            return "evaluator_failed";
    }
    return "unknown";
}

/// One verified candidate and where it may be used.
struct Variant {
    Candidate candidate;
    std::string predicate;  ///< the plan's `//@valid` expression; empty: everywhere
};

/// What a run returns, exports and caches. Empty: nothing beat the baseline.
struct Solution {
    std::vector<Variant> variants;
};

/// Times of one workload at the end of a run, seconds.
struct WorkloadSummary {
    std::string uuid;
    std::vector<std::pair<std::string, double>>
        baselines_s;  ///< every baseline that could be measured
    std::optional<double> best_s;
    std::optional<double> bound_s;
    std::optional<double> speedup;   ///< first (portable) baseline over best
    std::optional<double> headroom;  ///< best over bound
    std::string axes;                ///< "T=64, H=128": the variable ones
};

struct ForgeResult {
    StopReason stop_reason = StopReason::nothing_to_ask;
    std::string message;  ///< one sentence on why it stopped
    Solution best;
    NodeId best_node;
    std::string best_path;  ///< the candidate's file in the run folder
    /// Against the portable baseline: geometric mean over workloads, weighted as the task says.
    std::optional<double> speedup;
    std::string best_baseline;  ///< the fastest with a time of every workload; empty: none
    /// The same against `best_baseline`, which is what the result must be compared with.
    std::optional<double> speedup_over_best;
    /// What the tools of compute-sanitizer said of the best candidate; empty: it never ran under
    /// them.
    std::vector<SanitizerResult> sanitizer;
    std::vector<WorkloadSummary> workloads;
    std::int64_t evaluations = 0;
    std::int64_t expansions = 0;
    Usage usage;                            ///< sums over the run
    std::chrono::duration<double> time{0};  ///< over all resumes
    DeviceInfo device;      ///< where `device.emulated`, all times here are modelled
    std::string evaluator;  ///< which implementation judged; empty: nothing was judged
};

/// Searches for a faster kernel.
class KERNELFORGE_EXPORT Forge {
  public:
    /// @throws Error invalid_argument (a part is missing, an option out of range)
    Forge(ForgeParts parts, ForgeOptions options);
    ~Forge();
    Forge(Forge&&) noexcept;
    Forge& operator=(Forge&&) noexcept;

    /// Runs, or goes on with the run in `run_folder`. Blocks; callbacks come on this thread. What
    /// was found is in the run folder at any time, also after a crash. Call it again after a
    /// `waiting_…`.
    /// @throws Error invalid_argument (another task's run is in the folder), unsupported (no
    ///         `reference_cuda`), parse (a damaged archive), io, device_unavailable
    [[nodiscard]] ForgeResult run(const Task& task, std::stop_token stop = {});

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kernelforge
