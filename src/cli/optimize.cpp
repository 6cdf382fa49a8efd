// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "admission.hpp"
#include "base/files.hpp"
#include "cli/subject.hpp"
#include "cli/table.hpp"
#include "kernelforge/forge.hpp"
#include "kernelforge/recording.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

struct OptimizeOptions {
    std::string task;
    std::string run_folder;
    std::string llm;
    std::string evaluator = "auto";
    std::string strategy = "greedy";
    std::string guide_file;
    std::string record_file;
    std::string record_author;
    std::string record_note;
    std::string feedback = "findings";
    std::vector<std::string> tools;
    std::optional<std::int64_t> evaluations = 40;
    std::optional<std::int64_t> minutes;
    std::optional<std::int64_t> tokens;
    std::optional<double> cost_usd;
    std::int64_t evaluation_limit_s = 60;
    bool admission = false;
    ForgeOptions forge;
};

Feedback parse_feedback(const std::string& text) {
    if (text == "none") return Feedback::none;
    if (text == "raw") return Feedback::raw;
    return Feedback::findings;
}

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
    return text;
}

std::unique_ptr<LlmBackend> make_llm(Context& context, const OptimizeOptions& options,
                                     const Task& task) {
    const Choice choice = parse_choice(options.llm);
    auto backend =
        context.registry.make<LlmBackend>(choice.name, choice.options, context.plugin_context());
    if (options.record_file.empty()) return backend;
    RecordingHeader header;
    header.author = options.record_author;
    header.definition = task.definition.name;
    header.created = today();
    header.note = options.record_note;
    return record(std::move(backend), options.record_file, header);
}

void show(const ForgeEvent& event) {
    // Progress goes to stderr, so that stdout holds the result alone, which ends with the same
    // sentence.
    if (event.kind == ForgeEvent::Kind::waiting || event.kind == ForgeEvent::Kind::stopped) return;
    std::fprintf(stderr, "%s\n", event.message.c_str());
}

/// On an emulated device every time says that it is modelled, and what needs measured roofs is left
/// out.
std::string result_table(const ForgeResult& result) {
    const bool emulated = result.device.emulated;
    const auto label = [&](const std::string& column) {
        return emulated ? fmt::format("{}, {}", column, label_of_times(result.device)) : column;
    };
    std::vector<std::vector<std::string>> rows = {{"workload"}};
    if (!result.workloads.empty()) {
        for (const auto& [name, seconds] : result.workloads[0].baselines_s) {
            rows[0].push_back(label(name));
        }
    }
    const std::size_t baselines = rows[0].size() - 1;
    rows[0].push_back(label("best"));
    if (!emulated) rows[0].push_back("bound");
    rows[0].push_back(emulated ? label("ratio") : "speedup");
    if (!emulated) rows[0].push_back("best / bound");
    const auto time = [](const std::optional<double>& value) {
        return value ? format_seconds(*value) : std::string("-");
    };
    const auto ratio = [](const std::optional<double>& value) {
        return value ? fmt::format("{:.2f}", *value) : std::string("-");
    };
    for (std::size_t w = 0; w < result.workloads.size(); ++w) {
        const WorkloadSummary& workload = result.workloads[w];
        std::vector<std::string> row = {workload.axes};
        for (std::size_t i = 0; i < baselines; ++i) {
            row.push_back(i < workload.baselines_s.size()
                              ? format_seconds(workload.baselines_s[i].second)
                              : "-");
        }
        row.push_back(time(workload.best_s));
        if (!emulated) row.push_back(time(workload.bound_s));
        row.push_back(ratio(workload.speedup));
        if (!emulated) row.push_back(ratio(workload.headroom));
        rows.push_back(std::move(row));
    }
    return format_table(rows);
}

bool has_time(const WorkloadSummary& workload, const std::string& baseline) {
    return std::any_of(workload.baselines_s.begin(), workload.baselines_s.end(),
                       [&](const auto& pair) { return pair.first == baseline; });
}

/// Share of the prompts' tokens that the service read from its cache.
std::optional<double> cache_hit_rate(const Usage& usage) {
    if (!usage.cached_input_tokens || usage.input_tokens.value_or(0) <= 0) return std::nullopt;
    return static_cast<double>(*usage.cached_input_tokens) /
           static_cast<double>(*usage.input_tokens);
}

