// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "referee/comparison.hpp"
#include "referee/distributions.hpp"
#include "referee/statistics.hpp"
#include "worker/compile_cubin.hpp"
#include "worker/static_cost.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::uint64_t screen_trials = 4;
constexpr std::uint64_t promotion_trials = 12;
constexpr std::uint64_t sanitize_trials = 1;
constexpr std::uint64_t least_timed_sets = 4;
/// Of a workload's time budget, what the reference may take to judge the timed sets of inputs.
constexpr double reference_share = 0.1;
/// Trials from multiples of this on are the sets of timed blocks: one range for each attempt, then
/// the warm-up's. More than a block has pairs.
constexpr std::uint64_t first_timed_trial = 1024;
constexpr std::uint64_t attempts = 2;
constexpr int warm_up_calls = 2;
/// How often a promotion's block lays the code of both sides anew; even, so that each side is as
/// often loaded first.
constexpr int code_placements = 4;
constexpr std::size_t usual_alignment = 256;
/// A distribution this wide (90th over 10th percentile) is no time of one thing.
constexpr double widest_spread = 2.0;
/// Semaphores, counters and small tables; clearing this much costs a kernel next to nothing. The
/// headers of libcu++ alone, which cooperative groups include, bring 6 KB.
constexpr std::uint64_t most_global_bytes = 16384;

// Different secrets from one, by the streams of `seed_of_trial`.
constexpr std::uint64_t stream_places = 0x706c61636573ULL;
constexpr std::uint64_t stream_journal = 0x6a6f75726e616cULL;
constexpr std::uint64_t stream_sets = 0x73657473ULL;

/// By how its launches look, where no time can be measured.
Timing modelled_timing(const DeviceInfo& device, Program& program) {
    const double seconds = static_cost_s(device, program.launch_facts(), program.kernel_facts());
    Timing timing;
    timing.median_s = timing.trimmed_mean_s = timing.p10_s = timing.p90_s = seconds;
    timing.provenance = Provenance::modelled_static;
    timing.clock = to_string(timing.provenance);
    return timing;
}

std::uint64_t trials_of(EvaluationDepth depth) {
    switch (depth) {
        case EvaluationDepth::promotion:
            return promotion_trials;
        case EvaluationDepth::sanitize:
            return sanitize_trials;
        default:
            return screen_trials;
    }
}

std::string kernels_of(Program& program) {
    std::vector<std::string> names;
    for (const LaunchFacts& launch : program.launch_facts()) {
        if (std::find(names.begin(), names.end(), launch.kernel) == names.end()) {
            names.push_back(launch.kernel);
        }
    }
    if (names.empty()) return "its library steps";
    if (names.size() == 1) return "kernel " + names.front();
    return fmt::format("one of the kernels {}", fmt::join(names, ", "));
}

/// Whether a library step reads or writes it: those need the usual alignment, whatever `//@valid`
/// would accept for the kernels.
bool is_operand(const plan::Plan& plan, const std::string& tensor) {
    const auto in = [&](const std::vector<plan::Step>& steps) {
        return std::any_of(steps.begin(), steps.end(), [&](const plan::Step& step) {
            const auto* call = std::get_if<plan::Call>(&step);
            return call != nullptr &&
                   std::any_of(call->arguments.begin(), call->arguments.end(),
                               [&](const plan::CallArgument& argument) {
                                   return argument.kind == plan::CallArgument::Kind::buffer &&
                                          argument.name == tensor;
                               });
        });
    };
    return in(plan.steps) || std::any_of(plan.cases.begin(), plan.cases.end(),
                                         [&](const plan::Case& each) { return in(each.steps); });
}

}  // namespace

Contender::Contender(Device& device, const CompiledCandidate& compiled, const Task& task,
                     std::string name)
    : device_(device), compiled_(compiled) {
    try {
        plan_ = plan::parse_plan(compiled.candidate.source, std::move(name) + ".cu",
                                 task.definition, task.constant_inputs);
    } catch (const Error& error) {
        throw Verdict(EvaluationStatus::plan_error, error.what());
    }
}

