// SPDX-License-Identifier: Apache-2.0
#include "emulator/matrix_load.hpp"

#include <array>
#include <cstring>

namespace kernelforge::emulator {

namespace {

// An 8x8 matrix of 16 bits, row-major. A b32 register row holds exactly this: lane 4 * row + pair
// has columns 2 * pair (low half) and 2 * pair + 1.
using Matrix = std::array<std::uint16_t, 64>;
static_assert(sizeof(Matrix) == bytes_of(Row::b32));

Matrix transposed(const Matrix& matrix) {
    Matrix result;
    for (std::size_t row = 0; row < 8; ++row) {
        for (std::size_t column = 0; column < 8; ++column) {
            result[column * 8 + row] = matrix[row * 8 + column];
        }
    }
    return result;
}

}  // namespace

void load_matrices(const MatrixOp& op, const Rows& rows, const RowRef* operands,
                   const std::byte* const* row_pointers) noexcept {
    std::array<Matrix, 4> matrices;
    const auto count = static_cast<std::size_t>(op.count);
    // All are read before the first is written: a destination may be the row of the addresses.
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t row = 0; row < 8; ++row) {
            std::memcpy(&matrices[i][row * 8], row_pointers[i * 8 + row], matrix_row_bytes);
        }
        if (op.transposed) matrices[i] = transposed(matrices[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (operands[i] == no_row) continue;
        std::memcpy(rows.at<std::byte>(operands[i]), &matrices[i], sizeof(Matrix));
    }
}

void store_matrices(const MatrixOp& op, const Rows& rows, const RowRef* operands,
                    std::byte* const* row_pointers) noexcept {
    const auto count = static_cast<std::size_t>(op.count);
    for (std::size_t i = 0; i < count; ++i) {
        Matrix matrix;
        std::memcpy(&matrix, rows.at<std::byte>(operands[i + 1]), sizeof(Matrix));
        if (op.transposed) matrix = transposed(matrix);
        for (std::size_t row = 0; row < 8; ++row) {
            std::memcpy(row_pointers[i * 8 + row], &matrix[row * 8], matrix_row_bytes);
        }
    }
}

void transpose_matrix(const Rows& rows, const RowRef* operands) noexcept {
    Matrix matrix;
    std::memcpy(&matrix, rows.at<std::byte>(operands[1]), sizeof(Matrix));
    matrix = transposed(matrix);
    if (operands[0] != no_row) {
        std::memcpy(rows.at<std::byte>(operands[0]), &matrix, sizeof(Matrix));
    }
}

}  // namespace kernelforge::emulator
