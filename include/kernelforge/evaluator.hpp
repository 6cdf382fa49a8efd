// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/candidate.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/profile_data.hpp"

namespace kernelforge {

/// Ceilings of one device, measured on that device (docs/referee.md says how). Absent: not
/// measured.
struct Roofs {
    std::optional<double> read_bytes_per_s;
    std::optional<double> copy_bytes_per_s;  ///< bytes read plus bytes written
    std::optional<double> write_bytes_per_s;
    std::optional<double> fp32_flop_per_s;  ///< vector units
    std::optional<double> bf16_flop_per_s;  ///< matrix units, fp32 accumulation
    std::optional<double> empty_kernel_s;   ///< span of a kernel that does nothing
};

struct DeviceInfo {
    int index = 0;                ///< as the evaluator numbers its devices
    std::string name;             ///< "NVIDIA H200"
    std::string uuid;             ///< empty where there is none
    std::string arch = "sm_90a";  ///< architecture to compile for
    int slots = 1;                ///< evaluations that may run at once
    bool wants_cubin = true;
    bool wants_ptx = false;
    bool emulated = false;  ///< executes PTX on the CPU: no time of it is measured
    int multiprocessors = 0;
    int warp_size = 32;
    int max_threads_per_block = 1024;
    int max_threads_per_multiprocessor = 2048;
    int max_blocks_per_multiprocessor = 32;
    int registers_per_multiprocessor = 65536;
    std::int64_t shared_bytes_per_multiprocessor = 0;
    std::int64_t max_shared_bytes_per_block = 0;  ///< the opt-in limit
    std::int64_t reserved_shared_bytes_per_block = 0;
    std::int64_t l2_bytes = 0;
    std::int64_t memory_bytes = 0;
    int clock_khz = 0;
    int memory_clock_khz = 0;
    int driver_version = 0;  ///< as cuDriverGetVersion gives it, 13000 for 13.0
    Roofs roofs;
};

/// How an evaluation ended. All but `ok` and `pending` are negative verdicts with a message.
enum class EvaluationStatus {
    ok,
    compile_error,
    plan_error,
    launch_error,
    crashed,  ///< a device fault, or the worker died
    timed_out,
    wrong_result,
    unstable,  ///< right, but no trustworthy time could be had
    rejected,  ///< by a rule; `Evaluation::rule` names it
    cancelled,
    evaluator_failed,  ///< not the candidate's fault: device lost, out of memory for inputs, …
    pending,           ///< the job is queued elsewhere: ask again later with the same request
};

[[nodiscard]] constexpr std::string_view to_string(EvaluationStatus status) noexcept {
    switch (status) {
        case EvaluationStatus::ok:
            return "ok";
        case EvaluationStatus::compile_error:
            return "compile_error";
        case EvaluationStatus::plan_error:
            return "plan_error";
        case EvaluationStatus::launch_error:
            return "launch_error";
        case EvaluationStatus::crashed:
            return "crashed";
        case EvaluationStatus::timed_out:
            return "timed_out";
        case EvaluationStatus::wrong_result:
            return "wrong_result";
        case EvaluationStatus::unstable:
            return "unstable";
        case EvaluationStatus::rejected:
            return "rejected";
        case EvaluationStatus::cancelled:
            return "cancelled";
        case EvaluationStatus::evaluator_failed:
            return "evaluator_failed";
        case EvaluationStatus::pending:
            return "pending";
    }
    return "unknown";
}

/// How much work an evaluation is worth.
enum class EvaluationDepth {
    check,      ///< correctness only, nothing timed
    screen,     ///< about a second: a few distributions, ten quads
    promotion,  ///< seconds: all distributions, all workloads, forty quads
    sanitize,   ///< correctness only, once under each tool of compute-sanitizer; minutes at most
    admission,  ///< is the task fit to judge by? `candidate` is its portable baseline
};

[[nodiscard]] constexpr std::string_view to_string(EvaluationDepth depth) noexcept {
    switch (depth) {
        case EvaluationDepth::check:
            return "check";
        case EvaluationDepth::screen:
            return "screen";
        case EvaluationDepth::promotion:
            return "promotion";
        case EvaluationDepth::sanitize:
            return "sanitize";
        case EvaluationDepth::admission:
            return "admission";
    }
    return "unknown";
}

/// A candidate together with its machine code. The evaluator reads the plan from the source text.
struct CompiledCandidate {
    Candidate candidate;
    std::vector<CompileResult> builds;
    /// For each of the request's workloads, then of its hidden ones, the index of its build (axes
    /// that the plan specialises give different builds).
    std::vector<std::size_t> build_of_workload;
};

struct EvaluationRequest {
    /// Chosen by the caller; the same id with the same content asks for the same evaluation.
    std::string id;
    /// Shared by all requests of a run; never null; never changed while shared.
    std::shared_ptr<const Task> task;
    std::vector<std::size_t> workloads;  ///< indices into `task->workloads`
    /// Further shapes that are checked after the workloads and never timed. There is at least one
    /// workload or hidden shape. A candidate whose `//@valid` is false for a hidden shape passes
    /// it.
    std::vector<Workload> hidden;
    CompiledCandidate candidate;
    CompiledCandidate reference;                ///< trusted; gives the expected values
    std::optional<CompiledCandidate> opponent;  ///< timed in pairs with the candidate
    /// Instead of `candidate`: run this `command` baseline and report its times. Trusted.
    std::optional<BaselineSpec> command;
    EvaluationDepth depth = EvaluationDepth::screen;
    std::uint64_t seed = 0;  ///< of the order of pairs; inputs use a secret of the evaluator's own
    int device = 0;
    /// Runs in a worker process that has run nothing before.
    bool fresh_worker = false;
    std::chrono::milliseconds time_limit{60'000};
};

/// Cold time of the whole plan. Times are seconds.
struct Timing {
    double median_s = 0.0;
    double trimmed_mean_s = 0.0;  ///< without the lowest and highest fifth
    double p10_s = 0.0;
    double p90_s = 0.0;
    int samples = 0;
    Provenance provenance = Provenance::measured;
    std::string clock;  ///< "cupti", "events", or how it was modelled
    /// The same calls by the other clocks, less their measured offsets; absent where one was not
    /// read.
    std::optional<double> events_median_s;
    std::optional<double> globaltimer_median_s;
};

/// Candidate against opponent, from quads in random order. Ratios are opponent time over candidate
/// time: above 1 the candidate is faster.
struct PairedRatio {
    double ratio = 1.0;  ///< exp of the trimmed mean of log ratios
    double low = 1.0;    ///< two-sided 99 % bootstrap interval
    double high = 1.0;
    int quads = 0;
};

/// The worst comparison of one output over all trials.
struct OutputError {
    std::string output;
    bool ok = true;
    double normalised_rms = 0.0;
    double max_tile_rms = 0.0;  ///< largest normalised RMS of a tile (docs/referee.md)
    double rms_limit = 0.0;
    double tile_limit = 0.0;
    std::int64_t mismatches =
        0;  ///< elements that differ (exact), or NaN, unwritten and far-off ones (rms)
    std::optional<std::int64_t> first_index;  ///< flat index of the first such element
    double expected = 0.0;                    ///< at `first_index`, else at the worst element
    double found = 0.0;
    std::string distribution;  ///< of the trial in which this was seen
};

/// Static facts of one launch as it was executed.
struct LaunchFacts {
    std::string kernel;
    std::int64_t grid[3] = {1, 1, 1};
    std::int64_t block[3] = {1, 1, 1};
    std::int64_t cluster[3] = {1, 1, 1};
    std::int64_t dynamic_shared_bytes = 0;
    std::optional<int> blocks_per_multiprocessor;  ///< by the driver's occupancy function
    std::optional<double> mean_s;                  ///< mean span of this launch alone
};

/// What happened on one workload.
struct WorkloadResult {
    std::size_t workload = 0;  ///< index into the task's workloads
    EvaluationStatus status = EvaluationStatus::ok;
    std::string message;
    std::vector<OutputError> outputs;
    std::optional<Timing> timing;
    std::optional<Timing> opponent_timing;
    std::optional<PairedRatio> paired;
    std::vector<LaunchFacts> launches;
    /// Time of the plan's `//@prepare` steps, which is in no other time here.
    std::optional<double> prepare_s;
    /// One line for each `//@call` step: library, version, algorithm.
    std::vector<std::string> library_steps;
};

/// A hidden shape that was checked.
struct HiddenResult {
    std::size_t hidden = 0;  ///< index into the request's hidden shapes
    EvaluationStatus status = EvaluationStatus::ok;
    bool refused = false;  ///< the plan's `//@valid` is false: not run, and no fault
    std::string message;
    std::vector<OutputError> outputs;
};

/// What one tool of compute-sanitizer said.
struct SanitizerResult {
    enum class Status { clean, findings, unavailable, failed };
    std::string tool;  ///< memcheck, racecheck, initcheck
    Status status = Status::unavailable;
    std::string message;  ///< first finding, or why there is no verdict; empty when clean
};

[[nodiscard]] constexpr std::string_view to_string(SanitizerResult::Status status) noexcept {
    switch (status) {
        case SanitizerResult::Status::clean:
            return "clean";
        case SanitizerResult::Status::findings:
            return "findings";
        case SanitizerResult::Status::unavailable:
            return "unavailable";
        case SanitizerResult::Status::failed:
            return "failed";
    }
    return "unknown";
}

/// One condition of a task's admission (docs/referee.md).
struct AdmissionCheck {
    std::string name;  ///< "zeros", "downcast", "input x", "baseline margin", …
    bool ok = false;
    std::string message;  ///< what was found, with the number and its limit
};

/// The state of the device around the timed part. Absent: the driver does not say.
struct DeviceState {
    std::optional<int> sm_clock_mhz_before;
    std::optional<int> sm_clock_mhz_after;
    std::optional<int> memory_clock_mhz;
    std::optional<int> temperature_c;
    std::optional<std::uint64_t> throttle_reasons;  ///< NVML's bits, or-ed over the block
    std::optional<int> other_processes;
    std::optional<double>
        calibration_before_s;  ///< time of the calibration kernel before the block
    std::optional<double> calibration_after_s;
};

/// The verdict on one request.
struct Evaluation {
    std::string id;
    EvaluationStatus status = EvaluationStatus::evaluator_failed;
    std::string message;  ///< one sentence; empty when ok
    std::string rule;     ///< for `rejected`: which one
    std::vector<WorkloadResult> workloads;
    std::vector<HiddenResult> hidden;
    std::vector<SanitizerResult> sanitizer;  ///< depth sanitize only
    std::vector<AdmissionCheck> admission;   ///< depth admission only
    DeviceState device_state;
    std::string device;     ///< its name
    std::string evaluator;  ///< which implementation gave this verdict
    std::string output;     ///< what the candidate printed, at most 4 KiB
    std::chrono::duration<double> compile_time{0};
    std::chrono::duration<double> check_time{0};
    std::chrono::duration<double> timing_time{0};
    std::chrono::duration<double> total_time{0};
};

struct CollectRequest {
    std::string id;
    std::shared_ptr<const Task> task;    ///< never null
    std::vector<std::size_t> workloads;  ///< at most three
    CompiledCandidate candidate;
    DataRequest data;
    int device = 0;
    std::chrono::milliseconds time_limit{60'000};
};

/// Runs candidates. The only interface that touches a device; candidates run in worker processes.
/// Implementations: `cuda`, `folder`.
class Evaluator {
  public:
    virtual ~Evaluator() = default;

    /// What there is to run on; empty where there is nothing. Roofs are measured at most once a
    /// device and kept. [any]
    /// @throws Error worker_failed, device_unavailable (a driver is there but unusable)
    [[nodiscard]] virtual std::vector<DeviceInfo> devices() = 0;

    /// Judges and times. Whatever the candidate does is a status. [device]
    /// @throws Error invalid_argument (the request contradicts itself), io
    [[nodiscard]] virtual Evaluation evaluate(const EvaluationRequest& request,
                                              std::stop_token stop) = 0;

    /// Collects what `request.data` names; what cannot be had is in `ProfileData::missing`.
    /// [device]
    /// @throws Error as `evaluate`; also worker_failed when the candidate killed the worker
    [[nodiscard]] virtual ProfileData collect(const CollectRequest& request,
                                              std::stop_token stop) = 0;
};

}  // namespace kernelforge
