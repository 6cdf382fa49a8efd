// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/files.hpp"
#include "rig.hpp"
#include "support/support.hpp"

// The candidates that come with the example tasks get the verdict that their names say.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

void judge_candidates(const std::string& name) {
    const std::filesystem::path folder = source_folder() / "examples/tasks" / name;
    const auto task = std::make_shared<const Task>(load_task(folder.string()));
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "candidates")) {
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    REQUIRE_FALSE(files.empty());
    for (const std::filesystem::path& file : files) {
        const Evaluation evaluation = rig()->run(
            task, {read_file(file), {}, EvaluationDepth::check, std::chrono::seconds(60)});
        const bool wrong = file.stem().string().rfind("wrong", 0) == 0;
        std::printf("%s/%s: %s, %.3f s %s\n", name.c_str(), file.filename().c_str(),
                    std::string(to_string(evaluation.status)).c_str(),
                    evaluation.total_time.count(), evaluation.message.c_str());
        INFO(file);
        INFO(evaluation.message);
        CHECK(evaluation.status == (wrong ? EvaluationStatus::wrong_result : EvaluationStatus::ok));
    }
}

}  // namespace

TEST_CASE("candidates of the example tasks are judged as named", "[gpu][tasks]") {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(source_folder() / "examples/tasks")) {
        if (std::filesystem::is_directory(entry.path() / "candidates")) {
            names.push_back(entry.path().filename().string());
        }
    }
    std::sort(names.begin(), names.end());
    REQUIRE(names.size() >= 4);
    for (const std::string& name : names) {
        SECTION(name) {
            judge_candidates(name);
        }
    }
}
