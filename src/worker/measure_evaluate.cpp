// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_evaluate.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <optional>

#include "worker/measure_admission.hpp"
#include "worker/measure_workload.hpp"

namespace kernelforge::worker {

namespace {

constexpr double screen_budget_s = 2.0;
constexpr double promotion_budget_s = 10.0;
/// Of the time that is left, what timing may take: the rest is for the checks after it.
constexpr double timing_share = 0.6;
/// Keeps `Clock::now() + limit` far from overflow.
constexpr std::chrono::hours longest_limit{24 * 30};

std::uint64_t secret_seed() {
    std::uint64_t seed = 0;
    if (::getrandom(&seed, sizeof(seed), 0) != static_cast<ssize_t>(sizeof(seed))) {
        throw Error(ErrorCode::io, "getrandom gave no random seed");
    }
    return seed;
}

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
    if (request.task == nullptr || (request.workloads.empty() && request.hidden.empty())) {
        throw Error(ErrorCode::invalid_argument, "evaluation request: no task or no workload");
    }
    for (const std::size_t workload : request.workloads) {
        if (workload >= request.task->workloads.size()) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("evaluation request: there is no workload {} among {}",
                                    workload, request.task->workloads.size()));
        }
    }
    const std::size_t shapes = request.workloads.size() + request.hidden.size();
    check_compiled(request.candidate, shapes, "candidate");
    check_compiled(request.reference, shapes, "reference");
    if (request.opponent) check_compiled(*request.opponent, shapes, "opponent");
}

/// Which outcome leaves the device unusable by this process, from what ended a shape.
bool is_lost(EvaluationStatus status) {
    return status == EvaluationStatus::crashed || status == EvaluationStatus::timed_out;
}

bool is_timed(EvaluationDepth depth) {
    return depth == EvaluationDepth::screen || depth == EvaluationDepth::promotion ||
           depth == EvaluationDepth::admission;
}

/// One request on its way: the shapes in order, and the verdict as far as it is known.
class Judging {
  public:
    Judging(const Job& job, Clock::time_point started, const LastWord& last_word,
            Evaluation& evaluation)
        : job_(job),
          request_(job.request),
          started_(started),
          last_word_(last_word),
          evaluation_(evaluation) {}

    void run() {
        const Nvml::Reading before = job_.device.read_state();
        bool timed = is_timed(request_.depth);
        for (std::size_t position = 0; position < request_.workloads.size(); ++position) {
            WorkloadResult& result = evaluation_.workloads.emplace_back();
            result.workload = request_.workloads[position];
            run_shape(request_.task->workloads[result.workload], position, timed, result);
            // Times of a candidate that is wrong anywhere are of no use.
            if (result.status != EvaluationStatus::ok) timed = false;
        }
        for (std::size_t hidden = 0; hidden < request_.hidden.size(); ++hidden) {
            run_hidden(hidden);
        }
        evaluation_.device_state =
            block_state_ ? *block_state_ : device_state(before, job_.device.read_state());
    }

  private:
    /// Checked like a workload, never timed; not run where the candidate does not claim the shape.
    void run_hidden(std::size_t hidden) {
        evaluation_.hidden.emplace_back().hidden = hidden;
        WorkloadResult result;
        refused_ = false;
        run_shape(request_.hidden[hidden], request_.workloads.size() + hidden, false, result);
        store_hidden(result);
    }

    void store_hidden(WorkloadResult& result) {
        HiddenResult& kept = evaluation_.hidden.back();
        kept.refused = refused_;
        kept.status = result.status;
        kept.message = result.message;
        kept.outputs = std::move(result.outputs);
    }

    [[nodiscard]] bool is_hidden(std::size_t position) const {
        return position >= request_.workloads.size();
    }

    void run_shape(const Workload& workload, std::size_t position, bool timed,
                   WorkloadResult& result) {
        const Clock::time_point started = Clock::now();
        Clock::time_point checked = started;
        WorkloadRun run(job_, workload, position, result);
        const auto fail = [&](EvaluationStatus status, const std::string& message, bool lost) {
            result.status = status;
            result.message = message;
            drop_times(result);
            // An emulated device works again.
            if (lost && job_.device.emulated() == nullptr) end_now(position, result);
        };
        try {
            judge(run, position, timed, result, checked);
        } catch (const ExcludedShape& excluded) {
            refused_ = is_hidden(position);
            if (!refused_) fail(excluded.status(), excluded.what(), false);
        } catch (const Rejected& rejected) {
            fail(rejected.status(), rejected.what(), false);
            if (evaluation_.rule.empty()) evaluation_.rule = rejected.rule();
        } catch (const Verdict& verdict) {
            fail(verdict.status(), verdict.what(), is_lost(verdict.status()));
        } catch (const DeviceTimeout&) {
            fail(EvaluationStatus::timed_out,
                 fmt::format("the evaluation did not fit in its time limit of {} ms",
                             request_.time_limit.count()),
                 true);
        } catch (const DriverError& error) {
            const std::string why = job_.device.explain(error);
            const bool late = job_.device.emulated() != nullptr && Clock::now() >= job_.deadline;
            fail(late ? EvaluationStatus::timed_out : EvaluationStatus::evaluator_failed,
                 late ? fmt::format("the evaluation did not fit in its time limit of {} ms: {}",
                                    request_.time_limit.count(), why)
                      : why,
                 is_sticky(error.result()));
        } catch (const Error& error) {
            fail(EvaluationStatus::evaluator_failed, error.what(), false);
        }
        drop_times(result);
        if (run.device_state()) {
            block_state_ =
                block_state_ ? merge(*block_state_, *run.device_state()) : *run.device_state();
        }
        if (checked == started) checked = Clock::now();
        evaluation_.check_time += checked - started;
        evaluation_.timing_time += Clock::now() - checked;
    }