Json result_json(const ForgeResult& result) {
    Json workloads = Json::array();
    for (const WorkloadSummary& w : result.workloads) {
        Json baselines = Json::object();
        for (const auto& [name, seconds] : w.baselines_s) baselines[name] = seconds;
        Json row = {{"uuid", w.uuid}, {"axes", w.axes}, {"baselines_s", baselines}};
        if (w.best_s) row["best_s"] = *w.best_s;
        if (w.bound_s) row["bound_s"] = *w.bound_s;
        if (w.speedup) row["speedup"] = *w.speedup;
        if (w.headroom) row["headroom"] = *w.headroom;
        workloads.push_back(std::move(row));
    }
    Json json = {{"stop_reason", to_string(result.stop_reason)},
                 {"message", result.message},
                 {"best_node", result.best_node.value},
                 {"best_path", result.best_path},
                 {"workloads", workloads},
                 {"evaluations", result.evaluations},
                 {"expansions", result.expansions},
                 {"time_s", result.time.count()},
                 {"usage", wire::encode(result.usage)},
                 {"evaluator", result.evaluator},
                 {"times", label_of_times(result.device)},
                 {"device", wire::encode(result.device)}};
    if (result.speedup) json["speedup"] = *result.speedup;
    if (result.speedup_over_best) {
        json["best_baseline"] = result.best_baseline;
        json["speedup_over_best_baseline"] = *result.speedup_over_best;
    }
    if (const auto rate = cache_hit_rate(result.usage)) json["cache_hit_rate"] = *rate;
    json["sanitizer"] = Json::object();
    for (const SanitizerResult& tool : result.sanitizer) {
        json["sanitizer"][tool.tool] = to_string(tool.status);
    }
    return json;
}

/// Over the portable baseline, and over the best one, which is what counts.
void print_speedups(const Task& task, const ForgeResult& result) {
    if (result.evaluator.empty()) {
        std::printf("nothing was judged\n");
        return;
    }
    std::printf("judged on %s by evaluator %s, times %s\n", result.device.name.c_str(),
                result.evaluator.c_str(), std::string(label_of_times(result.device)).c_str());
    if (result.speedup) {
        std::printf("%s over the portable baseline: %.3f (weighted geometric mean)\n",
                    result.device.emulated ? "ratio of modelled (static) times" : "speedup",
                    *result.speedup);
    }
    if (result.device.emulated) {
        std::printf("bound and headroom need roofs, which are measured on a GPU: left out\n");
        if (result.speedup) std::printf("%s\n", meaning_of_modelled_times);
        return;
    }
    if (result.speedup_over_best) {
        std::printf("speedup over the best baseline, %s: %.3f\n", result.best_baseline.c_str(),
                    *result.speedup_over_best);
    }
    if (task.baselines.size() > 1) {
        for (const BaselineSpec& baseline : task.baselines) {
            if (!result.workloads.empty() && !has_time(result.workloads[0], baseline.name)) {
                std::printf("baseline %s has no time here: nothing is said about it\n",
                            baseline.name.c_str());
            }
        }
    }
    for (const SanitizerResult& tool : result.sanitizer) {
        std::printf("sanitizer: %s %s\n", tool.tool.c_str(),
                    std::string(to_string(tool.status)).c_str());
    }
}

void print_usage(const Usage& usage) {
    if (!usage.input_tokens || !usage.output_tokens) return;
    std::string cached;
    if (const auto rate = cache_hit_rate(usage)) {
        cached = fmt::format(" ({:.0f} % of them read from the service's cache)", 100.0 * *rate);
    }
    std::printf("tokens: %lld in%s, %lld out\n", static_cast<long long>(*usage.input_tokens),
                cached.c_str(), static_cast<long long>(*usage.output_tokens));
}

int exit_code_of(const ForgeResult& result) {
    switch (result.stop_reason) {
        case StopReason::backend_failed:
        case StopReason::evaluator_failed:
        case StopReason::waiting_for_completions:
        case StopReason::waiting_for_evaluations:
            return exit_environment;
        default:
            return result.best.variants.empty() ? exit_negative : exit_done;
    }
}

/// @returns done when the task is admitted
int admit_first(Context& context, const OptimizeOptions& options, std::stop_token stop) {
    SubjectOptions subject;
    subject.task = options.task;
    subject.evaluator = options.evaluator;
    subject.device = options.forge.device;
    const auto evaluation = admit(context, subject, stop);
    if (evaluation && is_admitted(*evaluation)) {
        std::fprintf(stderr, "the task is admitted: %zu checks\n", evaluation->admission.size());
        return exit_done;
    }
    return report_admission(context, options.task, evaluation);
}