std::unique_ptr<Program> Contender::program(const Task& task, const Workload& workload,
                                            std::size_t position, const Alignments& alignments) {
    const std::size_t index = compiled_.build_of_workload[position];
    std::unique_ptr<LoadedBuild>& build = builds_[index];
    if (build == nullptr) {
        build = std::make_unique<LoadedBuild>(device_, compiled_.builds[index]);
    }
    return std::make_unique<Program>(
        device_, *build, plan_, task, workload, compiled_.candidate.bindings, alignments,
        device_.emulated() == nullptr ? &device_.libraries() : nullptr);
}

Alignments Contender::least_alignments(const Task& task, const Workload& workload) const {
    plan::Environment environment;
    environment.axes = axis_values(task.definition, workload);
    environment.scalars = workload.scalars;
    environment.bindings = compiled_.candidate.bindings;
    environment.device = device_.info();
    for (const auto* tensors : {&task.definition.inputs, &task.definition.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            if (tensor.scalar) continue;
            environment.tensors[tensor.name] = {shape_of(tensor, environment.axes), 0,
                                                tensor.dtype};
        }
    }
    Alignments least;
    for (const auto& [name, facts] : environment.tensors) {
        const std::optional<std::int64_t> demanded =
            plan::demanded_alignment(plan_, environment, name);
        if (!demanded || is_operand(plan_, name)) continue;
        const std::size_t bytes =
            std::max(static_cast<std::size_t>(*demanded), referee::element_bytes(facts.dtype));
        if (bytes < usual_alignment) least[name] = bytes;
    }
    return least;
}

void refuse_large_globals(const CompiledCandidate& candidate) {
    for (const CompileResult& build : candidate.builds) {
        if (build.writable_globals.empty() || build.cubin.empty()) continue;
        std::uint64_t bytes = 0;
        try {
            bytes = compile::read_cubin(build.cubin).global_bytes;
        } catch (const Error&) {
            continue;  // the driver will refuse it with its own reason
        }
        if (bytes <= most_global_bytes) continue;
        throw Rejected(
            "device_globals",
            fmt::format("its __device__ variables take {} bytes, at most {} are allowed, because "
                        "they are restored before every call outside the measured time: use a "
                        "workspace with init=zero or init=selfzero, or __constant__ for a table",
                        bytes, most_global_bytes));
    }
}

WorkloadRun::WorkloadRun(const Job& job, const Workload& workload, std::size_t position,
                         WorkloadResult& result)
    : job_(job), workload_(workload), position_(position), result_(result) {}

void WorkloadRun::prepare() {
    const Task& task = *job_.request.task;
    candidate_ = job_.candidate.program(task, workload_, position_);
    result_.launches = candidate_->launch_facts();
    result_.library_steps = candidate_->library_steps();
    kernels_ = kernels_of(*candidate_);
    if (candidate_->local_bytes() > referee::most_local_bytes) {
        throw Verdict(
            EvaluationStatus::plan_error,
            fmt::format("{} keeps {} bytes on a thread's stack, at most {} can be cleared "
                        "before the next call",
                        kernels_, candidate_->local_bytes(), referee::most_local_bytes));
    }
    trusted("the reference", [&] {
        reference_ = job_.reference.program(task, workload_, position_);
        bench_.emplace(job_.device, task, workload_, seed_of(stream_places));
        expected_ = bench_->make_outputs();
        reference_workspaces_ = bench_->make_workspaces(*reference_);
        bench_->describe_buffers(*reference_);
        outputs_ = bench_->make_outputs();
    });
    bench_->describe_buffers(*candidate_);
    own_.program = candidate_.get();
    own_.workspaces = bench_->make_workspaces(*candidate_);
    make_least_aligned();
}

/// `//@valid` says what it accepts, so it is run on the least of that too.
void WorkloadRun::make_least_aligned() {
    const Task& task = *job_.request.task;
    least_.alignments = job_.candidate.least_alignments(task, workload_);
    if (least_.alignments.empty()) return;
    try {
        least_aligned_ = job_.candidate.program(task, workload_, position_, least_.alignments);
    } catch (const ExcludedShape&) {
        return;  // each alone is accepted, all together are not
    }
    bench_->describe_buffers(*least_aligned_);
    least_.program = least_aligned_.get();
    least_.workspaces = bench_->make_workspaces(*least_aligned_);
}

