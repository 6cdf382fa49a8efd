// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "admission.hpp"
#include "cli/subject.hpp"
#include "cli/table.hpp"
#include "forge_promotion.hpp"
#include "hidden_shapes.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

/// Of all tensors of a workload: the device holds several copies.
constexpr double most_bytes = 4.0 * 1024 * 1024 * 1024;

const BaselineSpec& portable_baseline(const Task& task) {
    const auto found = std::find_if(
        task.baselines.begin(), task.baselines.end(),
        [](const BaselineSpec& spec) { return spec.kind == BaselineSpec::Kind::cuda; });
    if (found != task.baselines.end()) return *found;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("task {}: expected a baseline of kind cuda, found none", task.definition.name));
}

}  // namespace

std::optional<Evaluation> admit(Context& context, SubjectOptions options, std::stop_token stop) {
    options.candidates.clear();
    options.spread_bytes = most_bytes;
    Subject subject = prepare(context, options, stop);
    if (!subject.has_device) return std::nullopt;
    const BaselineSpec& baseline = portable_baseline(*subject.task);
    const Built built =
        build_candidate(*subject.compiler, *subject.task, {baseline.source, {}},
                        baseline.source_path, subject.workloads, subject.device, {}, stop);
    if (!built.ok()) {
        Evaluation evaluation;
        evaluation.status = built.status;
        evaluation.message = fmt::format("baseline {}: {}", baseline.name, built.message);
        return evaluation;
    }
    subject.candidates.push_back(built);
    EvaluationRequest request = request_for(subject, options, 0);
    request.depth = EvaluationDepth::admission;
    return evaluate_as_status(*subject.evaluator, request, "admission", stop);
}

int report_admission(const Context& context, const std::string& task,
                     const std::optional<Evaluation>& evaluation) {
    if (!evaluation) {
        const char* message = "there is no GPU here: a task is admitted by what its candidates do";
        if (context.json) {
            print_json({{"task", task}, {"status", "not_run"}, {"message", message}});
        }
        std::fprintf(stderr, "kernelforge: %s\n", message);
        return exit_environment;
    }
    const bool admitted = is_admitted(*evaluation);
    if (context.json) {
        Json checks = Json::array();
        for (const AdmissionCheck& check : evaluation->admission) {
            checks.push_back({{"name", check.name}, {"ok", check.ok}, {"message", check.message}});
        }
        print_json({{"task", task},
                    {"admitted", admitted},
                    {"status", to_string(evaluation->status)},
                    {"message", evaluation->message},
                    {"device", evaluation->device},
                    {"evaluator", evaluation->evaluator},
                    {"checks", checks}});
    } else {
        for (const AdmissionCheck& check : evaluation->admission) {
            std::printf("%-4s %s: %s\n", check.ok ? "ok" : "FAIL", check.name.c_str(),
                        check.message.c_str());
        }
        std::printf("judged on %s by evaluator %s\n", evaluation->device.c_str(),
                    evaluation->evaluator.c_str());
        std::printf("%s%s%s\n",
                    admitted                                          ? "admitted"
                    : evaluation->status == EvaluationStatus::pending ? "pending"
                                                                      : "not admitted",
                    evaluation->message.empty() ? "" : ": ", evaluation->message.c_str());
    }
    if (admitted) return exit_done;
    // Nothing was checked: the machine, not the task, is what was found wanting.
    if (evaluation->status == EvaluationStatus::ok) return exit_environment;
    return exit_code_of(evaluation->status);
}

}  // namespace kernelforge::cli
