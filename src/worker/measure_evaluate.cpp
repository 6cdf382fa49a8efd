// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_evaluate.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <optional>

#include "referee/comparison.hpp"
#include "referee/distributions.hpp"
#include "referee/statistics.hpp"
#include "worker/measure_bench.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::uint64_t screen_trials = 4;
constexpr std::uint64_t promotion_trials = 12;
constexpr int warm_up_calls = 2;
constexpr double screen_budget_s = 2.0;
constexpr double promotion_budget_s = 10.0;
/// Of the time that is left, what timing may take: the rest is for the checks after it.
constexpr double timing_share = 0.6;
/// A distribution this wide (90th over 10th percentile) is no time of one thing.
constexpr double widest_spread = 2.0;
/// Keeps `Clock::now() + limit` far from overflow.
constexpr std::chrono::hours longest_limit{24 * 30};
constexpr std::size_t rotated_bytes = std::size_t{2} << 30;

std::uint64_t secret_seed() {
    std::uint64_t seed = 0;
    if (::getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
        throw Error(ErrorCode::io, "getrandom gave no random seed");
    }
    return seed;
}

/// A candidate with its plan and the builds that were loaded so far.
class Contender {
  public:
    Contender(Device& device, const CompiledCandidate& compiled, const Task& task, std::string name)
        : device_(device), compiled_(compiled), name_(std::move(name)) {
        try {
            plan_ = plan::parse_plan(compiled.candidate.source, name_ + ".cu", task.definition);
        } catch (const Error& error) {
            throw Verdict(EvaluationStatus::plan_error, error.what());
        }
    }

    /// Its program for the request's workload at `position`.
    [[nodiscard]] std::unique_ptr<Program> program(const Task& task, const Workload& workload,
                                                   std::size_t position) {
        const std::size_t index = compiled_.build_of_workload[position];
        std::unique_ptr<LoadedBuild>& build = builds_[index];
        if (build == nullptr) {
            build = std::make_unique<LoadedBuild>(device_, compiled_.builds[index]);
        }
        return std::make_unique<Program>(device_, *build, plan_, task, workload,
                                         compiled_.candidate.bindings);
    }

  private:
    Device& device_;
    const CompiledCandidate& compiled_;
    std::string name_;
    plan::Plan plan_;
    std::map<std::size_t, std::unique_ptr<LoadedBuild>> builds_;
};

/// One side of a comparison in time.
struct Side {
    Program* program = nullptr;
    WorkspaceSet workspaces;
};

/// What is the same for all workloads of a request.
struct Job {
    Device& device;
    const EvaluationRequest& request;
    Clock::time_point started;
    Clock::time_point deadline;
    std::uint64_t secret;
    Contender& reference;
    Contender& candidate;
    Contender* opponent;
    CallTimer& timer;
    const LastWord& last_word;
};

std::string kernels_of(Program& program) {
    std::vector<std::string> names;
    for (const LaunchFacts& launch : program.launch_facts()) {
        if (std::find(names.begin(), names.end(), launch.kernel) == names.end()) {
            names.push_back(launch.kernel);
        }
    }
    if (names.size() == 1) return "kernel " + names.front();
    return fmt::format("one of the kernels {}", fmt::join(names, ", "));
}

/// Checks and times one workload. The steps are methods so that each fits on a screen.
class WorkloadRun {
  public:
    WorkloadRun(Job& job, std::size_t position, WorkloadResult& result)
        : job_(job),
          position_(position),
          workload_(job.request.task->workloads[job.request.workloads[position]]),
          result_(result) {}

    void prepare() {
        const Task& task = *job_.request.task;
        candidate_ = job_.candidate.program(task, workload_, position_);
        result_.launches = candidate_->launch_facts();
        kernels_ = kernels_of(*candidate_);
        trusted("the reference", [&] {
            reference_ = job_.reference.program(task, workload_, position_);
            bench_.emplace(job_.device, task, workload_);
            expected_ = bench_->make_outputs();
            reference_workspaces_ = bench_->make_workspaces(*reference_);
            bench_->describe_buffers(*reference_);
        });
        bench_->describe_buffers(*candidate_);
        sets_.push_back(bench_->make_outputs());
        own_.program = candidate_.get();
        own_.workspaces = bench_->make_workspaces(*candidate_);
    }

