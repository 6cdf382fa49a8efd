// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/compiler.hpp"
#include "worker/compile_source.hpp"

namespace kernelforge::compile {

struct NvrtcLibrary;

/// A request that may be handed to NVRTC.
struct CheckedRequest {
    CompileRequest request;
    ScannedSource scanned;
    AssembledSource assembled;
};

/// Checks a request. What a candidate's text does wrong is `refusal`; everything else throws.
/// @throws Error invalid_argument (architecture, option, macro or kernel that is not well-formed)
struct CheckOutcome {
    CheckedRequest checked;
    std::optional<CompileResult> refusal;
};
[[nodiscard]] CheckOutcome check_request(CompileRequest request,
                                         const std::vector<std::string>& root_names);

/// The options that decide what a precompiled header can be used for, in order.
[[nodiscard]] std::vector<std::string> front_end_options(
    const CompileRequest& request, const std::vector<std::string>& include_folders);

/// Compiles in this process: it may hang, crash or take all memory, so it must be a child made for
/// this one compile. `precompiled` is the path of a precompiled header of the include block, or
/// empty.
[[nodiscard]] CompileResult compile_here(const CheckedRequest& checked, const NvrtcLibrary& nvrtc,
                                         const std::vector<std::string>& include_folders,
                                         const std::string& precompiled);

/// Compiles the include block alone and writes it, precompiled, to `path`. Whether that worked.
[[nodiscard]] bool precompile_headers(const std::string& include_block,
                                      const std::vector<std::string>& options,
                                      const NvrtcLibrary& nvrtc, const std::string& path);

}  // namespace kernelforge::compile
