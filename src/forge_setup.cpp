// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "forge_diagnosis.hpp"
#include "forge_run.hpp"
#include "guards.hpp"
#include "hidden_shapes.hpp"
#include "wire/codec.hpp"

// Before the loop: the run folder, the device, the reference, the baselines and the root.

namespace kernelforge {
namespace {

Json header_of(const Task& task, const std::string& task_hash, const DeviceInfo& device,
               const ForgeOptions& options) {
    Json header;
    header["task"] = task.definition.name;
    header["task_sha256"] = task_hash;
    header["device"] = device.name;
    header["arch"] = device.arch;
    header["seed"] = options.seed;
    header["generations"] = options.generations;
    // With generations the number of threads decides nothing.
    header["max_in_flight"] = options.generations > 0 ? 0 : options.max_in_flight;
    return header;
}

/// The file that a trusted source was read from, as seen from the task's folder: an archive holds
/// what a compiler says of it, and no absolute path. `fallback` names one that was built in memory.
std::string file_of(const Task& task, const std::string& path, const std::string& fallback) {
    if (path.empty()) return fallback;
    if (task.folder.empty()) return path;
    const std::filesystem::path inside =
        std::filesystem::path(path).lexically_relative(task.folder);
    return inside.empty() || *inside.begin() == ".." ? path : inside.string();
}

/// Baselines have no expansion; this is how their records name them.
std::string baseline_title(const std::string& name) {
    return "baseline " + name;
}

}  // namespace

// ---- the run folder ----

std::string ForgeRun::hash_of(Task task) {
    task.folder.clear();
    task.reference_cuda_path.clear();
    for (BaselineSpec& baseline : task.baselines) baseline.source_path.clear();
    Json encoded = wire::encode(task);
    // A task that does not use them has the hash that it had before they were there.
    if (task.emulator_axes.empty()) encoded.erase("emulator_axes");
    return sha256_hex(dump_json(encoded));
}

void ForgeRun::open() {
    choose_device();
    use_small_task();
    const Json header = header_of(*task_, task_hash_, device_, options_);
    archive_.emplace(Archive::open(options_.run_folder, header));
    for (const std::string& warning : archive_->contents().warnings) {
        if (parts_.log) parts_.log(LogLevel::warning, warning);
    }
    const JsonDocument found(archive_->contents().header, "archive.jsonl");
    for (const auto& [key, value] : header.items()) {
        const auto member = found.root().find(key);
        if (member && member->json() == value) continue;
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("run folder {}: it holds a run with {} {}, this one has {}",
                                options_.run_folder, key,
                                member ? dump_json(member->json()) : "unknown", dump_json(value)));
    }
    read_archive();
    if (!set_up_) {
        emit(ForgeEvent::Kind::started, nullptr,
             recorded_expansions_.empty()
                 ? fmt::format("{} on {}, times are {}", task_->definition.name, device_.name,
                               to_string(times_of(device_)))
                 : fmt::format("going on after {} expansions", recorded_expansions_.size()));
    }
}

void ForgeRun::read_archive() {
    recorded_expansions_.clear();
    recorded_nodes_.clear();
    for (const ArchiveRecord& record : archive_->contents().records) {
        std::visit([&](const auto& r) { elapsed_before_ = std::max(elapsed_before_, r.elapsed); },
                   record);
        if (const auto* expansion = std::get_if<ExpansionRecord>(&record)) {
            if (expansion->ordinal != recorded_expansions_.size()) {
                throw Error(ErrorCode::parse,
                            fmt::format("run folder {}: expected expansion {}, found {}",
                                        options_.run_folder, recorded_expansions_.size(),
                                        expansion->ordinal));
            }
            recorded_expansions_.push_back(*expansion);
        } else if (const auto* node = std::get_if<NodeRecord>(&record); node && node->expansion) {
            recorded_nodes_.emplace(CompletionKey{*node->expansion, node->turn}, *node);
        }
    }
}

