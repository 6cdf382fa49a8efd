// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emulator/decode_function.hpp"
#include "emulator/matrix_fragment.hpp"

namespace kernelforge::emulator::decoding {

void FunctionDecoder::wmma() {
    if (has("load")) {
        wmma_transfer(MatrixOp::What::wmma_load);
    } else if (has("store")) {
        wmma_transfer(MatrixOp::What::wmma_store);
    } else {
        pure(*now_);
    }
}

/// Elements between rows or columns where the text says none: those of the whole matrix (PTX ISA,
/// "wmma.load").
static int packed_stride(const MatrixOp& op) {
    switch (op.fragment) {
        case MatrixOp::Fragment::a:
            return op.column_major ? op.m : op.k;
        case MatrixOp::Fragment::b:
            return op.column_major ? op.k : op.n;
        case MatrixOp::Fragment::accumulator:
            return op.column_major ? op.m : op.n;
    }
    return 0;
}

void FunctionDecoder::wmma_transfer(MatrixOp::What what) {
    expect_operands(2, 3);
    const bool is_load = what == MatrixOp::What::wmma_load;
    MatrixOp op;
    op.what = what;
    const std::array<int, 3> shape = matrix_shape(*now_);
    op.m = shape[0];
    op.n = shape[1];
    op.k = shape[2];
    op.d = value_type();
    op.fragment = has("a")   ? MatrixOp::Fragment::a
                  : has("b") ? MatrixOp::Fragment::b
                             : MatrixOp::Fragment::accumulator;
    op.column_major = has("col");
    op.space = space(Space::generic);
    const Operand& where = now_->operands[is_load ? 1 : 0];
    const Operand& registers = now_->operands[is_load ? 0 : 1];
    const Operands values =
        registers.kind == Operand::Kind::vector ? registers.elements : Operands{registers};
    if (values.empty()) {
        bad("no registers");
    }
    op.destinations = is_load ? static_cast<int>(values.size()) : 0;
    op.count = static_cast<int>(values.size());
    if (const auto wrong = fragment_unsupported(op, op.count)) {
        unknown(*wrong);
    }
    const Row row = shape_of(values[0], Row::b32);
    std::vector<RowRef> rows;
    if (!is_load) {
        place_address(op, where, rows);
    }
    for (const Operand& value : values) {
        rows.push_back(is_load ? destination(value, row) : source(value, row));
    }
    if (is_load) {
        place_address(op, where, rows);
    }
    rows.push_back(now_->operands.size() == 3
                       ? source(now_->operands[2], Row::b32)
                       : fixed_.constant(Row::b32, static_cast<std::uint64_t>(packed_stride(op))));
    code_.matrix.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(op.destinations);
    emit(Kind::matrix, code_.matrix.size() - 1, rows, effects);
}

}  // namespace kernelforge::emulator::decoding