void WorkloadRun::check() {
    const std::uint64_t trials = trials_of(job_.request.depth);
    for (std::uint64_t trial = 0; trial < trials; ++trial) {
        const InputSet inputs{referee::distribution_of_trial(seed_of(stream_sets), trial),
                              seed_of(trial)};
        const bool least = least_.program != nullptr && trial % 2 == 1;
        call(least ? least_ : own_, inputs, Purpose::check);
        await_call();
        // Only now do the expected values exist.
        const Clock::time_point started = Clock::now();
        run_reference(inputs);
        job_.device.wait(job_.deadline);
        const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
        reference_s_ = trial == 0 ? seconds : std::min(reference_s_, seconds);
        bench_->compare(outputs_, {*reference_, expected_, reference_workspaces_},
                        to_string(inputs.distribution), result_.outputs, job_.deadline);
        if (!wrong().empty()) return;
    }
}

std::string WorkloadRun::time(double budget_s) {
    make_opponent();
    if (job_.device.emulated() != nullptr) {
        model_times();
        return "";
    }
    time_prepare();
    const WarmUp warm = warm_up();
    SampleCount count = sample_count(job_.request.depth, warm.call_s, warm.span_s,
                                     other_.program != nullptr ? 4 : 2, budget_s);
    Journal journal(job_.device, *bench_, seed_of(stream_journal), 2 * count.quads);
    count.quads = std::max(1, std::min(count.quads, journal.calls() / 2));
    // An answer that a candidate kept is of no use on inputs that never come again.
    const double affordable = reference_share * budget_s / std::max(reference_s_, 1e-9);
    const std::uint64_t pairs = 2 * static_cast<std::uint64_t>(count.quads);
    timed_set_count_ = least_timed_sets;
    while (timed_set_count_ < pairs &&
           static_cast<double>(timed_set_count_ + least_timed_sets) <= affordable) {
        timed_set_count_ += least_timed_sets;
    }
    std::string trouble;
    std::uint64_t attempt = 0;
    for (; attempt < attempts; ++attempt) {
        trouble = time_block(count.quads, attempt, journal);
        if (trouble.empty() || attempt + 1 == attempts) break;
    }
    judge_timed(attempt, journal);
    return trouble;
}

void WorkloadRun::model_times() {
    const DeviceInfo& device = job_.device.info();
    result_.timing = modelled_timing(device, *candidate_);
    if (other_.program == nullptr) return;
    result_.opponent_timing = modelled_timing(device, *other_.program);
    PairedRatio paired;
    paired.ratio = result_.opponent_timing->median_s / result_.timing->median_s;
    paired.low = paired.high = paired.ratio;
    result_.paired = paired;
}

std::string WorkloadRun::wrong() const {
    return bench_ ? bench_->describe_wrong(result_.outputs) : "";
}

/// Runs what must not fail: its failure is not the candidate's.
template <class F>
void WorkloadRun::trusted(const char* who, F&& f) {
    try {
        f();
    } catch (const Verdict& verdict) {
        throw Verdict(EvaluationStatus::evaluator_failed,
                      fmt::format("{}: {}", who, verdict.what()));
    }
}

/// Enqueues or waits. A fault that shows here is that of the call that was enqueued last, except on
/// an emulated device, where `checked` has told it already.
template <class F>
void WorkloadRun::enqueuing(F&& f) {
    try {
        f();
    } catch (const DriverError& error) {
        const bool at_once = job_.device.emulated() != nullptr;
        if (is_sticky(error.result()) && !at_once) crashed(error.result());
        throw;
    } catch (const DeviceTimeout&) {
        hung();
    }
}

