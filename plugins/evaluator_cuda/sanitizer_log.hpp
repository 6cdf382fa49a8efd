// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"

// What compute-sanitizer writes to its log file: text whose lines begin with "=========". A record
// is a sentence without indent and indented lines that say where and how. Format: NVIDIA's Compute
// Sanitizer documentation. Pure.

namespace kernelforge::cuda {

/// One record of a log.
struct SanitizerRecord {
    bool warning = false;  ///< racecheck's hazards of severity warning (or info)
    std::string what;      ///< "Invalid __global__ write of size 4 bytes"
    /// Functions that are named as places, outermost words only: `gemm` of `void gemm<64>(float
    /// const*)+0x70`. Racecheck names two, others one and perhaps callers.
    std::vector<std::string> functions;
    std::string file;    ///< base name of the first place's source file; empty: not known
    int line = 0;        ///< 0: not known
    std::string thread;  ///< "by thread (0,0,0) in block (0,0,0)"; empty: not said
    std::string detail;  ///< "is out of bounds": what is said of the address, without it
};

struct SanitizerLog {
    bool started = false;  ///< the tool's heading is there
    bool ended = false;    ///< a summary is there, so nothing is missing
    std::vector<SanitizerRecord> records;
};

[[nodiscard]] SanitizerLog parse_sanitizer_log(std::string_view text);

/// Names by which a log may speak of a candidate's kernels: function identifiers without template
/// arguments and namespaces.
[[nodiscard]] std::set<std::string> kernel_names(const CompiledCandidate& candidate);

/// Whether a record is about one of these kernels. A place in `reference.cu` never is, although the
/// reference may have a kernel of the same name.
[[nodiscard]] bool is_about(const SanitizerRecord& record, const std::set<std::string>& kernels);

/// One sentence without addresses: "Invalid __global__ write of size 4 bytes in scale at
/// candidate.cu:12 by thread (0,0,0) in block (0,0,0): is out of bounds".
[[nodiscard]] std::string describe(const SanitizerRecord& record);

/// The verdict of a tool: findings when a record counts (about a candidate's kernel, no warning,
/// and, for initcheck, a read of global memory), clean when the log is whole and none does, else
/// failed with `why_incomplete`.
[[nodiscard]] SanitizerResult judge_log(const std::string& tool, const SanitizerLog& log,
                                        const std::set<std::string>& kernels,
                                        const std::string& why_incomplete);

}  // namespace kernelforge::cuda
