// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_admission.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "admission.hpp"
#include "referee/comparison.hpp"
#include "referee/device/admission_parameters.hpp"
#include "referee/distributions.hpp"
#include "referee/limits.hpp"
#include "worker/measure_workload.hpp"

namespace kernelforge::worker {

namespace {

/// As in a screen: every distribution once.
constexpr std::uint64_t trials = 4;
/// Trials of the inputs that single ones are redrawn from.
constexpr std::uint64_t other_trials = 100;

std::uint64_t drawn_secret() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

/// The task with half of what it allows: who passes it has twice the margin.
Task with_half_limits(const Task& task) {
    Task strict = task;
    for (const TensorSpec& output : task.definition.outputs) {
        CompareSpec spec = referee::compare_of(task, output);
        spec.slack /= 2.0;
        strict.compare[output.name] = spec;
    }
    return strict;
}

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
    std::uint64_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::uint64_t>(extent);
    return count;
}

bool is_unused(const Task& task, const TensorSpec& input) {
    return std::find(task.unused_inputs.begin(), task.unused_inputs.end(), input.name) !=
           task.unused_inputs.end();
}

bool is_constant(const Task& task, const TensorSpec& input) {
    return referee::init_of(task, input).kind == InitSpec::Kind::constant;
}

/// Every input must matter on some shape: the offsets of a single segment, say, are always the
/// same.
std::vector<AdmissionCheck> input_checks(const Task& task,
                                         const std::map<std::string, std::string>& mattering) {
    std::vector<AdmissionCheck> checks;
    for (const TensorSpec& input : task.definition.inputs) {
        if (input.scalar) continue;
        AdmissionCheck check{"input " + input.name, true, ""};
        const auto where = mattering.find(input.name);
        if (is_unused(task, input)) {
            check.message = "skipped: the task says that no output depends on it";
        } else if (is_constant(task, input)) {
            check.message = "skipped: its values are always the same";
        } else if (where != mattering.end()) {
            check.message =
                fmt::format("on {} an output changes when it is drawn anew", where->second);
        } else {
            check.ok = false;
            check.message =
                "no output changes beyond its limit when it is drawn anew, on any shape and in any "
                "distribution; expected one to, or the input among the unused ones";
        }
        checks.push_back(std::move(check));
    }
    return checks;
}

/// Everything that is tried on one workload.
class ShapeAdmission {
  public:
    ShapeAdmission(Device& device, const EvaluationRequest& request, const Task& strict,
                   std::size_t position, Clock::time_point deadline)
        : device_(device),
          task_(*request.task),
          workload_(task_.workloads[request.workloads[position]]),
          axes_(axis_values(task_.definition, workload_)),
          shape_(describe_axes(workload_)),
          deadline_(deadline),
          reference_contender_(device, request.reference, task_, "reference"),
          baseline_contender_(device, request.candidate, task_, "baseline"),
          reference_(reference_contender_.program(task_, workload_, position)),
          baseline_(baseline_contender_.program(task_, workload_, position)),
          bench_(device, task_, workload_),
          other_(device, strict, workload_) {
        for (Program* side : {reference_.get(), baseline_.get()}) bench_.describe_buffers(*side);
        reference_workspaces_ = bench_.make_workspaces(*reference_);
        scratch_workspaces_ = bench_.make_workspaces(*reference_);
        baseline_workspaces_ = bench_.make_workspaces(*baseline_);
        for (OutputSet* set : {&expected_, &previous_, &found_, &originals_}) {
            *set = bench_.make_outputs();
        }
    }