    void check() {
        const std::uint64_t trials =
            job_.request.depth == EvaluationDepth::promotion ? promotion_trials : screen_trials;
        for (std::uint64_t trial = 0; trial < trials; ++trial) {
            const referee::Distribution distribution =
                referee::distribution_of_trial(job_.secret, trial);
            const std::uint64_t seed = trial_seed(trial);
            // The first two trials lie against either guard, the others anywhere near the end.
            const std::uint64_t placement = trial < 2 ? trial : seed | 2U;
            bench_->fill_inputs(distribution, seed, placement, job_.deadline);
            bench_->move_outputs(sets_[0], placement);
            bench_->move_workspaces(*candidate_, own_.workspaces, placement);
            bench_->zero_selfzero(*candidate_, own_.workspaces);
            call(own_, sets_[0], nullptr);
            await_candidate();
            compare(sets_[0], to_string(distribution));
            if (!bench_->describe_wrong(result_.outputs).empty()) return;
        }
    }

    /// @returns a sentence when the right candidate has no trustworthy time
    std::string time(double budget_s) {
        make_opponent();
        make_sets();
        const std::uint64_t trial = promotion_trials + 1;
        bench_->fill_inputs(referee::Distribution::natural, trial_seed(trial), 0, job_.deadline);
        bench_->move_workspaces(*candidate_, own_.workspaces, 0);
        bench_->zero_selfzero(*candidate_, own_.workspaces);
        if (other_.program != nullptr) bench_->zero_selfzero(*other_.program, other_.workspaces);
        // The reference's answers to earlier inputs are no help, but leave nothing to find.
        bench_->prepare(*reference_, expected_, reference_workspaces_);
        const double call_s = warm_up();
        const SampleCount count =
            sample_count(job_.request.depth, call_s, other_.program != nullptr ? 4 : 2, budget_s);
        std::string trouble;
        for (int attempt = 0; attempt < 2; ++attempt) {
            trouble = time_block(count.quads);
            if (trouble.empty()) break;
        }
        check_timed_outputs();
        return trouble;
    }

    [[nodiscard]] std::string wrong() const {
        return bench_ ? bench_->describe_wrong(result_.outputs) : "";
    }

  private:
    /// Runs what must not fail: its failure is not the candidate's.
    template <class F>
    void trusted(const char* who, F&& f) {
        try {
            f();
        } catch (const Verdict& verdict) {
            throw Verdict(EvaluationStatus::evaluator_failed,
                          fmt::format("{}: {}", who, verdict.what()));
        }
    }

    [[nodiscard]] std::uint64_t trial_seed(std::uint64_t trial) const {
        const std::uint64_t workload = job_.request.workloads[position_];
        return referee::seed_of_trial(referee::seed_of_trial(job_.secret, workload), trial);
    }

    /// Enqueues one call with all that comes before it. A fault that shows here is that of a kernel
    /// that was enqueued before, by this call or an earlier one.
    void call(Side& side, const OutputSet& outputs, CallTimer* timer) {
        try {
            side.program->restore_globals();
            bench_->prepare(*side.program, outputs, side.workspaces);
            if (timer != nullptr) {
                job_.device.flush();
                timer->before_call();
            }
            side.program->enqueue(bench_->addresses(*side.program, outputs, side.workspaces),
                                  timer);
            if (timer != nullptr) timer->after_call();
            if (&side == &own_) bench_->count_selfzero(*side.program, side.workspaces);
        } catch (const DriverError& error) {
            if (is_sticky(error.result())) crashed(error.result());
            throw;
        }
    }

    [[noreturn]] void crashed(CUresult result) const {
        throw Verdict(
            EvaluationStatus::crashed,
            fmt::format("{} failed: {}", kernels_, job_.device.driver().describe(result)));
    }

    /// Waits; a fault is the candidate's. Synchronising the context also brings out what was
    /// printed.
    void await_candidate() {
        try {
            job_.device.wait(job_.deadline);
            job_.device.driver().check(job_.device.driver().cuCtxSynchronize(), "cuCtxSynchronize");
        } catch (const DriverError& error) {
            crashed(error.result());
        } catch (const DeviceTimeout&) {
            throw Verdict(EvaluationStatus::timed_out,
                          fmt::format("{} did not end within {} ms", kernels_,
                                      job_.request.time_limit.count()));
        }
    }