/// Enqueues steps of a plan, on an emulated device under its checker where they are judged.
template <class F>
void WorkloadRun::checked(Side& side, Bench::Which which, F&& f) {
    emulator::EmulatedDevice* device = job_.device.emulated();
    if (device == nullptr || !side.judged) {
        f();
        return;
    }
    struct Ends {
        emulator::EmulatedDevice* device;
        ~Ends() { device->end_checked(); }
    };
    device->begin_checked(bench_->views(*side.program, outputs_, side.workspaces, which));
    const Ends ends{device};
    try {
        f();
    } catch (const DriverError& error) {
        // Everything runs at once: what fails here is one of these steps.
        const std::optional<emulator::Report> report = device->take_report();
        if (!report) throw;
        refuse(*report);
    }
}

/// What the emulator found, as a verdict.
void WorkloadRun::refuse(const emulator::Report& report) const {
    using Kind = emulator::Report::Kind;
    const std::string message = message_of(report);
    switch (report.kind) {
        case Kind::out_of_bounds:
        case Kind::misaligned:
        case Kind::read_only_write:
        case Kind::trap:
        case Kind::assertion:
        case Kind::stack_overflow:
            throw Verdict(EvaluationStatus::crashed, message);
        case Kind::uninitialised:
        case Kind::race:
        case Kind::barrier_divergence:
            throw Rejected("emulator_checker", message);
        case Kind::deadlock:
        case Kind::endless:
            throw Verdict(EvaluationStatus::timed_out, message);
        case Kind::bad_instruction:
        case Kind::limit:
            throw Rejected(not_emulated_rule, message);
    }
    throw Error(ErrorCode::internal, "a report of no known kind: " + message);
}

void WorkloadRun::crashed(CUresult result) const {
    const std::string what = job_.device.driver().describe(result);
    if (running_ == nullptr || !running_->judged) {
        throw Verdict(EvaluationStatus::evaluator_failed,
                      fmt::format("{} failed: {}",
                                  running_ != nullptr ? "the opponent" : "the reference", what));
    }
    throw Verdict(EvaluationStatus::crashed, fmt::format("{} failed: {}", kernels_, what));
}

void WorkloadRun::hung() const {
    if (running_ == nullptr || !running_->judged) {
        throw Verdict(EvaluationStatus::evaluator_failed,
                      fmt::format("{} did not end within {} ms",
                                  running_ != nullptr ? "the opponent" : "the reference",
                                  job_.request.time_limit.count()));
    }
    throw Verdict(EvaluationStatus::timed_out, fmt::format("{} did not end within {} ms", kernels_,
                                                           job_.request.time_limit.count()));
}

std::uint64_t WorkloadRun::seed_of(std::uint64_t trial) const {
    // Shapes are told apart by their position in the request, hidden ones included.
    return referee::seed_of_trial(referee::seed_of_trial(job_.secret, position_), trial);
}

/// Sets of inputs, as many of each distribution, which no check has seen.
std::vector<WorkloadRun::InputSet> WorkloadRun::timed_sets(std::uint64_t attempt) const {
    std::vector<InputSet> sets;
    for (std::uint64_t set = 0; set < timed_set_count_; ++set) {
        sets.push_back({static_cast<referee::Distribution>(set % least_timed_sets),
                        seed_of(first_timed_trial * (attempt + 1) + set)});
    }
    return sets;
}

/// The set of a pair of calls: every four pairs see all distributions, in random order, and no set
/// comes twice where there are enough.
std::size_t WorkloadRun::set_of_pair(std::uint64_t order, std::uint64_t pair) const {
    const std::uint64_t groups = timed_set_count_ / least_timed_sets;
    std::uint64_t group = pair / least_timed_sets;
    if (group >= groups) group = referee::seed_of_trial(order, pair) % groups;
    const auto distribution =
        static_cast<std::uint64_t>(referee::distribution_of_trial(order, pair));
    return static_cast<std::size_t>(group * least_timed_sets + distribution);
}

bool WorkloadRun::scrubs() const {
    // Under compute-sanitizer a thousand times slower, and nothing is timed there. On an emulated
    // device there is no time to save by what is left over, and the checker finds reads of it.
    return job_.device.emulated() == nullptr && job_.request.depth != EvaluationDepth::sanitize;
}

