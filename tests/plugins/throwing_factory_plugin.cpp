// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "kernelforge/error.hpp"
#include "kernelforge/plugin.hpp"

namespace {

using namespace kernelforge;

std::unique_ptr<ProfilerTool> throws_error(std::string_view, const PluginContext&) {
    throw Error(ErrorCode::unsupported, "needs a barometer");
}
std::unique_ptr<ProfilerTool> throws_standard(std::string_view, const PluginContext&) {
    throw std::length_error("too long");
}
std::unique_ptr<ProfilerTool> throws_int(std::string_view, const PluginContext&) {
    throw 42;
}
std::unique_ptr<ProfilerTool> gives_nothing(std::string_view, const PluginContext&) {
    return nullptr;
}

constexpr Factory<ProfilerTool> tools[] = {{"throws_error", "", throws_error},
                                           {"throws_standard", "", throws_standard},
                                           {"throws_int", "", throws_int},
                                           {"gives_nothing", "", gives_nothing}};

}  // namespace

KERNELFORGE_PLUGIN(throwing_factory) = {KERNELFORGE_PLUGIN_HEAD("throwing_factory", "1"),
                                        .profiler_tools = tools};