    /// Runs the reference on the present inputs and compares. Only now do the expected values
    /// exist.
    void compare(const OutputSet& found, std::string_view distribution) {
        run_reference();
        bench_->compare(found, expected_, distribution, result_.outputs, job_.deadline);
    }

    void run_reference() {
        trusted("the reference", [&] {
            reference_->restore_globals();
            bench_->prepare(*reference_, expected_, reference_workspaces_);
            bench_->zero_selfzero(*reference_, reference_workspaces_);
            reference_->enqueue(bench_->addresses(*reference_, expected_, reference_workspaces_),
                                nullptr);
        });
    }

    void make_opponent() {
        if (job_.opponent == nullptr) return;
        try {
            opponent_ = job_.opponent->program(*job_.request.task, workload_, position_);
            bench_->describe_buffers(*opponent_);
            other_.workspaces = bench_->make_workspaces(*opponent_);
            other_.program = opponent_.get();
        } catch (const Verdict& verdict) {
            // A leader may not cover every workload; the candidate is then timed alone.
            result_.message = fmt::format("not paired, the opponent: {}", verdict.what());
        }
    }

    void make_sets() {
        const std::size_t bytes = std::max<std::size_t>(bench_->output_bytes(), 1);
        const std::size_t wanted = std::clamp<std::size_t>(rotated_bytes / bytes, 2, 4);
        try {
            while (sets_.size() < wanted) sets_.push_back(bench_->make_outputs());
        } catch (const DriverError& error) {
            if (error.result() != CUDA_ERROR_OUT_OF_MEMORY) throw;
        }
        for (OutputSet& set : sets_) bench_->move_outputs(set, 0);
    }

    /// Brings clocks and caches of code up; gives the wall time of one call.
    double warm_up() {
        job_.device.wait(job_.deadline);
        const Clock::time_point started = Clock::now();
        int calls = 0;
        job_.timer.begin();
        for (int i = 0; i < warm_up_calls; ++i) {
            for (Side* side : {&own_, &other_}) {
                if (side->program == nullptr) continue;
                call(*side, sets_[static_cast<std::size_t>(i) % sets_.size()], &job_.timer);
                ++calls;
            }
        }
        await_candidate();
        return std::chrono::duration<double>(Clock::now() - started).count() / calls;
    }

    /// One timed block; fills the result's timings. @returns what is wrong with it, if anything
    std::string time_block(int quads) {
        std::vector<bool> by_opponent;
        last_writer_.assign(sets_.size(), false);
        job_.device.driver().check(job_.device.driver().cuCtxResetPersistingL2Cache(),
                                   "cuCtxResetPersistingL2Cache");
        job_.timer.begin();
        for (int quad = 0; quad < quads; ++quad) {
            const bool first =
                referee::candidate_first(job_.request.seed, static_cast<std::uint64_t>(quad));
            for (const bool opponent : {!first, first, first, !first}) {
                if (opponent && other_.program == nullptr) continue;
                const std::size_t set = by_opponent.size() % sets_.size();
                last_writer_[set] = !opponent;
                call(opponent ? other_ : own_, sets_[set], &job_.timer);
                by_opponent.push_back(opponent);
            }
        }
        await_candidate();
        std::vector<CallSpan> spans;
        try {
            spans = job_.timer.finish(job_.deadline);
        } catch (const DriverError&) {
            throw;
        } catch (const DeviceTimeout&) {
            throw;
        } catch (const Error& error) {
            return error.what();
        }
        return summarize(spans, by_opponent);
    }

