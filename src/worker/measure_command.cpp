// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/subprocess.hpp"
#include "wire/codec.hpp"
#include "worker/measure_evaluate.hpp"
#include "worker/measure_program.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::size_t most_output_bytes = std::size_t{1} << 20;

std::string replace_all(std::string text, const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
        text.replace(at, what.size(), by);
        at += by.size();
    }
    return text;
}

/// What a command is given besides its words. The files are in a folder of their own, so that a
/// request that was carried from another machine runs as well.
struct CommandFiles {
    std::string workloads;
    std::string task;
    std::string script;
};

/// The program's words with their placeholders replaced; `--workloads FILE` follows unless a word
/// has it already.
std::vector<std::string> command_words(const BaselineSpec& baseline, const std::string& folder,
                                       const CommandFiles& files) {
    std::vector<std::string> words;
    bool names_workloads = false;
    for (std::string word : baseline.command) {
        names_workloads = names_workloads || word.find("{workloads}") != std::string::npos;
        word = replace_all(std::move(word), "{python}", "python3");
        word = replace_all(std::move(word), "{folder}", folder);
        word = replace_all(std::move(word), "{script}", files.script);
        word = replace_all(std::move(word), "{task}", files.task);
        words.push_back(replace_all(std::move(word), "{workloads}", files.workloads));
    }
    if (!names_workloads) words.insert(words.end(), {"--workloads", files.workloads});
    return words;
}

std::string workloads_json(const EvaluationRequest& request) {
    Json list = Json::array();
    for (const std::size_t index : request.workloads) {
        const Workload& workload = request.task->workloads[index];
        Json axes = Json::object();
        for (const auto& [name, value] : workload.axes) axes[name] = value;
        Json scalars = Json::object();
        for (const auto& [name, value] : workload.scalars) scalars[name] = value;
        list.push_back({{"uuid", workload.uuid}, {"axes", axes}, {"scalars", scalars}});
    }
    return dump_json(list);
}

Json tensors_json(const std::vector<TensorSpec>& tensors) {
    Json list = Json::object();
    for (const TensorSpec& tensor : tensors) {
        list[tensor.name] = {{"shape", tensor.scalar ? Json(nullptr) : Json(tensor.shape)},
                             {"dtype", to_string(tensor.dtype)}};
    }
    return list;
}

/// The part of `definition.json` (docs/task_format.md) that a command needs to make inputs and run
/// the reference.
std::string definition_json(const Task& task) {
    Json axes = Json::object();
    for (const Axis& axis : task.definition.axes) {
        switch (axis.kind) {
            case Axis::Kind::constant:
                axes[axis.name] = {{"type", "const"}, {"value", axis.value}};
                break;
            case Axis::Kind::variable:
                axes[axis.name] = {{"type", "var"}};
                break;
            case Axis::Kind::expression:
                axes[axis.name] = {{"type", "expr"}, {"expression", axis.expression}};
                break;
        }
    }
    return dump_json({{"name", task.definition.name},
                      {"axes", axes},
                      {"inputs", tensors_json(task.definition.inputs)},
                      {"outputs", tensors_json(task.definition.outputs)},
                      {"reference", task.definition.reference},
                      {"kernelforge", {{"init", wire::encode(task).at("init")}}}});
}

std::string last_line(const std::string& text) {
    const std::size_t end = text.find_last_not_of(" \t\r\n");
    if (end == std::string::npos) return "";
    const std::size_t start = text.find_last_of('\n', end);
    return text.substr(start == std::string::npos ? 0 : start + 1,
                       end - (start == std::string::npos ? 0 : start + 1) + 1);
}

