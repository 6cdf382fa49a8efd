// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"

// Declared and called, defined nowhere.
std::unique_ptr<kernelforge::ProfilerTool> function_that_nobody_defines(
    std::string_view, const kernelforge::PluginContext&);

namespace {
constexpr kernelforge::Factory<kernelforge::ProfilerTool> tools[] = {
    {"tool", "", function_that_nobody_defines}};
}

KERNELFORGE_PLUGIN(undefined_symbol) = {KERNELFORGE_PLUGIN_HEAD("undefined_symbol", "1"),
                                        .profiler_tools = tools};
