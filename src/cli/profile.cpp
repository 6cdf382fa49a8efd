// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/subject.hpp"
#include "cli/table.hpp"
#include "kernelforge/profiler_tool.hpp"
#include "occupancy.hpp"
#include "roofline.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cli {
namespace {

struct LaunchRow {
    std::size_t workload = 0;
    plan::ResolvedLaunch launch;
    Occupancy occupancy;
    std::int64_t threads = 0;
};

/// Every launch of every workload with its occupancy, from the compiled kernels alone.
std::vector<LaunchRow> launches_of(const Subject& subject) {
    std::vector<LaunchRow> rows;
    const Built& built = subject.candidates[0];
    for (std::size_t i = 0; i < subject.workloads.size(); ++i) {
        const CompileResult& build = built.compiled.builds[built.compiled.build_of_workload[i]];
        for (const auto& step : built.resolved[i].steps) {
            const auto* launch = std::get_if<plan::ResolvedLaunch>(&step);
            if (launch == nullptr) continue;
            LaunchRow row{subject.workloads[i], *launch, {}, 0};
            row.threads = launch->block[0] * launch->block[1] * launch->block[2];
            for (const KernelFacts& facts : build.kernels) {
                if (facts.name != launch->kernel) continue;
                row.occupancy =
                    occupancy(facts, row.threads, launch->shared_bytes,
                              launch->grid[0] * launch->grid[1] * launch->grid[2], subject.device);
            }
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

std::string extent(const std::array<std::int64_t, 3>& e) {
    if (e[2] != 1) return fmt::format("{}x{}x{}", e[0], e[1], e[2]);
    if (e[1] != 1) return fmt::format("{}x{}", e[0], e[1]);
    return std::to_string(e[0]);
}

std::string launch_table(const Subject& subject, const std::vector<LaunchRow>& launches) {
    std::vector<std::vector<std::string>> rows = {
        {"workload", "kernel", "grid", "block", "shared", "occupancy", "limited by"}};
    for (const LaunchRow& row : launches) {
        rows.push_back({describe_workload(*subject.task, row.workload), row.launch.kernel,
                        extent(row.launch.grid), extent(row.launch.block),
                        std::to_string(row.launch.shared_bytes),
                        fmt::format("{:.0f} %", row.occupancy.fraction * 100),
                        std::string(to_string(row.occupancy.limiter))});
    }
    return format_table(rows);
}

std::string bar(double fraction) {
    const int filled = static_cast<int>(std::min(1.0, std::max(0.0, fraction)) * 20 + 0.5);
    return std::string(static_cast<std::size_t>(filled), '#') +
           std::string(static_cast<std::size_t>(20 - filled), '.');
}

std::string roofline_table(const Subject& subject, const std::vector<Bottleneck>& bottlenecks) {
    std::vector<std::vector<std::string>> rows = {
        {"workload", "limited by", "memory roof", "", "compute roof", "", "time / bound"}};
    for (const Bottleneck& b : bottlenecks) {
        rows.push_back({describe_workload(*subject.task, b.key.workload),
                        std::string(to_string(b.kind)), bar(b.memory_fraction),
                        fmt::format("{:.0f} %", b.memory_fraction * 100), bar(b.compute_fraction),
                        fmt::format("{:.0f} %", b.compute_fraction * 100),
                        b.headroom > 0 ? fmt::format("{:.2f}", b.headroom) : "?"});
    }
    return format_table(rows);
}

Json launches_json(const std::vector<LaunchRow>& launches) {
    Json list = Json::array();
    for (const LaunchRow& row : launches) {
        list.push_back({{"workload", row.workload},
                        {"kernel", row.launch.kernel},
                        {"grid", row.launch.grid},
                        {"block", row.launch.block},
                        {"dynamic_shared_bytes", row.launch.shared_bytes},
                        {"occupancy", row.occupancy.fraction},
                        {"blocks_per_multiprocessor", row.occupancy.blocks},
                        {"limiter", to_string(row.occupancy.limiter)}});
    }
    return list;
}

int profile(Context& context, const SubjectOptions& options) {
    const std::stop_token stop = stop_on_signal();
    const Subject subject = prepare(context, options, stop);
    const Built& built = subject.candidates[0];
    if (!built.ok()) {
        if (context.json) {
            print_json({{"static", static_facts_json(built)}});
        } else {
            std::printf("%s", static_facts(built).c_str());
        }
        return exit_negative;
    }
    const std::vector<LaunchRow> launches = launches_of(subject);
    std::optional<Evaluation> evaluation;
    std::vector<Bottleneck> bottlenecks;
    if (subject.has_device) {
        evaluation = subject.evaluator->evaluate(request_for(subject, options, 0), stop);
        for (const WorkloadResult& result : evaluation->workloads) {
            if (!result.timing || subject.device.emulated) continue;
            bottlenecks.push_back(bottleneck(*subject.task, {result.workload, 0},
                                             result.timing->median_s, subject.device.roofs));
        }
    }
    if (context.json) {
        Json positions = Json::array();
        for (const Bottleneck& b : bottlenecks) positions.push_back(wire::encode(b));
        Json result = {
            {"device", subject.device.name},           {"evaluator", subject.evaluator_name},
            {"times", label_of_times(subject.device)}, {"static", static_facts_json(built)},
            {"launches", launches_json(launches)},     {"bottlenecks", positions}};
        if (evaluation) result["evaluation"] = wire::encode(*evaluation);
        print_json(result);
    } else {
        std::printf("device: %s, evaluator %s\n%s\n%s", subject.device.name.c_str(),
                    subject.evaluator_name.c_str(), static_facts(built).c_str(),
                    launch_table(subject, launches).c_str());
        if (evaluation && subject.device.emulated) {
            std::printf("\n%s: a roofline position needs measured times and roofs\n",
                        subject.device.name.c_str());
        } else if (evaluation) {
            std::printf("\n%s", roofline_table(subject, bottlenecks).c_str());
            for (const Bottleneck& b : bottlenecks) std::printf("%s\n", b.sentence.c_str());
        }
        if (evaluation) {
            std::printf("verdict: %s%s%s\n", std::string(to_string(evaluation->status)).c_str(),
                        evaluation->message.empty() ? "" : ": ", evaluation->message.c_str());
        }
    }
    if (!subject.has_device) {
        std::fputs(
            "kernelforge: there is no GPU here, so there is no time and no roofline position\n",
            stderr);
        return exit_environment;
    }
    return exit_code_of(evaluation->status);
}

}  // namespace

Run add_profile(CLI::App& app, Context& context) {
    const auto options = std::make_shared<SubjectOptions>();  // shared with the returned function
    options->candidates.resize(1);
    app.add_option("task", options->task, "Task folder")->required();
    app.add_option("candidate", options->candidates[0], "Candidate, a .cu file with its plan")
        ->required();
    add_subject_options(app, *options);
    return [&context, options] { return profile(context, *options); };
}

}  // namespace kernelforge::cli