    void run(std::uint64_t secret) {
        for (std::uint64_t trial = 0; trial < trials; ++trial) {
            const referee::Distribution distribution =
                referee::distribution_of_trial(secret, trial);
            distribution_ = to_string(distribution);
            bench_.fill_inputs(distribution, referee::seed_of_trial(secret, trial), 0, deadline_);
            run_reference(expected_, {}, bench_, reference_workspaces_);
            bench_.prepare(*reference_, originals_, scratch_workspaces_);
            // A comparison may look at the inputs.
            other_.fill_inputs(distribution, referee::seed_of_trial(secret, trial), 0, deadline_);
            run_baseline();
            other_.fill_inputs(distribution, referee::seed_of_trial(secret, other_trials + trial),
                               0, deadline_);
            try_nulls(trial);
            redraw_inputs();
            downcast_inputs();
            copy_outputs(previous_, expected_);
        }
    }

    void report(std::vector<NullOutcome>& outcomes, std::vector<AdmissionCheck>& checks) {
        for (NullOutcome& outcome : outcomes_) outcomes.push_back(std::move(outcome));
        report_margin(checks);
    }

    /// Adds the inputs that an output depends on on this shape.
    void add_mattering(std::map<std::string, std::string>& where) const {
        for (const std::string& input : mattering_) where.emplace(input, shape_);
    }

  private:
    using Redirected = std::map<std::string, CUdeviceptr>;  ///< inputs that lie elsewhere

    /// `inputs` gives in-place inputs their values.
    void run_reference(const OutputSet& outputs, const Redirected& redirected, Bench& inputs,
                       const WorkspaceSet& workspaces) {
        Program& program = *reference_;
        program.restore_globals();
        inputs.prepare(program, outputs, workspaces);
        enqueue_reference(outputs, redirected, workspaces);
    }

    void enqueue_reference(const OutputSet& outputs, const Redirected& redirected,
                           const WorkspaceSet& workspaces) {
        Program& program = *reference_;
        bench_.zero_selfzero(program, workspaces);
        Addresses addresses = bench_.addresses(program, outputs, workspaces);
        for (const auto& [name, address] : redirected) addresses[name] = address;
        if (program.has_prepare()) program.enqueue_prepare(addresses, nullptr);
        program.enqueue(addresses, nullptr);
    }

    /// The verdict on every output, by the task's own limits.
    [[nodiscard]] std::vector<OutputError> compare_found() {
        std::vector<OutputError> errors;
        bench_.compare(found_, {*reference_, expected_, reference_workspaces_}, distribution_,
                       errors, deadline_);
        return errors;
    }

    void run_baseline() {
        Program& program = *baseline_;
        program.restore_globals();
        bench_.prepare(program, found_, baseline_workspaces_);
        bench_.zero_selfzero(program, baseline_workspaces_);
        const Addresses addresses = bench_.addresses(program, found_, baseline_workspaces_);
        if (program.has_prepare()) program.enqueue_prepare(addresses, nullptr);
        program.enqueue(addresses, nullptr);
        other_.compare(found_, {*reference_, expected_, reference_workspaces_}, distribution_,
                       margin_, deadline_);
    }

    void copy_outputs(const OutputSet& to, const OutputSet& from) {
        for (std::size_t i = 0; i < outputs().size(); ++i) copy_output(to, from, i);
    }

    void copy_output(const OutputSet& to, const OutputSet& from, std::size_t output) {
        const std::uint64_t bytes =
            count(outputs()[output]) * referee::element_bytes(outputs()[output].dtype);
        if (bytes == 0) return;
        device_.driver().check(
            device_.driver().cuMemcpyDtoDAsync(to.addresses[output], from.addresses[output], bytes,
                                               device_.stream()),
            "copying an output");
    }

    [[nodiscard]] const std::vector<TensorSpec>& outputs() const {
        return task_.definition.outputs;
    }
    [[nodiscard]] std::uint64_t count(const TensorSpec& tensor) const {
        return count_of(shape_of(tensor, axes_));
    }

    void launch(const char* kernel, referee::AdmissionParameters parameters) {
        const std::uint64_t most = std::max(parameters.source_count, parameters.target_count);
        device_.launch(kernel, referee::bytes_shape(most * 16, device_.info().multiprocessors),
                       &parameters);
    }

