// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/program.hpp"

// What the decoder knows of a module before it looks at single instructions.

namespace kernelforge::emulator::decoding {

[[noreturn]] void malformed(const Place& place, const std::string& message);
[[noreturn]] void not_emulated(const Place& place, const std::string& message);

/// Sizes above which a module is refused: parameters of a kernel (CUDA's 32764), shared memory of
/// a block (an H200's 227 KiB), local memory of a thread (CUDA's 512 KiB), and the instructions
/// and register rows that indices hold.
inline constexpr std::uint64_t most_parameter_bytes = 32764, most_shared_bytes = 232448,
                               most_local_bytes = 512 << 10, most_constant_bytes = 64 << 10;

[[nodiscard]] constexpr std::uint64_t aligned(std::uint64_t offset, std::uint64_t alignment) {
    return alignment < 2 ? offset : (offset + alignment - 1) / alignment * alignment;
}

/// The fixed rows of a `Code`: constants, each once, and special registers.
class FixedRows {
  public:
    explicit FixedRows(Code& code) : code_(code) {}
    /// Complemented offset of a row that holds `bits` in every lane; of a predicate: not 0.
    [[nodiscard]] RowRef constant(Row row, std::uint64_t bits);
    [[nodiscard]] RowRef special(SpecialRegister which);

  private:
    Code& code_;
    std::map<std::pair<Row, std::uint64_t>, RowRef> constants_;
    std::map<SpecialRegister, RowRef> specials_;
};

/// A function that is decoded, and where its variables lie.
struct FunctionLayout {
    const Function* source = nullptr;
    std::uint32_t index = 0;                      ///< in `Code::functions`
    std::map<std::string, std::int32_t> symbols;  ///< own variables -> `Code::symbols`
    std::vector<const Function*> callees;
    std::vector<std::string> shared;  ///< module's shared variables that it names
};

/// Names of a module: what they mean, and where it lies.
struct ModuleLayout {
    const Module* module = nullptr;
    std::map<std::string, std::int32_t> symbols;        ///< of the module -> `Code::symbols`
    std::map<std::string, const Function*> functions;   ///< definitions before declarations
    std::map<const Function*, FunctionLayout> defined;  ///< reached from an entry
    std::vector<const Function*> order;                 ///< of `defined`
    std::map<std::int32_t, std::int64_t>
        shared_constants;                            ///< symbol -> offset in the block, where
                                                     ///< it is the same for every launch
    std::map<std::string, const Variable*> missing;  ///< declared, not defined
};

/// Finds the functions that entries reach, lays all variables out, and fills `globals`, `symbols`,
/// `functions` (but for their code) and `entries` of `code`.
/// @throws PtxError
[[nodiscard]] ModuleLayout lay_out(const Module& module, Code& code);

}  // namespace kernelforge::emulator::decoding
