// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernelforge/compiler.hpp"

// What a candidate's text may make the compiler read. The text is rewritten so that only one
// reading of it is left (no comments, no ambiguous line splices), every directive is checked, and
// what NVRTC gets is put together from the parts.

namespace kernelforge::compile {

/// Longest candidate text.
inline constexpr std::size_t max_source_bytes = std::size_t{4} << 20;
/// Name of the lines in front of the candidate's own text, in what the compiler says.
inline constexpr std::string_view prefix_name = "kernelforge_prefix.cu";

/// One `#include` of the leading include block.
struct LeadingInclude {
    std::string name;  ///< `cuda_bf16.h`, without brackets
    std::size_t line = 0;
};

/// A candidate's text after the check.
struct ScannedSource {
    std::string file;                     ///< name in diagnostics
    std::vector<LeadingInclude> leading;  ///< in order
    std::vector<std::string> includes;  ///< all of the text's includes, in order, leading ones too
    std::string body;                   ///< the lines from `body_line` on, comments blanked
    std::size_t body_line = 1;
    std::vector<CompileDiagnostic> refusals;  ///< empty: the text may be compiled
};

/// Whether a candidate may include `name`: a header that device code uses of the CUDA toolkit, or
/// one below an extra root. `extra_roots` are the first path components of extra include roots
/// (`cute`).
[[nodiscard]] bool include_allowed(std::string_view name,
                                   const std::vector<std::string>& extra_roots);

/// Checks and rewrites. Never throws for bad text: `refusals` says what is wrong and where. Columns
/// of the remaining text do not change. Linear in the length of the text.
[[nodiscard]] ScannedSource scan_source(std::string_view source, std::string file,
                                        const std::vector<std::string>& extra_roots);

/// What the compiler gets: include block, macros, `#line`, body. `prefix_lines` maps line n - 1 of
/// the prefix to a line of the candidate; 0 for the lines of macros.
struct AssembledSource {
    std::string text;
    std::string include_block;  ///< the first part of `text`, what may be precompiled
    std::vector<std::size_t> prefix_lines;
};

/// @throws Error invalid_argument (a macro's name is not an identifier or is reserved)
[[nodiscard]] AssembledSource assemble_source(
    const ScannedSource& scanned, const std::vector<std::pair<std::string, std::int64_t>>& defines);

/// Whether a compiler option can neither read nor write files nor change what comes out of a
/// compile.
[[nodiscard]] bool option_allowed(std::string_view option);

}  // namespace kernelforge::compile
