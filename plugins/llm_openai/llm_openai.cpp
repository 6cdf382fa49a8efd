// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"
#include "openai_backend.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {
    {"openai", "asks an OpenAI-compatible chat/completions server over HTTP",
     kernelforge::make_openai_backend}};

}  // namespace

KERNELFORGE_PLUGIN(llm_openai) = {KERNELFORGE_PLUGIN_HEAD("llm_openai", "0.1.0"),
                                  .llm_backends = backends};