/// Everything that comes before a call, the same for checks and timed calls.
void WorkloadRun::set_up(Side& side, const InputSet& inputs) {
    Program& program = *side.program;
    job_.device.wait(job_.deadline);
    job_.device.reset_persisting_l2();
    const std::uint64_t call = side.judged ? own_calls_++ : other_calls_++;
    bench_->set_alignments(side.alignments);
    bench_->move_outputs(outputs_, call);
    bench_->move_workspaces(program, side.workspaces, call);
    if (program.has_prepare()) {
        // Untimed work sees constant inputs alone: the others do not exist yet.
        bench_->fill_inputs(inputs.distribution, inputs.seed, call, job_.deadline,
                            Bench::Which::constant);
        bench_->prepare(program, outputs_, side.workspaces);
        running_ = &side;
        program.restore_globals();
        checked(side, Bench::Which::constant, [&] {
            program.enqueue_prepare(bench_->addresses(program, outputs_, side.workspaces), nullptr);
        });
        bench_->fill_inputs(inputs.distribution, inputs.seed, call, job_.deadline,
                            Bench::Which::others);
        bench_->prepare(program, outputs_, side.workspaces, Bench::Prepared::kept);
    } else {
        bench_->fill_inputs(inputs.distribution, inputs.seed, call, job_.deadline);
        bench_->prepare(program, outputs_, side.workspaces);
    }
    bench_->zero_selfzero(program, side.workspaces);
    program.restore_globals();
    if (scrubs()) job_.device.scrub(program.local_bytes());
}

void WorkloadRun::call(Side& side, const InputSet& inputs, Purpose purpose) {
    CallTimer* timer = purpose == Purpose::timing ? &job_.timer : nullptr;
    // Not the fault of a kernel, unlike a wait that ends at the deadline.
    if (Clock::now() >= job_.deadline) throw DeviceTimeout("no time is left for another call");
    enqueuing([&] {
        set_up(side, inputs);
        // Also where nothing is timed: a kernel could see which lines are in L2.
        if (scrubs()) job_.device.flush();
        if (timer != nullptr) timer->before_call(side.judged ? 0 : 1);
        running_ = &side;
        checked(side, Bench::Which::all, [&] {
            side.program->enqueue(bench_->addresses(*side.program, outputs_, side.workspaces),
                                  timer);
        });
        if (timer != nullptr) timer->after_call();
        if (side.judged) bench_->count_selfzero(*side.program, side.workspaces);
    });
}

/// Waits. Synchronising the context also brings out what was printed.
void WorkloadRun::await_call() {
    enqueuing([&] {
        job_.device.wait(job_.deadline);
        job_.device.driver().check(job_.device.driver().cuCtxSynchronize(), "cuCtxSynchronize");
    });
}

/// On the same inputs, drawn again at another place: whatever a candidate did to memory, the
/// reference does not see it.
void WorkloadRun::run_reference(const InputSet& inputs) {
    trusted("the reference", [&] {
        const std::uint64_t call = reference_calls_++;
        bench_->set_alignments({});
        bench_->fill_inputs(inputs.distribution, inputs.seed, call, job_.deadline);
        bench_->move_outputs(expected_, call);
        bench_->move_workspaces(*reference_, reference_workspaces_, call);
        bench_->prepare(*reference_, expected_, reference_workspaces_);
        bench_->zero_selfzero(*reference_, reference_workspaces_);
        reference_->restore_globals();
        const Addresses addresses =
            bench_->addresses(*reference_, expected_, reference_workspaces_);
        running_ = nullptr;
        if (reference_->has_prepare()) reference_->enqueue_prepare(addresses, nullptr);
        reference_->enqueue(addresses, nullptr);
    });
}

void WorkloadRun::make_opponent() {
    if (job_.opponent == nullptr) return;
    try {
        opponent_ = job_.opponent->program(*job_.request.task, workload_, position_);
        bench_->describe_buffers(*opponent_);
        other_.workspaces = bench_->make_workspaces(*opponent_);
        other_.program = opponent_.get();
        other_.judged = false;
    } catch (const Verdict& verdict) {
        // A leader may not cover every workload; the candidate is then timed alone.
        result_.message = fmt::format("not paired, the opponent: {}", verdict.what());
    }
}

