// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "emulator/pure_ops.hpp"

// The arithmetic that mma.sync, wmma.mma and wgmma share.
//
// Numerics: operands of the narrow types are taken exactly, so are their products (they fit a
// double); a sum starts with the accumulator and adds the products by ascending k in double, and is
// rounded to the accumulator's type once, to nearest even. Integer sums are exact before they wrap
// or saturate. f64 is a chain of fused multiply-adds. Tensor cores add with other orders, fewer
// bits and truncation, which PTX leaves open, so results agree with theirs within a tolerance and
// not bit for bit; NaNs are canonical. Both vector units give the same bits.

namespace kernelforge::emulator {

enum class MatrixFormat : std::uint8_t { f16, bf16, tf32, f64, s8, u8, s4, u4, e4m3, e5m2, b1 };
/// "bf16", …; nothing for another word.
[[nodiscard]] std::optional<MatrixFormat> parse_matrix_format(std::string_view word) noexcept;
[[nodiscard]] std::optional<MatrixFormat> matrix_format(Type type) noexcept;
/// Elements in a row of a block, which has 16 bytes, of f64 32.
[[nodiscard]] constexpr int elements_per_row(MatrixFormat format) noexcept {
    switch (format) {
        case MatrixFormat::tf32:
        case MatrixFormat::f64:
            return 4;
        case MatrixFormat::f16:
        case MatrixFormat::bf16:
            return 8;
        case MatrixFormat::s8:
        case MatrixFormat::u8:
        case MatrixFormat::e4m3:
        case MatrixFormat::e5m2:
            return 16;
        case MatrixFormat::s4:
        case MatrixFormat::u4:
            return 32;
        case MatrixFormat::b1:
            return 128;
    }
    return 0;
}

enum class Accumulator : std::uint8_t { f32, f16, s32, f64 };
/// Registers that hold an 8x8 block of D.
[[nodiscard]] constexpr int registers_per_block(Accumulator accumulator) noexcept {
    return accumulator == Accumulator::f16 ? 1 : 2;
}

/// Functions on blocks for one vector unit. A block is eight rows of 16 (f64: 32) bytes, one after
/// the other, which is also how a register row holds a fragment: lane 4 * row + i has the i-th
/// quarter of a row.
struct ProductFunctions {
    /// Element e of row r goes to out[r * stride + e].
    void (*decode_rows)(const std::byte* block, double* out, int stride) = nullptr;
    /// Element e of row r goes to out[e * stride + r].
    void (*decode_columns)(const std::byte* block, double* out, int stride) = nullptr;
};
[[nodiscard]] ProductFunctions product_functions(MatrixFormat format, Isa isa) noexcept;

/// d [rows, 8] += a [rows, depth] * b [depth, 8], row-major; rows is a multiple of 8.
using MultiplyFn = void (*)(const double* a, const double* b, double* d, int rows, int depth);
[[nodiscard]] MultiplyFn find_multiply(Accumulator accumulator, Isa isa) noexcept;

/// Accumulators of one 8x8 block, in registers: lane 4 * row + i has columns 2 i and 2 i + 1, in
/// two registers or, f16, in the halves of one.
struct AccumulatorFunctions {
    void (*load)(const Rows& rows, const RowRef* registers, double* block) = nullptr;
    /// Writes the lanes of `mask`. `saturate` is for integers.
    void (*store)(const Rows& rows, const RowRef* registers, const double* block,
                  std::uint32_t mask, bool saturate) = nullptr;
};
[[nodiscard]] AccumulatorFunctions accumulator_functions(Accumulator accumulator, Isa isa) noexcept;

}  // namespace kernelforge::emulator