    std::string summarize(const std::vector<CallSpan>& spans,
                          const std::vector<bool>& by_opponent) {
        std::vector<double> own;
        std::vector<double> other;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            (by_opponent[i] ? other : own).push_back(spans[i].total_s);
        }
        result_.timing = referee::summarize(own, job_.timer.clock());
        set_launch_means(spans, by_opponent);
        if (!other.empty()) {
            result_.opponent_timing = referee::summarize(other, job_.timer.clock());
            std::vector<referee::Quad> quads(own.size() / 2);
            for (std::size_t i = 0; i < own.size(); ++i) {
                quads[i / 2].candidate_s[i % 2] = own[i];
                quads[i / 2].opponent_s[i % 2] = other[i];
            }
            result_.paired = referee::paired_ratio(quads, job_.request.seed);
        }
        if (result_.timing->p90_s > widest_spread * result_.timing->p10_s) {
            return fmt::format("its times spread from {:.2f} to {:.2f} us",
                               result_.timing->p10_s * 1e6, result_.timing->p90_s * 1e6);
        }
        return "";
    }

    void set_launch_means(const std::vector<CallSpan>& spans,
                          const std::vector<bool>& by_opponent) {
        const std::vector<std::size_t> steps = candidate_->launch_steps();
        for (std::size_t launch = 0; launch < steps.size(); ++launch) {
            std::vector<double> seconds;
            for (std::size_t i = 0; i < spans.size(); ++i) {
                if (!by_opponent[i] && steps[launch] < spans[i].step_s.size()) {
                    seconds.push_back(spans[i].step_s[steps[launch]]);
                }
            }
            if (!seconds.empty()) {
                result_.launches[launch].mean_s = referee::trimmed_mean(seconds);
            }
        }
    }

    /// What the last timed calls wrote must be right too.
    void check_timed_outputs() {
        run_reference();
        for (std::size_t i = 0; i < sets_.size(); ++i) {
            if (!last_writer_[i]) continue;
            bench_->compare(sets_[i], expected_, "timed", result_.outputs, job_.deadline);
        }
    }

    Job& job_;
    std::size_t position_;
    const Workload& workload_;
    WorkloadResult& result_;
    std::unique_ptr<Program> candidate_;
    std::unique_ptr<Program> reference_;
    std::unique_ptr<Program> opponent_;
    std::string kernels_;
    std::optional<Bench> bench_;
    OutputSet expected_;
    WorkspaceSet reference_workspaces_;
    std::vector<OutputSet> sets_;
    std::vector<bool> last_writer_;  ///< of each set: was it the candidate
    Side own_;
    Side other_;
};

void check_compiled(const CompiledCandidate& compiled, std::size_t workloads, const char* who) {
    const auto contradicts = [&](const std::string& what) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("evaluation request: {}: {}", who, what));
    };
    if (compiled.build_of_workload.size() != workloads) {
        contradicts(fmt::format("build_of_workload has {} entries for {} workloads",
                                compiled.build_of_workload.size(), workloads));
    }
    for (const std::size_t build : compiled.build_of_workload) {
        if (build >= compiled.builds.size()) {
            contradicts(
                fmt::format("there is no build {} among {}", build, compiled.builds.size()));
        }
    }
}

void check_request(const EvaluationRequest& request) {
    if (request.task == nullptr || request.workloads.empty()) {
        throw Error(ErrorCode::invalid_argument, "evaluation request: no task or no workload");
    }
    for (const std::size_t workload : request.workloads) {
        if (workload >= request.task->workloads.size()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("evaluation request: there is no workload {} among {}",
                                    workload, request.task->workloads.size()));
        }
    }
    check_compiled(request.candidate, request.workloads.size(), "candidate");
    check_compiled(request.reference, request.workloads.size(), "reference");
    if (request.opponent) {
        check_compiled(*request.opponent, request.workloads.size(), "opponent");
    }
}

/// Which outcome leaves the device unusable by this process, from what ended a workload.
bool is_lost(EvaluationStatus status) {
    return status == EvaluationStatus::crashed || status == EvaluationStatus::timed_out;
}

/// Checks and times; fills `result`. @returns when checking ended
Clock::time_point judge_workload(WorkloadRun& run, const Job& job, std::size_t position, bool timed,
                                 WorkloadResult& result) {
    run.prepare();
    run.check();
    const Clock::time_point checked = Clock::now();
    std::string trouble;
    if (timed && run.wrong().empty()) {
        const double left_s = std::chrono::duration<double>(job.deadline - checked).count() *
                              timing_share /
                              static_cast<double>(job.request.workloads.size() - position);
        const bool promotion = job.request.depth == EvaluationDepth::promotion;
        trouble = run.time(std::min(left_s, promotion ? promotion_budget_s : screen_budget_s));
    }
    if (!run.wrong().empty()) {
        result.status = EvaluationStatus::wrong_result;
        result.message = run.wrong();
    } else if (!trouble.empty()) {
        result.status = EvaluationStatus::unstable;
        result.message = trouble;
    }
    return checked;
}

