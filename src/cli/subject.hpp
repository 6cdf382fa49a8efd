// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "builds.hpp"
#include "cli/context.hpp"
#include "guards.hpp"

namespace kernelforge::cli {

/// A task, candidates and a device, compiled and ready: what `evaluate`, `compare` and `profile`
/// start from.
struct Subject {
    std::shared_ptr<const Task> task;  // shared with the requests that are made from it
    std::vector<std::size_t> workloads;
    std::string evaluator_name;
    std::unique_ptr<Evaluator> evaluator;
    std::unique_ptr<Compiler> compiler;
    DeviceInfo device;
    bool has_device = false;
    Built reference;
    std::vector<Built> candidates;
    std::vector<std::string> files;  ///< of the candidates, as given
};

/// Loads, finds the device, compiles. On an emulated device the task is the one of small shapes,
/// and the workloads of the options are counted among those. A candidate that fails is in
/// `candidates` with its status; a reference that fails is an error.
/// @throws Error of every kind
[[nodiscard]] Subject prepare(Context& context, const SubjectOptions& options,
                              std::stop_token stop);

/// What the guards of a run would refuse in a candidate that was built.
[[nodiscard]] std::optional<Refusal> guard(const Subject& subject, std::size_t candidate);

[[nodiscard]] EvaluationRequest request_for(const Subject& subject, const SubjectOptions& options,
                                            std::size_t candidate);

/// Draws the request's hidden shapes, builds for them and evaluates. The messages of hidden results
/// begin with their axes. @throws Error of every kind
[[nodiscard]] Evaluation judge(const Subject& subject, EvaluationRequest request,
                               std::stop_token stop);

/// Judges the task by its portable baseline (docs/referee.md, "Admission"). Nothing: there is no
/// device here. `options.candidates` is ignored. @throws Error of every kind
[[nodiscard]] std::optional<Evaluation> admit(Context& context, SubjectOptions options,
                                              std::stop_token stop);

/// Prints the checks, or one JSON object. @returns done when admitted, negative when not, else
/// environment
int report_admission(const Context& context, const std::string& task,
                     const std::optional<Evaluation>& evaluation);

/// done for ok, environment where it could not be judged here, negative for every other verdict.
[[nodiscard]] int exit_code_of(EvaluationStatus status);

/// "T=64, H=4096" with the variable axes only.
[[nodiscard]] std::string describe_workload(const Task& task, std::size_t workload);

/// Registers, spills and shared memory of every kernel, diagnostics where it failed.
[[nodiscard]] std::string static_facts(const Built& built);
[[nodiscard]] Json static_facts_json(const Built& built);

}  // namespace kernelforge::cli