void ForgeRun::choose_device() {
    for (DeviceInfo& device : parts_.evaluator->devices()) {
        if (device.index != options_.device) continue;
        device_ = std::move(device);
        if (!options_.arch.empty()) device_.arch = options_.arch;
        return;
    }
    throw Error(
        ErrorCode::device_unavailable,
        fmt::format("no usable GPU: the evaluator has no device {}; run where there is one, or "
                    "let evaluator \"folder\" carry the jobs to one",
                    options_.device));
}

/// On an emulated device the task is that of its small shapes. The run is still that of the task it
/// was given: its hash stays.
void ForgeRun::use_small_task() {
    if (!device_.emulated || small_) return;
    SmallTask small = emulator_task(*task_);
    task_ = std::make_shared<const Task>(std::move(small.task));
    workloads_ = all_workloads(*task_);
    small_ = true;
    emit(ForgeEvent::Kind::started, nullptr, small.note);
    emit(ForgeEvent::Kind::started, nullptr,
         "bound and headroom are left out: they need roofs, which are measured on a GPU");
}

/// An archive may be older than a rule, or damaged: what it says of times is not believed unseen.
void ForgeRun::check_archived(const NodeRecord& record, const std::string& title) const {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::parse,
                    fmt::format("run folder {}: {}: {}", options_.run_folder, title, why));
    };
    // A baseline without a source is a command.
    const bool whole = record.expansion || record.candidate;
    if (!record.expansion && record.status == EvaluationStatus::ok && !record.evaluation) {
        refuse("expected an evaluation, found none");
    }
    for (const auto* evaluation : {&record.evaluation, &record.promotion}) {
        if (!*evaluation) continue;
        if (const auto why = implausible(**evaluation, workloads_, whole)) refuse(*why);
    }
}

// ---- reference and baselines ----

void ForgeRun::prepare_reference() {
    if (task_->reference_cuda.empty()) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("task {}: definition.json needs \"kernelforge\": "
                                "{{\"reference_cuda\": ...}}; running the PyTorch reference is not "
                                "supported yet",
                                task_->definition.name));
    }
    Built built = build_candidate(*parts_.compiler, *task_, {task_->reference_cuda, {}},
                                  file_of(*task_, task_->reference_cuda_path, "reference.cu"),
                                  workloads_, device_, build_limits(), stop_);
    if (built.status == EvaluationStatus::cancelled) {
        return end(StopReason::stopped, "a stop was requested");
    }
    if (!built.ok()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("task {}: its reference cannot be used: {}", task_->definition.name,
                                built.message));
    }
    reference_ = std::move(built.compiled);
}

void ForgeRun::measure_baselines() {
    if (ended_) return;
    baselines_.clear();
    for (const BaselineSpec& spec : task_->baselines) baselines_.push_back({&spec, {}});
    const auto first = std::find_if(
        baselines_.begin(), baselines_.end(),
        [](const Baseline& baseline) { return baseline.spec->kind == BaselineSpec::Kind::cuda; });
    if (first == baselines_.end()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("task {}: expected a baseline of kind cuda, found none",
                                task_->definition.name));
    }
    portable_ = static_cast<std::size_t>(first - baselines_.begin());
    std::size_t pending = 0;
    for (std::size_t i = 0; i < baselines_.size() && !ended_; ++i) {
        if (!measure_baseline(i)) ++pending;
    }
    if (ended_ || pending == 0) return;
    end_waiting_for_evaluations(pending);
}

/// False: its evaluation is pending.
bool ForgeRun::measure_baseline(std::size_t index) {
    const BaselineSpec& spec = *baselines_[index].spec;
    if (auto archived = archived_baseline(spec.name)) {
        accept_baseline(index, std::move(*archived));
        return true;
    }
    NodeRecord record = evaluate_baseline(spec);
    if (record.status == EvaluationStatus::pending) return false;
    if (record.status == EvaluationStatus::cancelled) {
        end(StopReason::stopped, "a stop was requested");
        return true;
    }
    if (index == portable_ && record.status == EvaluationStatus::evaluator_failed) {
        end(StopReason::evaluator_failed,
            fmt::format("baseline {} could not be measured: {}", spec.name, record.message));
        return true;
    }
    if (index == portable_ && record.status != EvaluationStatus::ok) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("task {}: its baseline {} must be right, found {}: {}",
                                task_->definition.name, spec.name, to_string(record.status),
                                record.message));
    }
    record.leader = index == portable_;
    archive_->append_node(record);
    accept_baseline(index, std::move(record));
    return true;
}

