// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/subject.hpp"
#include "cli/table.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

/// The worst error of a workload's outputs, as a share of what is allowed.
std::string worst_error(const WorkloadResult& result) {
    double worst = 0.0;
    std::int64_t mismatches = 0;
    for (const OutputError& output : result.outputs) {
        if (output.rms_limit > 0) worst = std::max(worst, output.normalised_rms / output.rms_limit);
        mismatches += output.mismatches;
    }
    if (result.outputs.empty()) return "-";
    if (mismatches > 0) return fmt::format("{} mismatches", mismatches);
    return fmt::format("{:.2f} of limit", worst);
}

std::string table_of(const Subject& subject, const Evaluation& evaluation, bool paired) {
    // A modelled time has no spread, so that its columns are others and named for what they are.
    const bool emulated = subject.device.emulated;
    const auto modelled = [&](const char* column) {
        return fmt::format("{}, {}", column, label_of_times(subject.device));
    };
    std::vector<std::vector<std::string>> rows = {{"workload", "verdict", "error"}};
    std::vector<std::string>& header = rows[0];
    if (emulated) {
        header.push_back(modelled("time"));
        if (paired) header.insert(header.end(), {modelled("opponent"), modelled("ratio")});
    } else {
        header.insert(header.end(), {"median", "p10", "p90"});
        if (paired) header.insert(header.end(), {"opponent", "ratio", "99 % interval"});
    }
    for (const WorkloadResult& result : evaluation.workloads) {
        std::vector<std::string> row = {describe_workload(*subject.task, result.workload),
                                        std::string(to_string(result.status)), worst_error(result)};
        if (result.timing) {
            row.push_back(format_seconds(result.timing->median_s));
            if (!emulated) {
                row.push_back(format_seconds(result.timing->p10_s));
                row.push_back(format_seconds(result.timing->p90_s));
            }
        }
        if (paired && result.paired && result.opponent_timing) {
            row.push_back(format_seconds(result.opponent_timing->median_s));
            row.push_back(fmt::format("{:.3f}", result.paired->ratio));
            if (!emulated) {
                row.push_back(
                    fmt::format("{:.3f} to {:.3f}", result.paired->low, result.paired->high));
            }
        }
        rows.push_back(std::move(row));
    }
    return format_table(rows);
}

/// A candidate that did not get as far as a device.
int report_unbuilt(const Context& context, const Subject& subject, std::size_t index) {
    const Built& built = subject.candidates[index];
    if (context.json) {
        print_json({{"candidate", subject.files[index]},
                    {"status", to_string(built.status)},
                    {"message", built.message},
                    {"static", static_facts_json(built)}});
    } else {
        std::printf("%s: %s", subject.files[index].c_str(), static_facts(built).c_str());
    }
    return exit_negative;
}

int report_refused(const Context& context, const Subject& subject, std::size_t index,
                   const Refusal& refusal) {
    if (context.json) {
        print_json({{"candidate", subject.files[index]},
                    {"status", to_string(EvaluationStatus::rejected)},
                    {"rule", refusal.rule},
                    {"message", refusal.message},
                    {"static", static_facts_json(subject.candidates[index])}});
    } else {
        std::printf("%s: rejected (%s): %s\n", subject.files[index].c_str(), refusal.rule.c_str(),
                    refusal.message.c_str());
    }
    return exit_negative;
}

int report_without_device(const Context& context, const Subject& subject) {
    const char* message =
        "there is no GPU here: compiled and checked for an H200, not run. Run it where there is "
        "one, on the emulator (--evaluator emulator), or "
        "through --evaluator 'folder:{\"folder\": \"jobs\"}'";
    if (context.json) {
        Json list = Json::array();
        for (std::size_t i = 0; i < subject.candidates.size(); ++i) {
            list.push_back({{"candidate", subject.files[i]},
                            {"static", static_facts_json(subject.candidates[i])}});
        }
        print_json({{"status", "not_run"}, {"message", message}, {"candidates", list}});
    } else {
        for (std::size_t i = 0; i < subject.candidates.size(); ++i) {
            std::printf("%s: plan and compilation are right\n%s", subject.files[i].c_str(),
                        static_facts(subject.candidates[i]).c_str());
        }
        std::fprintf(stderr, "kernelforge: %s\n", message);
    }
    return exit_environment;
}