    NullOutcome& outcome(const std::string& null, const std::string& output) {
        for (NullOutcome& known : outcomes_) {
            if (known.null == null && known.output == output) return known;
        }
        NullOutcome& fresh = outcomes_.emplace_back();
        fresh.null = null;
        fresh.output = output;
        fresh.shape = shape_;
        return fresh;
    }

    void record(const std::string& null, const std::string& output, bool refused) {
        NullOutcome& kept = outcome(null, output);
        auto& list = refused ? kept.refused_in : kept.accepted_in;
        if (std::find(list.begin(), list.end(), distribution_) == list.end()) {
            list.push_back(distribution_);
        }
    }

    /// One output is what `make` leaves there, the others are right.
    void try_null(const std::string& null, std::size_t output,
                  const std::function<void(CUdeviceptr target)>& make) {
        copy_outputs(found_, expected_);
        make(found_.addresses[output]);
        const std::vector<OutputError> errors = compare_found();
        record(null, outputs()[output].name, !errors.at(output).ok);
    }

    void try_nulls(std::uint64_t trial) {
        for (std::size_t i = 0; i < outputs().size(); ++i) {
            const TensorSpec& output = outputs()[i];
            const std::uint64_t elements = count(output);
            const std::size_t bytes = elements * referee::element_bytes(output.dtype);
            try_null("zeros", i, [&](CUdeviceptr target) {
                device_.driver().check(
                    device_.driver().cuMemsetD8Async(target, 0, bytes, device_.stream()),
                    "zeroing an output");
            });
            const std::vector<std::int64_t> shape = shape_of(output, axes_);
            try_mean("mean", i, 1);
            if (shape.size() > 1) {
                try_mean("mean of each column", i, static_cast<std::uint64_t>(shape.back()));
            }
            for (const TensorSpec& input : task_.definition.inputs) {
                if (!input.scalar) try_copy(input, i);
            }
            if (trial == 0) continue;
            try_null("previous output", i, [&](CUdeviceptr) { copy_output(found_, previous_, i); });
        }
    }

    void try_mean(const std::string& null, std::size_t output, std::uint64_t columns) {
        const TensorSpec& spec = outputs()[output];
        if (!coarser_bits(spec.dtype)) {
            outcome(null, spec.name).skipped = "a mean of integers is no value of the output";
            return;
        }
        if (count(spec) < 2 * columns) {
            // Its own mean: nothing is lost.
            outcome(null, spec.name).skipped = "there is only one element to take it over";
            return;
        }
        try_null(null, output, [&](CUdeviceptr target) {
            const MemoryPool::Lease sums = device_.pool().acquire(columns * sizeof(double));
            device_.driver().check(
                device_.driver().cuMemsetD8Async(sums.region().base(), 0, columns * sizeof(double),
                                                 device_.stream()),
                "clearing sums");
            referee::AdmissionParameters sum;
            sum.source = expected_.addresses[output];
            sum.source_count = count(spec);
            sum.source_dtype = static_cast<referee::u32>(spec.dtype);
            sum.target = sums.region().base();
            sum.columns = columns;
            launch("kf_admit_sum", sum);
            referee::AdmissionParameters spread;
            spread.source = sums.region().base();
            spread.target = target;
            spread.target_count = count(spec);
            spread.target_dtype = static_cast<referee::u32>(spec.dtype);
            spread.columns = columns;
            launch("kf_admit_spread", spread);
            // The sums go back to the pool.
            device_.wait(deadline_);
        });
    }

    [[nodiscard]] CUdeviceptr address_of(const TensorSpec& input) {
        return bench_.addresses(*reference_, originals_, scratch_workspaces_).at(input.name);
    }

