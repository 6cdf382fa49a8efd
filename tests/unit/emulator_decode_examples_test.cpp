// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "emulator/program.hpp"
#include "emulator_decode_check.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/compile_source.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker/nvrtc_library.hpp"

// The PTX that NVRTC makes of the example tasks' kernels.

using namespace kernelforge;
using namespace kernelforge::emulator;
namespace fs = std::filesystem;

namespace {

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Constant axes of the task and the first value of every `//@tune NAME = value …`.
std::vector<std::pair<std::string, std::int64_t>> defines_of(const fs::path& task,
                                                             const std::string& source) {
    std::vector<std::pair<std::string, std::int64_t>> defines;
    const auto definition = nlohmann::json::parse(text_of(task / "definition.json"));
    for (const auto& [name, axis] : definition.at("axes").items()) {
        if (axis.at("type") == "const") {
            defines.emplace_back(name, axis.at("value").get<std::int64_t>());
        }
    }
    const std::string mark = "//@tune ";
    for (std::size_t at = source.find(mark); at != std::string::npos;
         at = source.find(mark, at + 1)) {
        const std::size_t begin = at + mark.size();
        const std::size_t end = source.find_first_of(" =:", begin);
        const std::size_t digits = source.find_first_of("0123456789", end);
        defines.emplace_back(source.substr(begin, end - begin),
                             std::strtoll(source.c_str() + digits, nullptr, 10));
    }
    return defines;
}

std::string ptx_of(const fs::path& task, const fs::path& file, const compile::Toolkit& toolkit,
                   const compile::NvrtcLibrary& nvrtc) {
    const std::string source = text_of(file);
    const compile::ScannedSource scanned = compile::scan_source(source, "candidate.cu", {});
    const std::string text = compile::assemble_source(scanned, defines_of(task, source)).text;
    std::vector<std::string> options{"--gpu-architecture=compute_90a", "-lineinfo", "--std=c++17"};
    for (const std::string& folder : toolkit.include_folders) {
        options.push_back("-I" + folder);
    }
    std::vector<const char*> pointers;
    for (const std::string& option : options) {
        pointers.push_back(option.c_str());
    }
    nvrtcProgram program = nullptr;
    REQUIRE(nvrtc.create_program(&program, text.c_str(), "candidate.cu", 0, nullptr, nullptr) ==
            NVRTC_SUCCESS);
    const nvrtcResult result =
        nvrtc.compile_program(program, static_cast<int>(pointers.size()), pointers.data());
    std::size_t bytes = 0;
    nvrtc.log_size(program, &bytes);
    std::string log(bytes, '\0');
    nvrtc.log(program, log.data());
    INFO(file.string() << ": " << log);
    REQUIRE(result == NVRTC_SUCCESS);
    REQUIRE(nvrtc.ptx_size(program, &bytes) == NVRTC_SUCCESS);
    std::string ptx(bytes, '\0');
    nvrtc.ptx(program, ptx.data());
    nvrtc.destroy_program(&program);
    ptx.resize(ptx.find_last_not_of('\0') + 1);
    return ptx;
}

/// What is wrong with a file's PTX: the refusal, or rows that two values share; empty: nothing.
std::string problem_of(const std::string& ptx) {
    try {
        const std::vector<std::string> problems = emulator::test::check_rows(parse_ptx(ptx));
        return problems.empty() ? "" : problems[0];
    } catch (const PtxError& error) {
        return "line " + std::to_string(error.place().ptx_line) + ": " + error.what();
    }
}

void check_tasks(bool only_one) {
    const compile::Toolkit toolkit = compile::find_toolkit({});
    const compile::NvrtcLibrary nvrtc(toolkit.library);
    std::vector<std::string> refused;
    int decoded = 0;
    for (const auto& task :
         fs::directory_iterator(kernelforge::test::source_folder() / "examples/tasks")) {
        if (!task.is_directory()) continue;
        std::vector<fs::path> files{task.path() / "reference.cu"};
        for (const auto& entry : fs::directory_iterator(task.path() / "candidates")) {
            files.push_back(entry.path());
        }
        std::sort(files.begin(), files.end());
        if (only_one && task.path().filename() != "softmax_rows") continue;
        if (only_one) files.resize(1);
        for (const fs::path& file : files) {
            const std::string problem = problem_of(ptx_of(task.path(), file, toolkit, nvrtc));
            ++decoded;
            if (!problem.empty()) {
                refused.push_back(file.string() + ": " + problem);
            }
        }
    }
    CHECK(decoded >= (only_one ? 1 : 60));
    for (const std::string& one : refused) {
        FAIL_CHECK(one);
    }
}

}  // namespace

TEST_CASE("a kernel that NVRTC compiles is decoded", "[decode]") {
    check_tasks(true);
}

// A minute; run by name.
TEST_CASE("every kernel of the example tasks is decoded", "[.][decode-examples]") {
    check_tasks(false);
}
