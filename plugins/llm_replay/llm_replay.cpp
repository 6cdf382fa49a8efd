// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/plugin.hpp"
#include "replay_backend.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {
    {"replay", "answers from a recording", kernelforge::make_replay_backend}};

}  // namespace

KERNELFORGE_PLUGIN(llm_replay) = {KERNELFORGE_PLUGIN_HEAD("llm_replay", "0.1.0"),
                                  .llm_backends = backends};
