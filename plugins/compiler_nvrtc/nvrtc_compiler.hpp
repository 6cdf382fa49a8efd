// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "kernelforge/plugin.hpp"

namespace kernelforge {

/// The compiler `nvrtc`; docs/compiler.md lists the options. Starts no process before the first
/// compile.
/// @throws Error parse or invalid_argument (options), unsupported (no NVRTC or no headers),
/// not_found
///         (no worker program)
[[nodiscard]] std::unique_ptr<Compiler> make_nvrtc_compiler(std::string_view options,
                                                            const PluginContext& context);

}  // namespace kernelforge
