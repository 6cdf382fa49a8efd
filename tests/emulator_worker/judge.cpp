// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/files.hpp"
#include "hidden_shapes.hpp"
#include "rig.hpp"
#include "support/support.hpp"

// usage: kernelforge_judge_emulated TASK_FOLDER [--check-off] [--screen] [--axis NAME=VALUE ...]
// [CANDIDATE.cu ...] Without candidates those of the task's folder, its reference and its baseline.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

struct Arguments {
    std::string folder;
    std::vector<std::string> worker;
    EvaluationDepth depth = EvaluationDepth::check;
    std::map<std::string, std::int64_t> axes;
    std::vector<std::filesystem::path> candidates;
};

Arguments parse(const std::vector<std::string>& words) {
    Arguments arguments;
    arguments.folder = words.at(0);
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i] == "--check-off") {
            arguments.worker.push_back("--no-check");
        } else if (words[i] == "--screen") {
            arguments.depth = EvaluationDepth::screen;
        } else if (words[i] == "--axis") {
            const std::string& word = words.at(++i);
            const std::size_t equals = word.find('=');
            arguments.axes[word.substr(0, equals)] = std::stoll(word.substr(equals + 1));
        } else {
            arguments.candidates.push_back(words[i]);
        }
    }
    if (arguments.candidates.empty()) {
        for (const char* name : {"reference.cu", "baseline.cu"}) {
            arguments.candidates.push_back(std::filesystem::path(arguments.folder) / name);
        }
        for (const auto& entry : std::filesystem::directory_iterator(
                 std::filesystem::path(arguments.folder) / "candidates")) {
            arguments.candidates.push_back(entry.path());
        }
        std::sort(arguments.candidates.begin(), arguments.candidates.end());
    }
    return arguments;
}

/// The task's emulator workloads, or its first workload with these axes alone.
Task small(Task task, const std::map<std::string, std::int64_t>& axes) {
    if (axes.empty()) return emulator_task(task).task;
    task.workloads.resize(1);
    for (const auto& [name, value] : axes) task.workloads[0].axes[name] = value;
    return task;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Arguments arguments = parse({argv + 1, argv + argc});
        const auto task =
            std::make_shared<const Task>(small(load_task(arguments.folder), arguments.axes));
        EmulatorRig rig(arguments.worker);
        for (const std::filesystem::path& file : arguments.candidates) {
            const Evaluation found =
                rig.judge(task, {read_file(file), arguments.depth, "", std::chrono::seconds(60)});
            std::printf("%-40s %-16s %-16s %6.2f s  %s\n", file.filename().c_str(),
                        std::string(to_string(found.status)).c_str(), found.rule.c_str(),
                        found.total_time.count(), found.message.c_str());
            std::fflush(stdout);
        }
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
