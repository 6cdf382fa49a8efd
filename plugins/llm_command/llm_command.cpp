// SPDX-License-Identifier: Apache-2.0
#include "command_backend.hpp"
#include "kernelforge/plugin.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {
    {"command", "runs a command that reads the request on stdin and writes the reply on stdout",
     kernelforge::make_command_backend}};

}  // namespace

KERNELFORGE_PLUGIN(llm_command) = {KERNELFORGE_PLUGIN_HEAD("llm_command", "0.1.0"),
                                   .llm_backends = backends};