int optimize(Context& context, OptimizeOptions& options) {
    const std::stop_token stop = stop_on_signal();
    if (options.admission) {
        if (const int code = admit_first(context, options, stop); code != exit_done) return code;
    }
    const Task task = load_task(options.task);
    const PluginContext plugin_context = context.plugin_context();
    const Choice strategy = parse_choice(options.strategy);

    ForgeParts parts;
    parts.compiler = context.registry.make<Compiler>("nvrtc", "{}", plugin_context);
    ChosenEvaluator chosen = make_evaluator(context, options.evaluator);
    parts.evaluator = std::move(chosen.evaluator);
    parts.llm = make_llm(context, options, task);
    parts.strategy =
        context.registry.make<SearchStrategy>(strategy.name, strategy.options, plugin_context);
    for (const std::string& tool : options.tools) {
        const Choice choice = parse_choice(tool);
        parts.tools.push_back(
            context.registry.make<ProfilerTool>(choice.name, choice.options, plugin_context));
    }
    parts.on_event = show;
    parts.log = plugin_context.log;

    ForgeOptions& forge_options = options.forge;
    forge_options.run_folder = options.run_folder;
    forge_options.budget.evaluations = options.evaluations;
    if (options.minutes) forge_options.budget.time = std::chrono::minutes(*options.minutes);
    forge_options.budget.tokens = options.tokens;
    forge_options.budget.cost_usd = options.cost_usd;
    forge_options.feedback = parse_feedback(options.feedback);
    forge_options.evaluation_time_limit = std::chrono::seconds(options.evaluation_limit_s);
    if (!options.guide_file.empty())
        forge_options.guide = read_file(options.guide_file, std::size_t{1} << 20);

    Forge forge(std::move(parts), forge_options);
    const ForgeResult result = forge.run(task, stop);
    if (context.json) {
        print_json(result_json(result));
    } else {
        if (result.speedup) std::printf("%s", result_table(result).c_str());
        std::printf("%s: %s\n", std::string(to_string(result.stop_reason)).c_str(),
                    result.message.c_str());
        print_speedups(task, result);
        print_usage(result.usage);
        if (!result.best_path.empty())
            std::printf("best candidate: %s\n", result.best_path.c_str());
    }
    return exit_code_of(result);
}

}  // namespace

Run add_optimize(CLI::App& app, Context& context) {
    const auto options = std::make_shared<OptimizeOptions>();  // shared with the returned function
    app.add_option("task", options->task, "Task folder")->required();
    app.add_option("--run", options->run_folder, "Run folder: created, or gone on with")
        ->required();
    app.add_option("--llm", options->llm,
                   "Who completes: NAME or NAME:{json} or NAME:@file, see 'kernelforge plugins'")
        ->required();
    app.add_option("--evaluator", options->evaluator, evaluator_help)->capture_default_str();
    app.add_option("--strategy", options->strategy, "Who decides what to try, in the same form")
        ->capture_default_str();
    app.add_option("--tool", options->tools, "Profiler tool, in the same form; may be repeated");
    app.add_option("--guide", options->guide_file, "A text that every prompt carries");
    app.add_flag("--admit", options->admission,
                 "First judge whether the task can tell right from wrong candidates");
    app.add_option("--feedback", options->feedback, "What prompts show of a parent's diagnosis")
        ->check(CLI::IsMember({"none", "raw", "findings"}))
        ->capture_default_str();
    app.add_option("--record", options->record_file, "Write all completions to this recording");
    app.add_option("--record-author", options->record_author,
                   "Who completes, for the recording's header");
    app.add_option("--record-note", options->record_note, "A note for the recording's header");
    app.add_option("--evaluations", options->evaluations, "Budget: evaluations")
        ->capture_default_str();
    app.add_option("--minutes", options->minutes, "Budget: wall clock");
    app.add_option("--tokens", options->tokens, "Budget: tokens, input and output");
    app.add_option("--usd", options->cost_usd, "Budget: money");
    app.add_option("--generations", options->forge.generations,
                   "Expansions in a round; 0: one by one")
        ->capture_default_str();
    app.add_option("--rounds", options->forge.max_rounds, "Rounds at most; 0: no limit")
        ->capture_default_str();
    app.add_option("--repairs", options->forge.max_repairs, "Turns after the first of an expansion")
        ->check(CLI::Range(0, 10))
        ->capture_default_str();
    app.add_option("--in-flight", options->forge.max_in_flight,
                   "Completions and compilations at once")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("--headroom", options->forge.stop_headroom,
                   "Stop when time over bound is at most this")
        ->capture_default_str();
    app.add_option("--target", options->forge.target_speedup, "Stop at this speedup");
    app.add_option("--seed", options->forge.seed, "Seed")->capture_default_str();
    app.add_option("--device", options->forge.device, "Device index")->capture_default_str();
    app.add_option("--evaluation-limit", options->evaluation_limit_s, "Seconds for one evaluation")
        ->check(CLI::Range(1, 86'400))
        ->capture_default_str();
    return [&context, options] { return optimize(context, *options); };
}

}  // namespace kernelforge::cli