/// One printed line; other output of the program (warnings of its libraries) is not JSON and is
/// skipped.
void read_line(const std::string& line, std::size_t number, std::map<std::string, Timing>& times,
               std::string& problem) {
    if (line.empty() || line.front() != '{') return;
    try {
        const JsonDocument document(line, "command output", number);
        const JsonNode root = document.root();
        const std::string uuid = root.at("uuid").as_string();
        Timing timing;
        timing.median_s = root.at("median_s").as_number();
        if (timing.median_s <= 0.0) root.at("median_s").expected("a time above 0");
        const auto samples = root.find("samples");
        timing.samples = samples ? static_cast<int>(samples->as_integer(1, 1'000'000)) : 1;
        timing.trimmed_mean_s = timing.p10_s = timing.p90_s = timing.median_s;
        timing.clock = "command";
        if (!times.emplace(uuid, timing).second) root.at("uuid").expected("each uuid once");
    } catch (const Error& error) {
        if (problem.empty()) problem = error.what();
    }
}

void fail_all(const EvaluationRequest& request, Evaluation& evaluation,
              const std::string& message) {
    evaluation.workloads.clear();
    for (const std::size_t workload : request.workloads) {
        WorkloadResult result;
        result.workload = workload;
        result.status = EvaluationStatus::evaluator_failed;
        result.message = message;
        evaluation.workloads.push_back(std::move(result));
    }
    evaluation.status = EvaluationStatus::evaluator_failed;
    evaluation.message = message;
}

}  // namespace

std::vector<WorkloadResult> command_results(const EvaluationRequest& request,
                                            const std::string& output) {
    std::map<std::string, Timing> times;
    std::string problem;
    std::size_t number = 0;
    for (std::size_t start = 0; start < output.size();) {
        const std::size_t end = std::min(output.find('\n', start), output.size());
        read_line(output.substr(start, end - start), ++number, times, problem);
        start = end + 1;
    }
    std::vector<WorkloadResult> results;
    for (const std::size_t index : request.workloads) {
        WorkloadResult result;
        result.workload = index;
        const auto found = times.find(request.task->workloads[index].uuid);
        if (found != times.end()) {
            result.timing = found->second;
        } else {
            result.status = EvaluationStatus::evaluator_failed;
            result.message = problem.empty() ? "the command printed no line for this workload"
                                             : "the command's output: " + problem;
        }
        results.push_back(std::move(result));
    }
    return results;
}

Evaluation run_command_baseline(const EvaluationRequest& request) {
    const auto started = std::chrono::steady_clock::now();
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.evaluator = "cuda";
    const BaselineSpec& baseline = *request.command;
    try {
        const TemporaryFolder folder;
        const CommandFiles files = {(folder.path() / "workloads.json").string(),
                                    (folder.path() / "definition.json").string(),
                                    (folder.path() / "script").string()};
        write_file_atomically(files.workloads, workloads_json(request));
        write_file_atomically(files.task, definition_json(*request.task));
        write_file_atomically(files.script, baseline.source);
        SubprocessOptions options;
        options.argv = command_words(baseline, request.task->folder, files);
        std::error_code ignored;
        options.working_folder = std::filesystem::is_directory(request.task->folder, ignored)
                                     ? request.task->folder
                                     : folder.path().string();
        options.max_output_bytes = most_output_bytes;
        const SubprocessResult run = run_subprocess(options, request.time_limit);
        if (run.timed_out) {
            fail_all(request, evaluation,
                     fmt::format("baseline {}: {} did not end within {} ms", baseline.name,
                                 options.argv.front(), request.time_limit.count()));
        } else if (!run.status.ok()) {
            fail_all(request, evaluation,
                     fmt::format("baseline {}: {} ended with {}: {}", baseline.name,
                                 options.argv.front(), run.status.describe(),
                                 last_line(run.error_output)));
        } else {
            evaluation.workloads = command_results(request, run.output);
            summarize_workloads(*request.task, evaluation);
        }
    } catch (const Error& error) {
        fail_all(request, evaluation, fmt::format("baseline {}: {}", baseline.name, error.what()));
    }
    evaluation.total_time = std::chrono::steady_clock::now() - started;
    evaluation.timing_time = evaluation.total_time;
    return evaluation;
}

}  // namespace kernelforge::worker
