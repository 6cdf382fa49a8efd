// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/lanes.hpp"
#include "emulator/program.hpp"
#include "emulator/pure_ops.hpp"

// wgmma.mma_async, a warp of the warp group at a time: warp w computes rows [16 w, 16 w + 16) of D
// from its rows of A and all of B.

namespace kernelforge::emulator {

/// Where shared memory holds an operand (PTX ISA 9.0, "Matrix Descriptor Format" and "Canonical
/// Layouts"). Offsets in bytes.
struct MatrixDescriptor {
    std::uint32_t start = 0;           ///< in the block's shared memory
    std::uint32_t leading_offset = 0;  ///< unused by swizzled K-major operands
    std::uint32_t stride_offset = 0;
    std::uint32_t base_offset = 0;    ///< 0 to 7, in units of 128 bytes
    std::uint32_t swizzle_bytes = 0;  ///< 0, 32, 64, 128
};
[[nodiscard]] MatrixDescriptor decode_descriptor(std::uint64_t bits) noexcept;

/// Checks that n, k, the types and the transpositions exist (decoding calls it).
/// @returns what is wrong, as the rest of a sentence about the instruction [any]
[[nodiscard]] std::optional<std::string> wgmma_unsupported(const MatrixOp& op);

/// Executes `op` (MatrixOp::What::wgmma) for warp `warp` (0 to 3) of its group. Operands {d…, a (a
/// descriptor, or four registers), b descriptor, scale-d predicate}; descriptors and predicate are
/// those of lane 0, as all lanes must agree; a form that `wgmma_unsupported` names is an error.
/// `shared`: the block's shared memory from offset 0. Products are exact, sums are kept in double
/// and rounded once to D's type.
/// @returns what is wrong, as the rest of a sentence about the instruction; D is unchanged then
/// [any]
[[nodiscard]] std::optional<std::string> multiply_warp_group(const MatrixOp& op, const Rows& rows,
                                                             const RowRef* operands, int warp,
                                                             std::span<const std::byte> shared,
                                                             Isa isa = best_isa());

/// The 16-byte pieces of shared memory that warp `warp` of the group reads, for who watches:
/// offsets, those of A first. [any]
[[nodiscard]] std::vector<std::uint32_t> wgmma_reads(const MatrixOp& op, const Rows& rows,
                                                     const RowRef* operands, int warp);

}  // namespace kernelforge::emulator
