// SPDX-License-Identifier: Apache-2.0
#include "anthropic_backend.hpp"
#include "kernelforge/plugin.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {
    {"anthropic", "asks Anthropic's Messages API over HTTP, with prompt caching",
     kernelforge::make_anthropic_backend}};

}  // namespace

KERNELFORGE_PLUGIN(llm_anthropic) = {KERNELFORGE_PLUGIN_HEAD("llm_anthropic", "0.1.0"),
                                     .llm_backends = backends};