void run_workload(Job& job, std::size_t position, bool timed, Evaluation& evaluation) {
    const Clock::time_point started = Clock::now();
    Clock::time_point checked = started;
    WorkloadResult& result = evaluation.workloads.emplace_back();
    result.workload = job.request.workloads[position];
    WorkloadRun run(job, position, result);
    const auto fail = [&](EvaluationStatus status, const std::string& message, bool lost) {
        result.status = status;
        result.message = message;
        if (!lost) return;
        summarize_workloads(*job.request.task, evaluation);
        evaluation.total_time = Clock::now() - job.started;
        job.last_word(evaluation, status);
    };
    try {
        checked = judge_workload(run, job, position, timed, result);
    } catch (const Verdict& verdict) {
        fail(verdict.status(), verdict.what(), is_lost(verdict.status()));
    } catch (const DeviceTimeout&) {
        fail(EvaluationStatus::timed_out,
             fmt::format("the evaluation did not fit in its time limit of {} ms",
                         job.request.time_limit.count()),
             true);
    } catch (const DriverError& error) {
        fail(EvaluationStatus::evaluator_failed, error.what(), is_sticky(error.result()));
    } catch (const Error& error) {
        fail(EvaluationStatus::evaluator_failed, error.what(), false);
    }
    if (checked == started) checked = Clock::now();
    evaluation.check_time += checked - started;
    evaluation.timing_time += Clock::now() - checked;
}

void run_workloads(Job& job, Evaluation& evaluation) {
    const EvaluationRequest& request = job.request;
    const Nvml::Reading before = job.device.read_state();
    bool timed = request.depth != EvaluationDepth::check;
    evaluation.workloads.reserve(request.workloads.size());
    for (std::size_t position = 0; position < request.workloads.size(); ++position) {
        run_workload(job, position, timed, evaluation);
        // Times of a candidate that is wrong anywhere are of no use.
        if (evaluation.workloads.back().status != EvaluationStatus::ok) timed = false;
    }
    evaluation.device_state = device_state(before, job.device.read_state());
}

}  // namespace

void summarize_workloads(const Task& task, Evaluation& evaluation) {
    evaluation.status = EvaluationStatus::ok;
    evaluation.message.clear();
    for (const WorkloadResult& result : evaluation.workloads) {
        if (result.status == EvaluationStatus::ok) continue;
        evaluation.status = result.status;
        evaluation.message = fmt::format(
            "on {}: {}", describe_axes(task.workloads[result.workload]), result.message);
        return;
    }
}

Evaluation evaluate(Device& device, const EvaluationRequest& request, const LastWord& last_word) {
    check_request(request);
    const Clock::time_point started = Clock::now();
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.device = device.info().name;
    evaluation.evaluator = "cuda";
    try {
        CallTimer timer(device);
        std::optional<Contender> reference;
        try {
            reference.emplace(device, request.reference, *request.task, "reference");
        } catch (const Verdict& verdict) {
            throw Verdict(EvaluationStatus::evaluator_failed,
                          fmt::format("the reference: {}", verdict.what()));
        }
        Contender candidate(device, request.candidate, *request.task, "candidate");
        std::optional<Contender> opponent;
        if (request.opponent) {
            opponent.emplace(device, *request.opponent, *request.task, "opponent");
        }
        const auto limit = std::min<std::chrono::milliseconds>(request.time_limit, longest_limit);
        Job job{device,        request,    started,   started + limit,
                secret_seed(), *reference, candidate, opponent ? &*opponent : nullptr,
                timer,         last_word};
        run_workloads(job, evaluation);
        summarize_workloads(*request.task, evaluation);
    } catch (const Verdict& verdict) {
        evaluation.status = verdict.status();
        evaluation.message = verdict.what();
    }
    evaluation.total_time = Clock::now() - started;
    return evaluation;
}

}  // namespace kernelforge::worker
