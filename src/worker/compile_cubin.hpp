// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kernelforge::compile {

/// What a cubin says about one kernel. Absent: not said there.
struct CubinKernel {
    std::optional<int> registers;
    std::optional<int> stack_bytes;
    std::optional<int> static_shared_bytes;  ///< without what the driver reserves
    std::optional<int> max_threads_per_block;
    std::vector<int> parameter_bytes;  ///< in order
    std::map<std::string, int> opcode_counts;
    bool has_code = false;
};

/// What is read from a cubin.
struct CubinFacts {
    std::map<std::string, CubinKernel> kernels;  ///< by symbol
    /// Variables in the module's global memory, by name, with their size in bytes.
    std::vector<std::pair<std::string, std::uint64_t>> writable_globals;
    /// Bytes of those of them that are no constants.
    std::uint64_t global_bytes = 0;
};

/// Reads an ELF64 cubin as NVRTC makes it. Every offset, size and index is checked against the
/// file, so that any bytes may be passed; time and memory are linear in the length. Formats were
/// found by comparison with ptxas' own log for CUDA 13.0 (sm_80 to sm_120).
/// @throws Error parse (not a cubin, or cut off)
[[nodiscard]] CubinFacts read_cubin(std::string_view bytes);

}  // namespace kernelforge::compile