    void try_copy(const TensorSpec& input, std::size_t output) {
        const std::string null = "copy of " + input.name;
        if (count(input) == 0) {
            outcome(null, outputs()[output].name).skipped = "the input is empty";
            return;
        }
        try_null(null, output, [&](CUdeviceptr target) {
            referee::AdmissionParameters copy;
            copy.source = address_of(input);
            copy.source_count = count(input);
            copy.source_dtype = static_cast<referee::u32>(input.dtype);
            copy.target = target;
            copy.target_count = count(outputs()[output]);
            copy.target_dtype = static_cast<referee::u32>(outputs()[output].dtype);
            launch("kf_admit_copy", copy);
        });
    }

    [[nodiscard]] bool is_inplace(const TensorSpec& input) const {
        return std::any_of(task_.inplace.begin(), task_.inplace.end(),
                           [&](const auto& pair) { return pair.second == input.name; });
    }

    /// Each input in turn has other values: some output must differ.
    void redraw_inputs() {
        const Addresses others = other_.addresses(*reference_, originals_, scratch_workspaces_);
        for (const TensorSpec& input : task_.definition.inputs) {
            if (input.scalar || is_unused(task_, input) || is_constant(task_, input)) continue;
            // In-place inputs are written by the bench that prepares the outputs.
            if (is_inplace(input)) {
                run_reference(found_, {}, other_, scratch_workspaces_);
            } else {
                run_reference(found_, {{input.name, others.at(input.name)}}, bench_,
                              scratch_workspaces_);
            }
            const std::vector<OutputError> errors = compare_found();
            if (!std::all_of(errors.begin(), errors.end(),
                             [](const OutputError& error) { return error.ok; })) {
                mattering_.insert(input.name);
            }
        }
    }

    /// Tiers by which outputs are judged; nothing for those whose values are discrete or random.
    [[nodiscard]] std::optional<PrecisionTier> tier_of(const TensorSpec& output) const {
        const CompareSpec spec = referee::compare_of(task_, output);
        switch (spec.kind) {
            case CompareSpec::Kind::rms:
            case CompareSpec::Kind::by_index:
            case CompareSpec::Kind::lse:
            case CompareSpec::Kind::ragged:
                return spec.tier;
            default:
                return std::nullopt;
        }
    }

    void downcast_inputs() {
        std::set<PrecisionTier> tiers;
        for (const TensorSpec& output : outputs()) {
            if (const auto tier = tier_of(output)) {
                tiers.insert(*tier);
            } else {
                outcome("downcast", output.name).skipped =
                    "its comparison knows no precision: values are discrete, drawn or custom";
            }
        }
        for (const PrecisionTier tier : tiers) downcast_inputs(tier);
    }

    void downcast_inputs(PrecisionTier tier) {
        Program& program = *reference_;
        program.restore_globals();
        bench_.prepare(program, found_, scratch_workspaces_);
        const Addresses present = bench_.addresses(program, found_, scratch_workspaces_);
        std::vector<MemoryPool::Lease> rounded;
        Redirected redirected;
        bool any = false;
        for (const TensorSpec& input : task_.definition.inputs) {
            const auto bits = input.scalar ? std::nullopt : downcast_bits(tier, input.dtype);
            if (!bits || count(input) == 0) continue;
            any = true;
            referee::AdmissionParameters round;
            round.source = round.target = present.at(input.name);
            round.source_count = round.target_count = count(input);
            round.source_dtype = round.target_dtype = static_cast<referee::u32>(input.dtype);
            round.bits = static_cast<referee::u32>(*bits);
            if (!is_inplace(input)) {
                rounded.push_back(device_.pool().acquire(round.source_count *
                                                         referee::element_bytes(input.dtype)));
                round.target = rounded.back().region().base();
                redirected[input.name] = round.target;
            }
            launch("kf_admit_round", round);
        }
        enqueue_reference(found_, redirected, scratch_workspaces_);
        const std::vector<OutputError> errors = compare_found();
        for (std::size_t i = 0; i < outputs().size(); ++i) {
            if (tier_of(outputs()[i]) != tier) continue;
            if (any) {
                record("downcast", outputs()[i].name, !errors.at(i).ok);
            } else {
                outcome("downcast", outputs()[i].name).skipped = "no input is floating-point";
            }
        }
    }

