// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kernelforge/error.hpp"

namespace kernelforge {

/// What the compiler says about one kernel, read from the cubin and the assembler's log.
/// An absent value is one that could not be read; it is never 0 instead.
struct KernelFacts {
    std::string name;  ///< as the plan names it: the alias of `//@symbol`, else the function
    std::string lowered_name;  ///< symbol in the cubin
    std::optional<int> registers_per_thread;
    std::optional<int> stack_bytes;
    std::optional<int> spill_store_bytes;
    std::optional<int> spill_load_bytes;
    std::optional<int>
        static_shared_bytes;  ///< without the 1024 bytes that the driver reserves from sm_90 on
    std::optional<int> barriers;
    std::optional<int> max_threads_per_block;  ///< from `__launch_bounds__`
    /// Size in bytes of each parameter, in order; from the cubin.
    std::vector<int> parameter_bytes;
    /// Parameter types as written, in order (`const float*`, `int`, …), where the source could be
    /// read; empty otherwise.
    std::vector<std::string> parameter_types;
    /// Machine instructions by opcode class (`ld.global`, `ffma`, `hgmma`, …), static counts.
    std::map<std::string, int> opcode_counts;
};

/// One compilation of one candidate's source under one set of definitions.
struct CompileRequest {
    std::string source;                      ///< the candidate text, unchanged
    std::string file_name = "candidate.cu";  ///< in diagnostics
    std::string arch = "sm_90a";       ///< real architecture; PTX is made for its virtual twin
    std::vector<std::string> options;  ///< already checked against the allow-list
    /// Macros defined after the candidate's include block, in order: constant axes, tunables and
    /// specialised axes. A value is an integer literal.
    std::vector<std::pair<std::string, std::int64_t>> defines;
    /// Kernels that the plan launches: name in the plan and the C++ name expression
    /// (`gemm<128, 64>`), in that order.
    std::vector<std::pair<std::string, std::string>> kernels;
    std::chrono::milliseconds time_limit{60'000};
    std::uint64_t memory_limit_bytes = 4ULL << 30;
};

enum class CompileStatus { ok, error, timed_out, out_of_memory, crashed, cancelled };

/// One message of the compiler, mapped to the candidate's own lines.
struct CompileDiagnostic {
    enum class Severity { note, warning, error };
    Severity severity = Severity::error;
    SourcePosition position;  ///< column is 0 where the compiler gives none
    std::string message;      ///< one line, without position and severity
};

struct CompileResult {
    CompileStatus status = CompileStatus::ok;
    std::string message;  ///< one sentence, empty when ok
    std::vector<CompileDiagnostic> diagnostics;
    std::string log;  ///< complete, at most 64 KiB
    std::string ptx;
    std::string cubin;                 ///< bytes
    std::string arch;                  ///< as compiled
    std::string compiler;              ///< name, version and build
    std::vector<KernelFacts> kernels;  ///< in the order of the request
    /// Module globals that device code may write, constants among them: name in the cubin and size
    /// in bytes.
    std::vector<std::pair<std::string, std::uint64_t>> writable_globals;
    std::chrono::duration<double> time{0};
    bool from_cache = false;
};

/// Turns a candidate into machine code. Implementations: `nvrtc`.
class Compiler {
  public:
    virtual ~Compiler() = default;

    /// Compiles. A candidate that does not compile, hangs the compiler or crashes it is a
    /// `CompileResult` with that status. [any]
    /// @throws Error unsupported (no usable compiler library), worker_failed, io
    [[nodiscard]] virtual CompileResult compile(const CompileRequest& request,
                                                std::stop_token stop) = 0;
};

}  // namespace kernelforge
