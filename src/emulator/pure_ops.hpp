// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emulator/lanes.hpp"
#include "emulator/ptx_module.hpp"

// Instructions that only read and write registers of their own lane or, for `mma`, of their warp.

namespace kernelforge::emulator {

/// Vector units used by `find_pure`. `best_isa` asks the processor once.
enum class Isa { portable, avx2 };
[[nodiscard]] Isa best_isa() noexcept;

struct PureOp {
    PureFn run = nullptr;
    int destinations = 0;
    /// Shape of every operand, destinations first, vector operands (`{a, b}`) flattened in order.
    /// An immediate operand of the PTX becomes a constant row of this shape.
    std::vector<Row> rows;
    /// The instruction sets or uses the carry flag (`add.cc`, `addc`, …): a hidden predicate
    /// register of each thread, of which the function with such instructions keeps one row. `rows`
    /// and `destinations` count it: the row that is written is the last destination, the row that
    /// is read is the last source. Neither stands among the instruction's operands.
    bool writes_carry = false;
    bool reads_carry = false;
    /// Whether all lanes of the warp take part (`mma.sync`): the machine then brings the whole warp
    /// together first, and every lane's registers are read.
    bool whole_warp = false;
};

/// The function for an instruction; nothing when it is not a register-to-register one (memory,
/// control, synchronisation, shuffles), which the machine executes itself. Semantics are those of
/// the PTX ISA 9.0, rounding included; approximate functions keep within the ISA's stated error.
/// `operand_types`: declared types of the instruction's operands, flattened; Type::none for
/// immediates, symbols, special registers and `_`. A constant row made of an immediate holds it in
/// every lane, cut to the row's width; a predicate's is all ones or 0. Negated predicates (`!p`)
/// are part of the function found, their rows are not negated. [any]
/// @throws PtxError not_emulated: it is one, but a form that is not emulated; malformed: modifiers
/// or the number of operands make no sense
[[nodiscard]] std::optional<PureOp> find_pure(const Instruction& instruction,
                                              const std::vector<Type>& operand_types, Isa isa);

/// The same for `mma.sync`, called by `find_pure`; nothing for other opcodes.
/// @throws PtxError
[[nodiscard]] std::optional<PureOp> find_mma(const Instruction& instruction, Isa isa);

}  // namespace kernelforge::emulator
