// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "emulator/program.hpp"

// wmma.load and wmma.store. PTX leaves open which lane holds which element of a wmma fragment; here
// a fragment is a row of mma.sync fragments (matrix_mma.hpp), whatever the order in memory, with
// registers repeated where PTX has more of them than the matrix needs (a and b of f16).

namespace kernelforge::emulator {

/// Checks shape, type and number of registers (`registers`) of a wmma load or store.
/// @returns what is wrong, as the rest of a sentence about the instruction [any]
[[nodiscard]] std::optional<std::string> fragment_unsupported(const MatrixOp& op, int registers);

/// Elements that each lane holds, repeated ones included: registers times elements a register.
[[nodiscard]] int fragment_elements(const MatrixOp& op) noexcept;

/// One element of a lane: bytes from the matrix's start, and its place in the registers.
struct FragmentElement {
    std::uint64_t offset = 0;  ///< bytes in memory, for a stride in elements
    int operand = 0;           ///< index among the fragment's registers
    int shift = 0;             ///< bits in the register
    bool repeated = false;     ///< another element of the lane is the same: stores skip it
};
[[nodiscard]] FragmentElement fragment_element(const MatrixOp& op, int lane, int element,
                                               std::uint64_t stride) noexcept;

}  // namespace kernelforge::emulator