std::optional<NodeRecord> ForgeRun::archived_baseline(const std::string& name) const {
    for (const ArchiveRecord& record : archive_->contents().records) {
        const auto* node = std::get_if<NodeRecord>(&record);
        if (node == nullptr || node->expansion || node->plan != baseline_title(name)) continue;
        check_archived(*node, fmt::format("baseline {}", name));
        return *node;
    }
    return std::nullopt;
}

NodeRecord ForgeRun::evaluate_baseline(const BaselineSpec& spec) {
    NodeRecord record;
    record.plan = baseline_title(spec.name);
    record.status = EvaluationStatus::rejected;
    EvaluationRequest request = request_for({}, EvaluationDepth::screen);
    Built built;
    if (spec.kind == BaselineSpec::Kind::command) {
        request.command = spec;
    } else {
        // Those of libraries are plans too, of trusted steps that the task's policy does not
        // concern.
        record.candidate = Candidate{spec.source, {}};
        record.id = node_id(*record.candidate);
        built = build_candidate(*parts_.compiler, *task_, *record.candidate,
                                file_of(*task_, spec.source_path, spec.name + ".cu"), workloads_,
                                device_, build_limits(), stop_);
        if (!built.compiled.builds.empty()) {
            const CompileResult* failed = failed_build(built.compiled);
            record.compile = summarise(failed != nullptr ? *failed : built.compiled.builds.front());
        }
        record.status = built.status;
        record.message = built.message;
        if (!built.ok()) return record;
        request.candidate = built.compiled;
    }
    record.evaluation = evaluate(request);
    record.status = record.evaluation->status;
    record.message = record.evaluation->message;
    record.elapsed = elapsed();
    if (record.status == EvaluationStatus::ok && record.candidate) {
        record.diagnosis = diagnose_candidate(built, *record.evaluation);
    }
    return record;
}

void ForgeRun::accept_baseline(std::size_t index, NodeRecord record) {
    Baseline& baseline = baselines_[index];
    ForgeEvent event;
    event.kind = ForgeEvent::Kind::baseline;
    event.node = record.id;
    event.status = record.status;
    event.message = fmt::format("{}: {}", baseline.spec->name,
                                record.status == EvaluationStatus::ok
                                    ? std::string(to_string(times_of(device_)))
                                    : record.message);
    if (parts_.on_event) parts_.on_event(event);
    if (record.status != EvaluationStatus::ok) return;
    baseline.times_s.assign(workloads_.size(), std::nullopt);
    for (const WorkloadResult& result : record.evaluation->workloads) {
        if (result.timing && result.workload < baseline.times_s.size()) {
            baseline.times_s[result.workload] = result.timing->median_s;
        }
    }
    if (index == portable_) {
        plant_root(record);
    } else if (record.candidate && baseline.spec->kind == BaselineSpec::Kind::cuda) {
        known_sources_.emplace(normalised_source(record.candidate->source), record.id);
        known_.emplace(record.id, Known{std::move(record), {}});
    }
}

void ForgeRun::plant_root(const NodeRecord& root) {
    baseline_times_.clear();
    for (const auto& time : baselines_[portable_].times_s) {
        if (!time) {
            throw Error(ErrorCode::internal,
                        fmt::format("evaluator: expected a time of baseline {} for every workload",
                                    baselines_[portable_].spec->name));
        }
        baseline_times_.push_back(*time);
    }
    Known known{root, {}};
    known.record.speedup = 1.0;
    root_ = root.id;
    leader_ = root.id;
    known_sources_.emplace(normalised_source(root.candidate->source), root.id);
    known_.insert_or_assign(root.id, std::move(known));
    if (root_told_) return;
    root_told_ = true;
    NodeSummary summary;
    summary.node = root.id;
    summary.speedup = 1.0;
    summary.leader = true;
    parts_.strategy->tell(summary);
}

}  // namespace kernelforge
