// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/program.hpp"

// Register allocation: virtual registers to rows of a frame.

namespace kernelforge::emulator::decoding {

/// What an instruction does with its operands, beside what `DecodedInstruction` says.
struct Effects {
    std::uint16_t destinations = 0;      ///< the first of the operands
    bool reads_destinations = false;     ///< accumulators
    bool destination_may_reuse = false;  ///< the only destination may be the row of a source
    bool is_copy = false;                ///< a mov: may vanish where both are one row
};

/// A function's instructions before allocation. Operands are virtual registers (>= 0), fixed rows
/// or no_row; so are guards. Targets of branches and tables are indices into `instructions`; the
/// end is `instructions.size()`.
struct VirtualCode {
    std::vector<DecodedInstruction> instructions;
    std::vector<Effects> effects;
    std::vector<RowRef> operands;
    std::vector<std::vector<std::uint32_t>> tables;  ///< by `attribute` of branch_table
    std::vector<Row> registers;                      ///< shape of every virtual register
};

/// Replaces virtual registers by offsets into the frame. Two registers share a row only if they
/// have the same shape and there is no instruction at which both live, except that a destination
/// may take the row that a source leaves. Copies between one row and itself are removed; targets
/// are adjusted.
/// @returns bytes of the frame
[[nodiscard]] std::uint32_t allocate_rows(VirtualCode& code);

}  // namespace kernelforge::emulator::decoding
