// SPDX-License-Identifier: Apache-2.0
#include "emulator/matrix_fragment.hpp"

#include <fmt/format.h>

#include <array>

#include "emulator/matrix_product.hpp"

namespace kernelforge::emulator {

namespace {

using Fragment = MatrixOp::Fragment;

// How a fragment's registers hold its blocks of eight rows (columns of B) by `width` elements.
struct Layout {
    int element_bytes = 0;
    int per_register = 0;  // elements
    int width = 0;         // elements of a block's row
    int row_blocks = 0;    // down the rows of A and D, the columns of B
    int column_blocks = 0;
    int registers = 0;
    int per_block = 0;  // registers
};

int bytes_of_element(Type type) {
    switch (type) {
        case Type::f16:
        case Type::bf16:
            return 2;
        case Type::tf32:
        case Type::f32:
        case Type::s32:
            return 4;
        case Type::f64:
            return 8;
        default:
            return 1;
    }
}

Layout layout_of(const MatrixOp& op) {
    Layout layout;
    layout.element_bytes = bytes_of_element(op.d);
    layout.per_register = op.d == Type::f64 ? 1 : 4 / layout.element_bytes;
    if (op.fragment == Fragment::accumulator) {
        layout.width = 8;
        layout.row_blocks = op.m / 8;
        layout.column_blocks = op.n / 8;
        layout.per_block = op.d == Type::f16 ? 1 : 2;
    } else {
        layout.width = elements_per_row(*matrix_format(op.d));
        layout.row_blocks = (op.fragment == Fragment::a ? op.m : op.n) / 8;
        layout.column_blocks = op.k / layout.width;
        layout.per_block = 1;
    }
    layout.registers = layout.row_blocks * layout.column_blocks * layout.per_block;
    if (op.d == Type::f16 && op.fragment != Fragment::accumulator) layout.registers = 8;
    return layout;
}

bool is_shape(const MatrixOp& op, int m, int n, int k) {
    return op.m == m && op.n == n && op.k == k;
}

bool exists(const MatrixOp& op) {
    const bool large =
        is_shape(op, 16, 16, 16) || is_shape(op, 32, 8, 16) || is_shape(op, 8, 32, 16);
    switch (op.d) {
        case Type::f16:
            return large;
        case Type::bf16:
        case Type::s8:
        case Type::u8:
            return large && op.fragment != Fragment::accumulator;
        case Type::s32:
            return large && op.fragment == Fragment::accumulator;
        case Type::f32:
            return (large || is_shape(op, 16, 16, 8)) && op.fragment == Fragment::accumulator;
        case Type::tf32:
            return is_shape(op, 16, 16, 8) && op.fragment != Fragment::accumulator;
        case Type::f64:
            return is_shape(op, 8, 8, 4);
        default:
            return false;
    }
}

struct Coordinates {
    int row = 0, column = 0;  // of B's blocks: column and k
};

// A's blocks go down the rows first, D's too, B's along k first, as matrix_mma.cpp takes them.
Coordinates coordinates_of(const MatrixOp& op, const Layout& layout, int lane, int element) {
    const int distinct = layout.row_blocks * layout.column_blocks * layout.per_block;
    const int place = element / layout.per_register % distinct;
    const int block = place / layout.per_block;
    const bool along = op.fragment == Fragment::b;
    const int row_block = along ? block / layout.column_blocks : block % layout.row_blocks;
    const int column_block = along ? block % layout.column_blocks : block / layout.row_blocks;
    const int in_quarter = layout.per_block * layout.per_register;
    const int in_register = element % layout.per_register + place % layout.per_block;
    return {row_block * 8 + lane / 4,
            column_block * layout.width + lane % 4 * in_quarter + in_register};
}

}  // namespace

std::optional<std::string> fragment_unsupported(const MatrixOp& op, int registers) {
    if (!exists(op)) return "this combination of shape, type and operand is not emulated";
    const int expected = layout_of(op).registers;
    if (registers != expected) {
        return fmt::format("it has {} registers, expected {}", registers, expected);
    }
    return std::nullopt;
}

int fragment_elements(const MatrixOp& op) noexcept {
    const Layout layout = layout_of(op);
    return layout.registers * layout.per_register;
}

FragmentElement fragment_element(const MatrixOp& op, int lane, int element,
                                 std::uint64_t stride) noexcept {
    const Layout layout = layout_of(op);
    const Coordinates at = coordinates_of(op, layout, lane, element);
    // Rows of the matrix in memory: of B they are k.
    const bool swapped = (op.fragment == Fragment::b) != op.column_major;
    const auto major = static_cast<std::uint64_t>(swapped ? at.column : at.row);
    const auto minor = static_cast<std::uint64_t>(swapped ? at.row : at.column);
    FragmentElement result;
    result.offset = (major * stride + minor) * static_cast<std::uint64_t>(layout.element_bytes);
    result.operand = element / layout.per_register;
    result.shift = element % layout.per_register * layout.element_bytes * 8;
    result.repeated = result.operand >= layout.row_blocks * layout.column_blocks * layout.per_block;
    return result;
}

}  // namespace kernelforge::emulator
