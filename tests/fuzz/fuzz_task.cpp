// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "kernelforge/error.hpp"
#include "task_text.hpp"

// Input: the text of definition.json, a zero byte, the text of workload.jsonl.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t split = std::min(input.find('\0'), input.size());
    TaskText text{std::string(input.substr(0, split)), "definition.json",
                  std::string(input.substr(std::min(split + 1, input.size()))), "workload.jsonl"};
    try {
        const Task task = parse_task(text, [](const std::string& name) {
            for (const auto& part : std::filesystem::path(name)) {
                if (part == ".." || part == "/") __builtin_trap();
            }
            return "// " + name + "\n";
        });
        // What was read obeys the rules for tasks in memory, and its axes have values.
        check_task(task);
        for (const Workload& workload : task.workloads) {
            (void)axis_values(task.definition, workload);
        }
    } catch (const Error& error) {
        if (error.code() != ErrorCode::parse && error.code() != ErrorCode::unsupported) {
            __builtin_trap();
        }
        if (error.position().line == 0) __builtin_trap();
    }
    return 0;
}