    /// Times of what is wrong never count, so there are none.
    static void drop_times(WorkloadResult& result) {
        if (result.status == EvaluationStatus::ok || result.status == EvaluationStatus::unstable) {
            return;
        }
        result.timing.reset();
        result.opponent_timing.reset();
        result.paired.reset();
        result.prepare_s.reset();
        for (LaunchFacts& launch : result.launches) launch.mean_s.reset();
    }

    void judge(WorkloadRun& run, std::size_t position, bool timed, WorkloadResult& result,
               Clock::time_point& checked) {
        run.prepare();
        run.check();
        checked = Clock::now();
        std::string trouble;
        if (timed && run.wrong().empty()) trouble = run.time(budget_s(position, checked));
        if (!run.wrong().empty()) {
            result.status = EvaluationStatus::wrong_result;
            result.message = run.wrong();
        } else if (!trouble.empty()) {
            result.status = EvaluationStatus::unstable;
            result.message = trouble;
        }
    }

    [[nodiscard]] double budget_s(std::size_t position, Clock::time_point now) const {
        const std::size_t shapes = request_.workloads.size() - position;
        const double left_s = std::chrono::duration<double>(job_.deadline - now).count() *
                              timing_share / static_cast<double>(shapes);
        const bool promotion = request_.depth == EvaluationDepth::promotion;
        return std::min(left_s, promotion ? promotion_budget_s : screen_budget_s);
    }

    /// The device is lost to this process: says what is known and does not come back.
    void end_now(std::size_t position, WorkloadResult& result) {
        const EvaluationStatus status = result.status;
        if (is_hidden(position)) store_hidden(result);
        summarize_workloads(*request_.task, evaluation_, request_.hidden);
        evaluation_.total_time = Clock::now() - started_;
        last_word_(evaluation_, status);
    }

    const Job& job_;
    const EvaluationRequest& request_;
    Clock::time_point started_;
    const LastWord& last_word_;
    Evaluation& evaluation_;
    std::optional<DeviceState> block_state_;  ///< around the timed blocks
    bool refused_ = false;                    ///< the hidden shape that ran last
};

void judge_request(Device& device, const EvaluationRequest& request, Clock::time_point started,
                   const LastWord& last_word, Evaluation& evaluation) {
    const Task& task = *request.task;
    refuse_large_globals(request.candidate);
    CallTimer timer(device);
    std::optional<BlockWatch> watch;
    if (is_timed(request.depth) && device.emulated() == nullptr) watch.emplace(device);
    std::optional<Contender> reference;
    try {
        reference.emplace(device, request.reference, task, "reference");
    } catch (const Verdict& verdict) {
        throw Verdict(EvaluationStatus::evaluator_failed,
                      fmt::format("the reference: {}", verdict.what()));
    }
    Contender candidate(device, request.candidate, task, "candidate");
    std::optional<Contender> opponent;
    if (request.opponent) opponent.emplace(device, *request.opponent, task, "opponent");
    const auto limit = std::min<std::chrono::milliseconds>(request.time_limit, longest_limit);
    const Job job{device,
                  request,
                  started + limit,
                  secret_seed(),
                  *reference,
                  candidate,
                  opponent ? &*opponent : nullptr,
                  timer,
                  watch ? &*watch : nullptr};
    if (device.emulated() != nullptr) device.emulated()->set_deadline(job.deadline);
    Judging(job, started, last_word, evaluation).run();
    summarize_workloads(task, evaluation, request.hidden);
    check_admission(device, request, job.deadline, evaluation);
}

}  // namespace

void summarize_workloads(const Task& task, Evaluation& evaluation,
                         std::span<const Workload> hidden) {
    evaluation.status = EvaluationStatus::ok;
    evaluation.message.clear();
    const std::string rule = std::exchange(evaluation.rule, {});
    const auto fails = [&](EvaluationStatus status, const std::string& where,
                           const std::string& message) {
        if (status == EvaluationStatus::ok) return false;
        evaluation.status = status;
        evaluation.message = fmt::format("on {}: {}", where, message);
        if (status == EvaluationStatus::rejected) evaluation.rule = rule;
        return true;
    };
    for (const WorkloadResult& result : evaluation.workloads) {
        if (fails(result.status, describe_axes(task.workloads[result.workload]), result.message)) {
            return;
        }
    }
    for (const HiddenResult& result : evaluation.hidden) {
        if (fails(result.status, "hidden " + describe_axes(hidden[result.hidden]),
                  result.message)) {
            return;
        }
    }
}

Evaluation evaluate(Device& device, const EvaluationRequest& request, const LastWord& last_word) {
    check_request(request);
    const Clock::time_point started = Clock::now();
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.device = device.info().name;
    evaluation.evaluator = device.emulated() != nullptr ? "emulator" : "cuda";
    try {
        judge_request(device, request, started, last_word, evaluation);
    } catch (const Rejected& rejected) {
        evaluation.status = rejected.status();
        evaluation.message = rejected.what();
        evaluation.rule = rejected.rule();
    } catch (const Verdict& verdict) {
        evaluation.status = verdict.status();
        evaluation.message = verdict.what();
    }
    evaluation.total_time = Clock::now() - started;
    return evaluation;
}

}  // namespace kernelforge::worker