/// The prepare steps are in no call's time; theirs is taken once.
void WorkloadRun::time_prepare() {
    if (!candidate_->has_prepare()) return;
    job_.device.wait(job_.deadline);
    job_.timer.begin();
    enqueuing([&] {
        set_up(own_, timed_sets(attempts).front());
        job_.device.flush();
        job_.timer.before_call();
        running_ = &own_;
        candidate_->enqueue_prepare(bench_->addresses(*candidate_, outputs_, own_.workspaces),
                                    &job_.timer);
        job_.timer.after_call();
    });
    await_call();
    try {
        result_.prepare_s = job_.timer.finish(job_.deadline).at(0).total_s;
    } catch (const DriverError&) {
        throw;
    } catch (const DeviceTimeout&) {
        throw;
    } catch (const Error&) {
        // No trustworthy time: it stays absent, and no verdict hangs on it.
    }
}

/// Brings clocks and caches of code up.
WorkloadRun::WarmUp WorkloadRun::warm_up() {
    job_.device.wait(job_.deadline);
    const std::vector<InputSet> sets = timed_sets(attempts);
    const Clock::time_point started = Clock::now();
    int calls = 0;
    job_.timer.begin();
    for (int i = 0; i < warm_up_calls; ++i) {
        for (Side* side : {&own_, &other_}) {
            if (side->program == nullptr) continue;
            call(*side, sets[static_cast<std::size_t>(i) % sets.size()], Purpose::timing);
            ++calls;
        }
    }
    await_call();
    WarmUp warm;
    warm.call_s = std::chrono::duration<double>(Clock::now() - started).count() / calls;
    try {
        warm.span_s = job_.timer.finish_unchecked(job_.deadline).back().total_s;
    } catch (const DriverError&) {
        throw;
    } catch (const DeviceTimeout&) {
        throw;
    } catch (const Error&) {
        warm.span_s = warm.call_s;  // the timed block says what is wrong with its records
    }
    return warm;
}

/// One timed block; fills the result's timings. @returns what is wrong with it, if anything
std::string WorkloadRun::time_block(int quads, std::uint64_t attempt, Journal& journal) {
    job_.watch->before();
    std::string trouble = run_block(quads, attempt, journal);
    const std::string reason = job_.watch->after();
    const DeviceState state = job_.watch->state();
    device_state_ = device_state_ ? merge(*device_state_, state) : state;
    return trouble.empty() ? reason : trouble;
}

/// Both calls of a pair have the same inputs, so that time that depends on the data is in both.
std::string WorkloadRun::run_block(int quads, std::uint64_t attempt, Journal& journal) {
    const std::vector<InputSet> sets = timed_sets(attempt);
    const std::uint64_t order = seed_of(stream_sets + 1 + attempt);
    std::vector<bool> by_opponent;
    std::vector<std::size_t> set_of_call;
    int own_calls = 0;
    job_.timer.begin();
    const int stay = std::max(1, quads / code_placements);
    for (int quad = 0; quad < quads; ++quad) {
        if (quad > 0 && quad % stay == 0) move_code(quad / stay);
        const bool first =
            referee::candidate_first(job_.request.seed, static_cast<std::uint64_t>(quad));
        const bool calls[4] = {!first, first, first, !first};
        for (std::uint64_t i = 0; i < 4; ++i) {
            if (calls[i] && other_.program == nullptr) continue;
            const std::uint64_t pair = 2 * static_cast<std::uint64_t>(quad) + i / 2;
            const std::size_t set = set_of_pair(order, pair);
            call(calls[i] ? other_ : own_, sets[set], Purpose::timing);
            enqueuing([&] {
                if (calls[i]) {
                    journal.record_unjudged(outputs_);
                } else {
                    journal.record(own_calls++, set, outputs_);
                }
            });
            by_opponent.push_back(calls[i]);
            set_of_call.push_back(set);
        }
    }
    await_call();
    return read_times(by_opponent, set_of_call);
}

