// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/compiler.hpp"
#include "worker/compile_source.hpp"

// What the compiler's log says, mapped to the candidate's own lines.

namespace kernelforge::compile {

/// Longest log that a result carries.
inline constexpr std::size_t max_log_bytes = std::size_t{64} << 10;

/// The beginning and the end of a log that is too long, with a line between them that says so.
[[nodiscard]] std::string capped_log(std::string log);

/// The log with places in our own prefix replaced by places in the candidate.
[[nodiscard]] std::string mapped_log(std::string_view log, const ScannedSource& scanned,
                                     const AssembledSource& assembled);

/// Messages of the front end and of ptxas, in order, at most 200. `log` is a mapped log; `source`
/// the candidate's text, by which columns are checked; `ptx` the text that ptxas' line numbers are
/// about.
[[nodiscard]] std::vector<CompileDiagnostic> read_diagnostics(std::string_view log,
                                                              std::string_view source,
                                                              const std::string& file,
                                                              std::string_view ptx);

/// What `-Xptxas=-v` says about one kernel.
struct AssemblerFacts {
    std::optional<int> registers;
    std::optional<int> stack_bytes;
    std::optional<int> spill_store_bytes;
    std::optional<int> spill_load_bytes;
    std::optional<int> shared_bytes;
    std::optional<int> barriers;
};

/// By lowered name.
[[nodiscard]] std::map<std::string, AssemblerFacts> read_assembler_facts(std::string_view log);

}  // namespace kernelforge::compile
