// SPDX-License-Identifier: Apache-2.0
// How long it takes to screen one candidate with warm workers, split into compile, check and time,
// beside what a user of a PyTorch extension waits for, in one run.
//
//     benchmark_screen examples/tasks/add_rmsnorm examples/tasks/add_rmsnorm/candidates/fast.cu
//
// Every repetition compiles a text that was never compiled before, so no cache helps. Needs a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/files.hpp"
#include "base/subprocess.hpp"
#include "builds.hpp"
#include "kernelforge/registry.hpp"
#include "referee/statistics.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);

namespace {

using namespace kernelforge;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void print_row(const char* name, std::vector<double> samples) {
    if (samples.empty()) {
        std::printf("%-44s  not available here\n", name);
        return;
    }
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double share) {
        return samples[static_cast<std::size_t>(
            std::lround(share * static_cast<double>(samples.size() - 1)))];
    };
    std::printf("%-44s  %9.3f  %9.3f  %9.3f  %3zu\n", name, at(0.5), at(0.1), at(0.9),
                samples.size());
}

std::vector<double> time_command(const std::vector<std::string>& argv, int repetitions) {
    std::vector<double> samples;
    for (int i = 0; i < repetitions; ++i) {
        try {
            const auto result = run_subprocess({.argv = argv}, std::chrono::minutes(3));
            if (!result.status.ok()) return samples;
            samples.push_back(result.time.count());
        } catch (const Error&) {
            return samples;  // no such program here
        }
    }
    return samples;
}

int run(const std::string& task_folder, const std::string& file, int repetitions) {
    Registry registry;
    registry.add(kernelforge_plugin_compiler_nvrtc);
    registry.add(kernelforge_plugin_evaluator_cuda);
    const auto compiler = registry.make<Compiler>("nvrtc");
    const auto evaluator = registry.make<Evaluator>("cuda");
    const std::vector<DeviceInfo> devices = evaluator->devices();
    if (devices.empty()) {
        std::fputs("benchmark_screen: there is no GPU here\n", stderr);
        return 3;
    }
    const auto task = std::make_shared<const Task>(load_task(task_folder));
    // Two small and two large shapes, or as many as there are.
    std::vector<std::size_t> workloads;
    const std::size_t count = task->workloads.size();
    for (const std::size_t w : {std::size_t{0}, count / 2, count > 2 ? count - 2 : 0, count - 1}) {
        if (std::find(workloads.begin(), workloads.end(), w) == workloads.end())
            workloads.push_back(w);
    }
    const std::string source = read_file(file);
    const Built reference = build_candidate(*compiler, *task, {task->reference_cuda, {}},
                                            "reference.cu", workloads, devices[0], {}, {});
    const Built opponent = build_candidate(*compiler, *task, {task->baselines.at(0).source, {}},
                                           "baseline.cu", workloads, devices[0], {}, {});
    if (!reference.ok() || !opponent.ok()) {
        std::fprintf(stderr, "benchmark_screen: %s%s\n", reference.message.c_str(),
                     opponent.message.c_str());
        return 2;
    }
    std::vector<double> total, compile, check, timing, whole_evaluation;
    for (int i = 0; i < repetitions + 2; ++i) {
        const auto start = Clock::now();
        const Candidate candidate{
            source + fmt::format("\n// variant {} of {}\n", i, start.time_since_epoch().count()),
            {}};
        const Built built =
            build_candidate(*compiler, *task, candidate, file, workloads, devices[0], {}, {});
        const double compile_s = seconds_since(start);
        if (!built.ok()) {
            std::fprintf(stderr, "benchmark_screen: %s\n", built.message.c_str());
            return 2;
        }
        EvaluationRequest request;
        request.id = std::to_string(i);
        request.task = task;
        request.workloads = workloads;
        request.candidate = built.compiled;
        request.reference = reference.compiled;
        request.opponent = opponent.compiled;
        request.seed = static_cast<std::uint64_t>(i);
        const auto evaluation_start = Clock::now();
        const Evaluation evaluation = evaluator->evaluate(request, {});
        if (evaluation.status != EvaluationStatus::ok) {
            std::fprintf(stderr, "benchmark_screen: %s: %s\n",
                         std::string(to_string(evaluation.status)).c_str(),
                         evaluation.message.c_str());
            return 1;
        }
        if (i < 2) continue;  // workers warm up
        whole_evaluation.push_back(seconds_since(evaluation_start));
        total.push_back(seconds_since(start));
        compile.push_back(compile_s);
        check.push_back(evaluation.check_time.count());
        timing.push_back(evaluation.timing_time.count());
    }
    std::printf("%s, %zu shapes, %s\n", task->definition.name.c_str(), workloads.size(),
                devices[0].name.c_str());
    std::printf("%-44s  %9s  %9s  %9s  %3s\n", "seconds", "median", "p10", "p90", "n");
    print_row("screen of a new candidate, warm workers", total);
    print_row("  compile (NVRTC alone, PTX and cubin)", compile);
    print_row("  evaluation", whole_evaluation);
    print_row("    check", check);
    print_row("    time (10 quads a shape)", timing);
    const std::string script = std::string(KERNELFORGE_BENCHMARK_FOLDER) + "/torch_extension.py";
    print_row("nvcc-built PyTorch extension (build alone)", time_command({"python3", script}, 2));
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 3) {
        std::fputs("usage: benchmark_screen TASK CANDIDATE [REPETITIONS]\n", stderr);
        return 2;
    }
    return run(argv[1], argv[2], argc > 3 ? std::max(1, std::atoi(argv[3])) : 15);
} catch (const std::exception& error) {
    std::fprintf(stderr, "benchmark_screen: %s\n", error.what());
    return 2;
}
