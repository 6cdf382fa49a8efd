// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/lanes.hpp"
#include "emulator/program.hpp"

// ldmatrix, stmatrix and movmatrix of 8x8 matrices of 16 bits (PTX ISA 9.0, "Warp-level matrix load
// instruction: ldmatrix" and following). Rows are 16 bytes, given by lanes' addresses.

namespace kernelforge::emulator {

/// Lanes whose addresses are used: the first eight for each of `count` (1, 2, 4) matrices.
[[nodiscard]] constexpr std::uint32_t matrix_address_lanes(int count) noexcept {
    return count == 4 ? all_lanes : (1U << (8 * count)) - 1U;
}
/// An address must be a multiple of this, and this many bytes are read or written.
inline constexpr int matrix_row_bytes = 16;

/// ldmatrix: operands {d…, address}; `row_pointers[lane]` is the host memory of a row, for
/// `matrix_address_lanes(op.count)`. The whole warp takes part. [any]
void load_matrices(const MatrixOp& op, const Rows& rows, const RowRef* operands,
                   const std::byte* const* row_pointers) noexcept;

/// stmatrix: operands {address, s…}; the same for writing. [any]
void store_matrices(const MatrixOp& op, const Rows& rows, const RowRef* operands,
                    std::byte* const* row_pointers) noexcept;

/// movmatrix.sync.aligned.m8n8.trans.b16: operands {d, a}. [any]
void transpose_matrix(const Rows& rows, const RowRef* operands) noexcept;

}  // namespace kernelforge::emulator
