// SPDX-License-Identifier: Apache-2.0
// What a user would call today, for each task and workload: every baseline of the task (portable,
// libraries with their algorithm, programs such as PyTorch eager and compiled) by the referee's own
// clock, beside the bound.
//
//     benchmark_baselines TASK_FOLDER... [--candidate FILE] [--workloads N]
//
// FILE, relative to each folder, is timed as well; N evenly spread workloads of each task instead
// of all. Cold medians in microseconds; "-" where there is none, with the reason below. Needs a
// GPU.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "builds.hpp"
#include "kernelforge/registry.hpp"
#include "roofline.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);

namespace {

using namespace kernelforge;

struct Column {
    std::string name;
    std::vector<std::optional<double>> median_s;  ///< by workload
    std::vector<std::string> notes;
};

class Measuring {
  public:
    Measuring() {
        registry_.add(kernelforge_plugin_compiler_nvrtc);
        registry_.add(kernelforge_plugin_evaluator_cuda);
        compiler_ = registry_.make<Compiler>("nvrtc");
        evaluator_ = registry_.make<Evaluator>("cuda");
        const std::vector<DeviceInfo> devices = evaluator_->devices();
        if (devices.empty()) throw Error(ErrorCode::device_unavailable, "there is no GPU here");
        device_ = devices[0];
    }

    [[nodiscard]] const DeviceInfo& device() const { return device_; }

    void run(const std::string& folder, const std::string& candidate, std::size_t most) {
        Task task = load_task(folder);
        spread(task.workloads, most);
        task_ = std::make_shared<const Task>(std::move(task));
        workloads_.resize(task_->workloads.size());
        for (std::size_t i = 0; i < workloads_.size(); ++i) workloads_[i] = i;
        reference_ = build({.name = "reference", .source = task_->reference_cuda});
        std::vector<Column> columns;
        for (const BaselineSpec& baseline : task_->baselines) columns.push_back(time(baseline));
        const std::string file = folder + "/" + candidate;
        if (!candidate.empty() && std::filesystem::exists(file)) {
            columns.push_back(time({.name = candidate, .source = read_file(file)}));
        }
        print(columns);
    }

  private:
    static void spread(std::vector<Workload>& workloads, std::size_t most) {
        const std::size_t count = workloads.size();
        if (count <= most || most < 2) return;
        std::vector<Workload> kept;
        for (std::size_t i = 0; i < most; ++i) {
            kept.push_back(workloads[i * (count - 1) / (most - 1)]);
        }
        workloads = std::move(kept);
    }

    Built build(const BaselineSpec& spec) {
        Built built = build_candidate(*compiler_, *task_, {spec.source, {}}, spec.name + ".cu",
                                      workloads_, device_, {}, {});
        if (!built.ok() && spec.name == "reference") {
            throw Error(ErrorCode::invalid_argument, "reference: " + built.message);
        }
        return built;
    }

    Column time(const BaselineSpec& spec) {
        Column column{spec.name, std::vector<std::optional<double>>(workloads_.size()), {}};
        EvaluationRequest request;
        request.id = spec.name;
        request.task = task_;
        request.workloads = workloads_;
        request.reference = reference_.compiled;
        request.time_limit = std::chrono::minutes(5);
        if (spec.kind == BaselineSpec::Kind::command) {
            request.command = spec;
        } else {
            const Built built = build(spec);
            if (!built.ok()) {
                column.notes.push_back(built.message);
                return column;
            }
            request.candidate = built.compiled;
        }
        const Evaluation evaluation = evaluator_->evaluate(request, {});
        if (evaluation.status != EvaluationStatus::ok) column.notes.push_back(evaluation.message);
        for (const WorkloadResult& result : evaluation.workloads) {
            if (result.timing) column.median_s[result.workload] = result.timing->median_s;
            if (result.workload + 1 != workloads_.size()) continue;
            for (const std::string& step : result.library_steps) column.notes.push_back(step);
        }
        return column;
    }

    void print(const std::vector<Column>& columns) const {
        std::printf("\n%s\n%-44s", task_->definition.name.c_str(), "workload");
        for (const Column& column : columns) std::printf("  %16.16s", column.name.c_str());
        std::printf("  %10s\n", "bound");
        for (const std::size_t w : workloads_) {
            std::string axes;
            for (const auto& [name, value] : task_->workloads[w].axes) {
                axes += fmt::format("{}{}={}", axes.empty() ? "" : " ", name, value);
            }
            std::printf("%-44.44s", axes.c_str());
            for (const Column& column : columns) print_time(column.median_s[w], 16);
            print_time(bound_s(*task_, w, device_.roofs), 10);
            std::printf("\n");
        }
        std::printf("%-44s", "geometric mean over the portable baseline");
        for (const Column& column : columns) {
            const auto ratio = speedup(columns.front(), column);
            std::printf("  %16s", ratio ? fmt::format("{:.2f}x", *ratio).c_str() : "-");
        }
        std::printf("\n");
        for (const Column& column : columns) {
            for (const std::string& note : column.notes) {
                std::printf("  %s: %s\n", column.name.c_str(), note.c_str());
            }
        }
        std::fflush(stdout);
    }

    static void print_time(std::optional<double> seconds, int width) {
        std::printf("  %*s", width, seconds ? fmt::format("{:.2f}", *seconds * 1e6).c_str() : "-");
    }

    static std::optional<double> speedup(const Column& base, const Column& other) {
        double sum = 0.0;
        for (std::size_t w = 0; w < base.median_s.size(); ++w) {
            if (!base.median_s[w] || !other.median_s[w]) return std::nullopt;
            sum += std::log(*base.median_s[w] / *other.median_s[w]);
        }
        return std::exp(sum / static_cast<double>(base.median_s.size()));
    }

    Registry registry_;
    std::unique_ptr<Compiler> compiler_;
    std::unique_ptr<Evaluator> evaluator_;
    DeviceInfo device_;
    std::shared_ptr<const Task> task_;
    std::vector<std::size_t> workloads_;
    Built reference_;
};

}  // namespace

int main(int argc, char** argv) try {
    std::vector<std::string> folders;
    std::string candidate;
    std::size_t most = 10'000;
    for (int i = 1; i < argc; ++i) {
        if (std::string(argv[i]) == "--candidate" && i + 1 < argc) {
            candidate = argv[++i];
        } else if (std::string(argv[i]) == "--workloads" && i + 1 < argc) {
            most = static_cast<std::size_t>(std::max(2, std::atoi(argv[++i])));
        } else {
            folders.emplace_back(argv[i]);
        }
    }
    if (folders.empty()) {
        std::fputs("usage: benchmark_baselines TASK_FOLDER... [--candidate FILE] [--workloads N]\n",
                   stderr);
        return 2;
    }
    Measuring measuring;
    std::printf("%s, microseconds\n", measuring.device().name.c_str());
    for (const std::string& folder : folders) {
        try {
            measuring.run(folder, candidate, most);
        } catch (const Error& error) {
            std::printf("\n%s: %s\n", folder.c_str(), error.what());
        }
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark_baselines: %s\n", error.what());
    return 2;
}
