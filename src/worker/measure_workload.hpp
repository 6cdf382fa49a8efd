// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/measure_bench.hpp"
#include "worker/measure_journal.hpp"
#include "worker/measure_watch.hpp"

namespace kernelforge::worker {

/// A candidate with its plan and the builds that were loaded so far; they are unloaded with it.
class Contender {
  public:
    /// @throws Verdict plan_error
    Contender(Device& device, const CompiledCandidate& compiled, const Task& task,
              std::string name);

    /// Its program for a workload, with the build at `position` of `build_of_workload`.
    /// @throws Verdict
    [[nodiscard]] std::unique_ptr<Program> program(const Task& task, const Workload& workload,
                                                   std::size_t position,
                                                   const Alignments& alignments = {});
    /// The least alignment that `//@valid` accepts of each tensor whose alignment it asks for,
    /// where that is below 256: at least that of an element.
    /// @throws Error invalid_argument, where the condition cannot be evaluated
    [[nodiscard]] Alignments least_alignments(const Task& task, const Workload& workload) const;

  private:
    Device& device_;
    const CompiledCandidate& compiled_;
    plan::Plan plan_;
    std::map<std::size_t, std::unique_ptr<LoadedBuild>> builds_;
};

/// Refuses a candidate whose globals could do for nothing what a workspace does in measured time.
/// Constants do not count.
/// @throws Verdict rejected
void refuse_large_globals(const CompiledCandidate& candidate);

/// What is the same for all shapes of a request.
struct Job {
    Device& device;
    const EvaluationRequest& request;
    Clock::time_point deadline;
    std::uint64_t secret = 0;
    Contender& reference;
    Contender& candidate;
    Contender* opponent = nullptr;
    CallTimer& timer;
    BlockWatch* watch = nullptr;  ///< null when nothing is timed
};

/// Checks and times one shape: a workload of the request or a hidden one. [device]
class WorkloadRun {
  public:
    /// `position` is that in `build_of_workload`. All are kept by reference.
    WorkloadRun(const Job& job, const Workload& workload, std::size_t position,
                WorkloadResult& result);

    /// @throws Verdict, ExcludedShape; Error, DriverError when it is not the candidate's fault
    void prepare();
    /// Runs the depth's trials, until one is wrong. @throws as `prepare`
    void check();
    /// Times and judges what was timed. @returns a sentence when there is no trustworthy time. On
    /// an emulated device nothing is called: the time is a static cost of the launches.
    [[nodiscard]] std::string time(double budget_s);
    /// One sentence on what is wrong so far; empty when nothing is.
    [[nodiscard]] std::string wrong() const;
    /// The device around the timed blocks; nothing when none was timed.
    [[nodiscard]] const std::optional<DeviceState>& device_state() const { return device_state_; }

  private:
    /// The inputs of a call.
    struct InputSet {
        referee::Distribution distribution = referee::Distribution::natural;
        std::uint64_t seed = 0;
    };
    struct Side {
        Program* program = nullptr;
        WorkspaceSet workspaces;
        Alignments alignments;
        bool judged = true;
    };
    enum class Purpose { check, timing };

    template <class F>
    void trusted(const char* who, F&& f);
    template <class F>
    void enqueuing(F&& f);
    [[nodiscard]] std::uint64_t seed_of(std::uint64_t trial) const;
    [[nodiscard]] std::vector<InputSet> timed_sets(std::uint64_t attempt) const;
    [[nodiscard]] std::size_t set_of_pair(std::uint64_t order, std::uint64_t pair) const;
    [[nodiscard]] bool scrubs() const;
    void call(Side& side, const InputSet& inputs, Purpose purpose);
    void set_up(Side& side, const InputSet& inputs);
    template <class F>
    void checked(Side& side, Bench::Which which, F&& f);
    [[noreturn]] void crashed(CUresult result) const;
    [[noreturn]] void refuse(const emulator::Report& report) const;
    [[noreturn]] void hung() const;
    void await_call();
    void run_reference(const InputSet& inputs);
    void make_least_aligned();
    void make_opponent();
    void time_prepare();
    void model_times();
    struct WarmUp {
        double call_s = 0.0;  ///< wall time of a call and what comes before it
        double span_s = 0.0;  ///< of the last call alone
    };
    [[nodiscard]] WarmUp warm_up();
    std::string time_block(int quads, std::uint64_t attempt, Journal& journal);
    std::string run_block(int quads, std::uint64_t attempt, Journal& journal);
    void move_code(int round);
    std::string read_times(const std::vector<bool>& by_opponent,
                           const std::vector<std::size_t>& sets);
    std::string summarize(const std::vector<CallSpan>& spans, const std::vector<bool>& by_opponent,
                          const std::vector<std::size_t>& sets);
    void set_launch_means(const std::vector<CallSpan>& spans, const std::vector<bool>& by_opponent);
    void judge_timed(std::uint64_t attempt, Journal& journal);

    const Job& job_;
    const Workload& workload_;
    std::size_t position_;
    WorkloadResult& result_;
    std::unique_ptr<Program> candidate_;
    std::unique_ptr<Program> reference_;
    std::unique_ptr<Program> opponent_;
    std::unique_ptr<Program> least_aligned_;  ///< null when `//@valid` asks no alignment
    std::string kernels_;
    std::optional<Bench> bench_;
    OutputSet outputs_;
    OutputSet expected_;
    WorkspaceSet reference_workspaces_;
    Side own_;
    Side other_;
    Side least_;  ///< the candidate with tensors where they are aligned least
    std::optional<DeviceState> device_state_;
    // Where tensors lie in a call follows from its number: each side has numbers of its own, so
    // that any four calls of the candidate see both guards.
    std::uint64_t own_calls_ = 0;
    std::uint64_t other_calls_ = std::uint64_t{1} << 40U;
    std::uint64_t reference_calls_ = std::uint64_t{1} << 41U;
    std::uint64_t timed_set_count_ = 4;  ///< a multiple of the number of distributions
    double reference_s_ = 0.0;           ///< of one call of the reference, with its inputs
    const Side* running_ = nullptr;      ///< whose call was enqueued last
};

/// How far the times of one thing are apart: 90th over 10th percentile, after each time was divided
/// by the median of its kind of inputs (what a kernel takes may depend on the data). `set[i]` below
/// the number of sets; sets of fewer than three times are left out; 1 when nothing is left.
[[nodiscard]] double spread_of(const std::vector<double>& seconds,
                               const std::vector<std::size_t>& sets);

}  // namespace kernelforge::worker
