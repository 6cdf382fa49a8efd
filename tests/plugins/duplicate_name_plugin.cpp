// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"

namespace {

std::unique_ptr<kernelforge::LlmBackend> make(std::string_view, const kernelforge::PluginContext&) {
    return nullptr;
}

// "fresh" is free, "echo" is not: neither may be added.
constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {{"fresh", "", make},
                                                                      {"echo", "", make}};

}  // namespace

KERNELFORGE_PLUGIN(duplicate_name) = {KERNELFORGE_PLUGIN_HEAD("duplicate_name", "1"),
                                      .llm_backends = backends};
