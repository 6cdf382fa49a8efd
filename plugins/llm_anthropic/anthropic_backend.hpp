// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "kernelforge/plugin.hpp"

namespace kernelforge {

/// The `anthropic` backend. Options: docs/llm_backends.md.
/// @throws Error parse, unsupported (options)
[[nodiscard]] std::unique_ptr<LlmBackend> make_anthropic_backend(std::string_view options,
                                                                 const PluginContext& context);

}  // namespace kernelforge