    void report_margin(std::vector<AdmissionCheck>& checks) const {
        for (const OutputError& error : margin_) {
            AdmissionCheck check;
            check.name = fmt::format("baseline margin of {} on {}", error.output, shape_);
            check.ok = error.ok;
            check.message =
                !error.ok ? "with half of the limits: " + referee::describe(error)
                : error.rms_limit > 0.0
                    ? fmt::format(
                          "normalised RMS {:.2g} of {:.2g}, worst tile {:.2g} of {:.2g}, "
                          "limits halved",
                          error.normalised_rms, error.rms_limit, error.max_tile_rms,
                          error.tile_limit)
                    : "every element is right";
            checks.push_back(std::move(check));
        }
    }

    Device& device_;
    const Task& task_;
    const Workload& workload_;
    std::map<std::string, std::int64_t> axes_;
    std::string shape_;
    Clock::time_point deadline_;
    Contender reference_contender_;
    Contender baseline_contender_;
    std::unique_ptr<Program> reference_;
    std::unique_ptr<Program> baseline_;
    Bench bench_;                        ///< the inputs, and the task's own limits
    Bench other_;                        ///< other inputs, and half of the limits
    WorkspaceSet reference_workspaces_;  ///< of the call that gave `expected_`
    WorkspaceSet scratch_workspaces_;    ///< of the reference's other calls
    WorkspaceSet baseline_workspaces_;
    OutputSet expected_;
    OutputSet previous_;   ///< the expected ones of the trial before
    OutputSet found_;      ///< of what is tried
    OutputSet originals_;  ///< in-place inputs as they were drawn
    std::string distribution_;
    std::vector<NullOutcome> outcomes_;
    std::vector<OutputError> margin_;
    std::set<std::string> mattering_;  ///< inputs that an output depends on
};

std::vector<AdmissionCheck> checks_of_times(Device& device, const Task& task,
                                            const Evaluation& evaluation) {
    // There is no measured time to hold against roofs on an emulated device.
    const Roofs roofs = device.emulated() == nullptr ? measure_roofs(device) : Roofs{};
    return time_checks(task, evaluation, roofs);
}

}  // namespace

void check_admission(Device& device, const EvaluationRequest& request, Clock::time_point deadline,
                     Evaluation& evaluation) {
    if (request.depth != EvaluationDepth::admission || evaluation.status != EvaluationStatus::ok) {
        return;
    }
    try {
        const Task strict = with_half_limits(*request.task);
        const std::uint64_t secret = drawn_secret();
        std::vector<NullOutcome> outcomes;
        std::vector<AdmissionCheck> checks;
        std::map<std::string, std::string> mattering;
        for (std::size_t position = 0; position < request.workloads.size(); ++position) {
            ShapeAdmission shape(device, request, strict, position, deadline);
            shape.run(secret);
            shape.report(outcomes, checks);
            shape.add_mattering(mattering);
        }
        evaluation.admission = null_checks(outcomes);
        for (AdmissionCheck& check : input_checks(*request.task, mattering)) {
            checks.push_back(std::move(check));
        }
        evaluation.admission.insert(evaluation.admission.end(), checks.begin(), checks.end());
        for (AdmissionCheck& check : checks_of_times(device, *request.task, evaluation)) {
            evaluation.admission.push_back(std::move(check));
        }
        conclude_admission(evaluation);
    } catch (const Verdict& verdict) {
        // Reference and baseline are trusted: what fails is the task.
        evaluation.status = verdict.status();
        evaluation.message = fmt::format("admission: {}", verdict.what());
    }
}

}  // namespace kernelforge::worker
