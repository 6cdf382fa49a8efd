// SPDX-License-Identifier: Apache-2.0
#include "batch_backend.hpp"
#include "kernelforge/plugin.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::LlmBackend> backends[] = {
    {"batch", "queues requests in a folder of Batch JSON lines and picks the answers up from it",
     kernelforge::make_batch_backend}};

}  // namespace

KERNELFORGE_PLUGIN(llm_batch) = {KERNELFORGE_PLUGIN_HEAD("llm_batch", "0.1.0"),
                                 .llm_backends = backends};
