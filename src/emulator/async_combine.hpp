// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/program.hpp"

// What atomic operations and reductions do to one element.

namespace kernelforge::emulator {

/// New value of an element of 2, 4 or 8 bytes, all values in the low bits. `second` is the new
/// value of compare_exchange, whose `operand` is compared.
using CombineFn = std::uint64_t (*)(std::uint64_t old, std::uint64_t operand, std::uint64_t second);

/// `atom.add.f32` and `red.add.f32` on global memory flush subnormal operands and results to zero,
/// on shared memory they keep them (PTX ISA 9.0, "Parallel Synchronization and Communication
/// Instructions: atom"). No other type or operation flushes.
enum class Subnormals : std::uint8_t { keep, flush };

/// The function of an operation on elements of `type`; null where PTX has no such operation.
/// f16x2 and bf16x2 are elements of four bytes. Used by atom, red, cp.reduce.async.bulk. [any]
[[nodiscard]] CombineFn find_combine(MemoryOp::Combine combine, Type type,
                                     Subnormals subnormals = Subnormals::keep) noexcept;

/// Applies it to memory as one atomic step. `bytes` is 2, 4 or 8, to which `at` is aligned.
/// @returns the old element [any]
std::uint64_t combine_in_memory(std::byte* at, int bytes, CombineFn combine, std::uint64_t operand,
                                std::uint64_t second = 0) noexcept;

/// cp.reduce.async.bulk: every element of `to` becomes its combination with that of `from`, each as
/// one atomic step. `bytes` is a multiple of `element_bytes`.
void reduce_in_memory(std::byte* to, const std::byte* from, std::size_t bytes, int element_bytes,
                      CombineFn combine) noexcept;

}  // namespace kernelforge::emulator