void print_evaluation(const Subject& subject, const Evaluation& evaluation, bool paired, int round,
                      int rounds) {
    if (evaluation.status == EvaluationStatus::pending) {
        std::printf("pending: %s\n", evaluation.message.c_str());
        return;
    }
    if (rounds > 1) std::printf("round %d of %d\n", round + 1, rounds);
    std::printf("%s", table_of(subject, evaluation, paired).c_str());
    for (const HiddenResult& result : evaluation.hidden) {
        std::printf(
            "hidden shape %s: %s\n", result.message.c_str(),
            result.refused ? "refused by //@valid" : std::string(to_string(result.status)).c_str());
    }
    for (const SanitizerResult& tool : evaluation.sanitizer) {
        std::printf("%s: %s%s%s\n", tool.tool.c_str(), std::string(to_string(tool.status)).c_str(),
                    tool.message.empty() ? "" : ": ", tool.message.c_str());
    }
    std::printf("verdict: %s%s%s\n", std::string(to_string(evaluation.status)).c_str(),
                evaluation.message.empty() ? "" : ": ", evaluation.message.c_str());
    // Without a device nothing was run: a stop came first, or no worker was there.
    if (!evaluation.device.empty()) {
        std::printf("%s by evaluator %s, times %s; checking took %s, timing %s, all %s\n",
                    evaluation.device.c_str(), evaluation.evaluator.c_str(),
                    std::string(label_of_times(subject.device)).c_str(),
                    format_seconds(evaluation.check_time.count()).c_str(),
                    format_seconds(evaluation.timing_time.count()).c_str(),
                    format_seconds(evaluation.total_time.count()).c_str());
    }
    const bool timed =
        std::any_of(evaluation.workloads.begin(), evaluation.workloads.end(),
                    [](const WorkloadResult& result) { return result.timing.has_value(); });
    if (subject.device.emulated && timed) std::printf("%s\n", meaning_of_modelled_times);
    if (!evaluation.output.empty())
        std::printf("the candidate printed:\n%s\n", evaluation.output.c_str());
}

int evaluate(Context& context, const SubjectOptions& options, int repeat) {
    const std::stop_token stop = stop_on_signal();
    const Subject subject = prepare(context, options, stop);
    for (std::size_t i = 0; i < subject.candidates.size(); ++i) {
        if (!subject.candidates[i].ok()) return report_unbuilt(context, subject, i);
        if (const auto refusal = guard(subject, i)) {
            return report_refused(context, subject, i, *refusal);
        }
    }
    if (!subject.has_device) return report_without_device(context, subject);

    const bool paired = subject.candidates.size() == 2;
    Json list = Json::array();
    std::map<std::string, int> verdicts;
    int code = exit_done;
    for (int round = 0; round < repeat && !stop.stop_requested(); ++round) {
        EvaluationRequest request = request_for(subject, options, 0);
        if (paired) request.opponent = subject.candidates[1].compiled;
        request.seed += static_cast<std::uint64_t>(round);
        const Evaluation evaluation = judge(subject, std::move(request), stop);
        code = std::max(code, exit_code_of(evaluation.status));
        ++verdicts[std::string(to_string(evaluation.status))];
        if (context.json) {
            list.push_back(wire::encode(evaluation));
        } else {
            print_evaluation(subject, evaluation, paired, round, repeat);
        }
    }
    if (context.json) {
        print_json({{"candidates", subject.files},
                    {"evaluator", subject.evaluator_name},
                    {"device", subject.device.name},
                    {"times", label_of_times(subject.device)},
                    {"static", static_facts_json(subject.candidates[0])},
                    {"verdicts", verdicts},
                    {"evaluations", list}});
    } else if (repeat > 1) {
        for (const auto& [verdict, count] : verdicts) {
            std::printf("%s: %d of %d\n", verdict.c_str(), count, repeat);
        }
    }
    return code;
}

}  // namespace

Run add_evaluate(CLI::App& app, Context& context) {
    const auto options = std::make_shared<SubjectOptions>();  // shared with the returned function
    const auto repeat = std::make_shared<int>(1);
    const auto admission = std::make_shared<bool>(false);
    options->candidates.resize(1);
    app.add_option("task", options->task, "Task folder")->required();
    auto* candidate =
        app.add_option("candidate", options->candidates[0], "Candidate, a .cu file with its plan");
    auto* admit_flag = app.add_flag(
        "--admit", *admission, "Judge the task itself: can it tell right from wrong candidates?");
    app.add_option("--repeat", *repeat, "How often to judge it")->check(CLI::Range(1, 1000));
    add_subject_options(app, *options);
    admit_flag->excludes(candidate);
    // Of a candidate; a task is admitted once, with its baseline.
    for (const char* name : {"--repeat", "--depth", "--bind"}) {
        admit_flag->excludes(app.get_option(name));
    }
    return [&context, options, repeat, admission] {
        if (*admission) {
            return report_admission(context, options->task,
                                    admit(context, *options, stop_on_signal()));
        }
        if (options->candidates[0].empty()) {
            throw Error(ErrorCode::invalid_argument,
                        "evaluate: expected a candidate, or --admit, found neither");
        }
        return evaluate(context, *options, *repeat);
    };
}

Run add_compare(CLI::App& app, Context& context) {
    const auto options = std::make_shared<SubjectOptions>();  // shared with the returned function
    options->candidates.resize(2);
    app.add_option("task", options->task, "Task folder")->required();
    app.add_option("candidate", options->candidates[0], "Candidate")->required();
    app.add_option("opponent", options->candidates[1], "The other side of each pair")->required();
    add_subject_options(app, *options);
    return [&context, options] { return evaluate(context, *options, 1); };
}

}  // namespace kernelforge::cli
