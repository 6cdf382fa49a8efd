// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"

// Rules that a candidate must keep before it may cost device time (docs/forge.md, "Guards"). They
// are code, run on every candidate, and no text of a model can switch them off. Pure.

namespace kernelforge {

/// Why a candidate is refused.
struct Refusal {
    std::string rule;     ///< short name, such as `forbidden_construct`
    std::string message;  ///< one sentence, with the line where there is one
};

/// The text that decides whether two candidates are the same: comments other than `//@` lines
/// removed, white space reduced to what separates words and preprocessor lines.
[[nodiscard]] std::string normalised_source(std::string_view source);

/// Guards on the text. Rules:
/// - `size`: more than `max_bytes`
/// - `forbidden_construct`: calls of the CUDA runtime or driver, launches from device code,
/// `printf`,
///   device-side allocation (`malloc`, `free`, `new`, `delete`), clocks (`clock`, `clock64`,
///   `globaltimer`) and, in `asm` text, `%clock`, `%globaltimer`, `%pm…`, `brkpt`, `pmevent`,
///   `call`, `discard`
/// - `policy`: matrix instructions where the task allows vector fp32 only, `//@call` steps where it
///   allows no library steps
/// A macro can hide a word from these; `guard_build` looks at what was compiled.
[[nodiscard]] std::optional<Refusal> guard_source(std::string_view source, const Policy& policy,
                                                  std::size_t max_bytes);

/// Guards on the compiled kernels: the rules above on the PTX, and
/// - `spills`: more than `max_spill_bytes` of spill stores per thread
/// - `empty_kernel`: a kernel without any instruction beyond control flow
/// - `policy`: matrix instructions in the machine code where the task allows vector fp32 only
[[nodiscard]] std::optional<Refusal> guard_build(const CompileResult& build, const Policy& policy,
                                                 int max_spill_bytes);

/// SHA-256 over the plan, the bindings and the machine code for every workload, without line
/// tables: two candidates with the same identity do the same.
[[nodiscard]] std::string build_identity(const CompiledCandidate& compiled);

}  // namespace kernelforge