/// Lets the sides' code change places, and brings it into the caches of its new place.
void WorkloadRun::move_code(int round) {
    if (job_.request.depth != EvaluationDepth::promotion || other_.program == nullptr) return;
    await_call();
    if (round % 2 == 0) {
        Program::reload(*own_.program, *other_.program);
    } else {
        Program::reload(*other_.program, *own_.program);
    }
    const InputSet inputs = timed_sets(attempts).front();
    for (Side* side : {&own_, &other_}) call(*side, inputs, Purpose::check);
}

std::string WorkloadRun::read_times(const std::vector<bool>& by_opponent,
                                    const std::vector<std::size_t>& sets) {
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
    return summarize(spans, by_opponent, sets);
}

std::string WorkloadRun::summarize(const std::vector<CallSpan>& spans,
                                   const std::vector<bool>& by_opponent,
                                   const std::vector<std::size_t>& sets) {
    std::vector<double> own;
    std::vector<double> other;
    std::vector<CallSpan> own_spans;
    std::vector<CallSpan> other_spans;
    std::vector<std::size_t> own_sets;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        (by_opponent[i] ? other : own).push_back(spans[i].total_s);
        (by_opponent[i] ? other_spans : own_spans).push_back(spans[i]);
        if (!by_opponent[i]) own_sets.push_back(sets[i] % least_timed_sets);
    }
    result_.timing = summarize_spans(own_spans, job_.timer.clock());
    set_launch_means(spans, by_opponent);
    if (!other.empty()) {
        result_.opponent_timing = summarize_spans(other_spans, job_.timer.clock());
        std::vector<referee::Quad> quads(own.size() / 2);
        for (std::size_t i = 0; i < own.size(); ++i) {
            quads[i / 2].candidate_s[i % 2] = own[i];
            quads[i / 2].opponent_s[i % 2] = other[i];
        }
        result_.paired = referee::paired_ratio(quads, job_.request.seed);
    }
    if (spread_of(own, own_sets) <= widest_spread) return "";
    return fmt::format(
        "its times on inputs of one distribution spread too far, in all from {:.2f} to {:.2f} us",
        result_.timing->p10_s * 1e6, result_.timing->p90_s * 1e6);
}

void WorkloadRun::set_launch_means(const std::vector<CallSpan>& spans,
                                   const std::vector<bool>& by_opponent) {
    const std::vector<std::size_t> steps = candidate_->launch_steps();
    for (std::size_t launch = 0; launch < steps.size(); ++launch) {
        std::vector<double> seconds;
        for (std::size_t i = 0; i < spans.size(); ++i) {
            if (!by_opponent[i] && steps[launch] < spans[i].step_s.size()) {
                seconds.push_back(spans[i].step_s[steps[launch]]);
            }
        }
        if (!seconds.empty()) result_.launches[launch].mean_s = referee::trimmed_mean(seconds);
    }
}

/// What was timed must be right too, in every call.
void WorkloadRun::judge_timed(std::uint64_t attempt, Journal& journal) {
    bench_->check_selfzero(job_.deadline);
    const std::vector<InputSet> sets = timed_sets(attempt);
    for (std::size_t set = 0; set < sets.size(); ++set) {
        if (!journal.has(set)) continue;
        run_reference(sets[set]);
        journal.judge(set, {*reference_, expected_, reference_workspaces_},
                      std::string(to_string(sets[set].distribution)), result_.outputs,
                      job_.deadline);
    }
}

double spread_of(const std::vector<double>& seconds, const std::vector<std::size_t>& sets) {
    constexpr std::size_t least_times = 3;
    std::map<std::size_t, std::vector<double>> by_set;
    for (std::size_t i = 0; i < seconds.size(); ++i) by_set[sets[i]].push_back(seconds[i]);
    std::vector<double> relative;
    for (const auto& [set, times] : by_set) {
        if (times.size() < least_times) continue;
        const double median = referee::median(times);
        for (const double time : times) relative.push_back(time / median);
    }
    if (relative.empty()) return 1.0;
    return referee::percentile(relative, 0.9) / referee::percentile(relative, 0.1);
}

}  // namespace kernelforge::worker
