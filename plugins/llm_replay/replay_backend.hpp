// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "kernelforge/plugin.hpp"

namespace kernelforge {

/// The `replay` backend. Options: docs/llm_backends.md.
/// @throws Error parse (options), and what `read_recording` throws
[[nodiscard]] std::unique_ptr<LlmBackend> make_replay_backend(std::string_view options,
                                                              const PluginContext& context);

}  // namespace kernelforge
