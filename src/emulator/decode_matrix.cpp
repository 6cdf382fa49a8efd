// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "emulator/decode_function.hpp"
#include "emulator/matrix_wgmma.hpp"

namespace kernelforge::emulator::decoding {

namespace {

using What = MatrixOp::What;

int count_of(const Instruction& instruction) {
    return instruction.has("x4") ? 4 : instruction.has("x2") ? 2 : instruction.has("x1") ? 1 : 0;
}

}  // namespace

std::array<int, 3> matrix_shape(const Instruction& instruction) {
    for (const std::string& word : instruction.modifiers) {
        const std::size_t n = word.find('n'), k = word.find('k');
        if (word.empty() || word[0] != 'm' || n == std::string::npos || k == std::string::npos ||
            n > k) {
            continue;
        }
        std::array<int, 3> shape{};
        const char* const text = word.data();
        std::from_chars(text + 1, text + n, shape[0]);
        std::from_chars(text + n + 1, text + k, shape[1]);
        std::from_chars(text + k + 1, text + word.size(), shape[2]);
        if (shape[0] > 0 && shape[1] > 0 && shape[2] > 0) {
            return shape;
        }
    }
    return {};
}

void FunctionDecoder::place_address(MatrixOp& op, const Operand& operand,
                                    std::vector<RowRef>& rows) const {
    const Address where = address(operand);
    op.address_row = where.shape;
    op.symbol = where.symbol;
    op.offset = where.offset;
    rows.push_back(where.row);
}

void FunctionDecoder::load_matrix() {
    expect_operands(2, 2);
    MatrixOp op;
    op.what = What::load;
    op.count = count_of(*now_);
    op.transposed = has("trans");
    if (op.count == 0 || !has("m8n8") || !has("b16")) {
        unknown();
    }
    const Operand& to = now_->operands[0];
    const Operands values = to.kind == Operand::Kind::vector ? to.elements : Operands{to};
    if (values.size() != static_cast<std::size_t>(op.count)) {
        bad(fmt::format("{} destinations, expected {}", values.size(), op.count));
    }
    std::vector<RowRef> rows;
    for (const Operand& value : values) {
        rows.push_back(destination(value, Row::b32));
    }
    place_address(op, now_->operands[1], rows);
    code_.matrix.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(op.count);
    emit(Kind::matrix, code_.matrix.size() - 1, rows, effects);
}

void FunctionDecoder::store_matrix() {
    expect_operands(2, 2);
    MatrixOp op;
    op.what = What::store;
    op.count = count_of(*now_);
    op.transposed = has("trans");
    if (op.count == 0 || !has("m8n8") || !has("b16")) {
        unknown();
    }
    std::vector<RowRef> rows;
    place_address(op, now_->operands[0], rows);
    const Operand& from = now_->operands[1];
    const Operands values = from.kind == Operand::Kind::vector ? from.elements : Operands{from};
    if (values.size() != static_cast<std::size_t>(op.count)) {
        bad(fmt::format("{} values, expected {}", values.size(), op.count));
    }
    for (const Operand& value : values) {
        rows.push_back(source(value, Row::b32));
    }
    code_.matrix.push_back(op);
    emit(Kind::matrix, code_.matrix.size() - 1, rows, {});
}

void FunctionDecoder::transpose_matrix() {
    expect_operands(2, 2);
    MatrixOp op;
    op.what = What::transpose;
    op.transposed = true;
    if (!has("m8n8") || !has("b16")) {
        unknown();
    }
    const RowRef to = destination(now_->operands[0], Row::b32);
    code_.matrix.push_back(op);
    Effects effects;
    effects.destinations = 1;
    emit(Kind::matrix, code_.matrix.size() - 1, {to, source(now_->operands[1], Row::b32)}, effects);
}

void FunctionDecoder::wgmma() {
    MatrixOp op;
    if (has("mma_async")) {
        wgmma_multiply();
        return;
    }
    if (has("fence")) {
        op.what = What::wgmma_fence;
    } else if (has("commit_group")) {
        op.what = What::wgmma_commit;
    } else if (has("wait_group")) {
        op.what = What::wgmma_wait;
        expect_operands(1, 1);
        op.count = immediate(now_->operands[0], 0, 1 << 20);
    } else {
        unknown();
    }
    code_.matrix.push_back(op);
    emit(Kind::matrix, code_.matrix.size() - 1, {}, {});
}

/// `wgmma.mma_async…shape.d.a.b d, a, b, scale-d[, scale-a, scale-b[, trans-a], trans-b]`
void FunctionDecoder::wgmma_multiply() {
    if (has("sp")) {
        unknown("sparse matrices");
    }
    const Operands& operands = now_->operands;
    MatrixOp op;
    op.what = What::wgmma;
    const std::array<int, 3> shape = matrix_shape(*now_);
    std::vector<Type> types;
    for (const std::string& word : now_->modifiers) {
        if (const auto type = parse_type(word)) {
            types.push_back(*type);
        }
    }
    if (shape[0] != 64 || shape[1] < 8 || shape[1] > 256 || shape[1] % 8 != 0 ||
        types.size() != 3) {
        unknown("its shape or types");
    }
    op.n = shape[1];
    op.k = shape[2];
    op.d = types[0];
    op.a = types[1];
    op.b = types[2];
    expect_operands(4, 8);
    // 64 x n outputs over 128 threads, two to a register if they have 16 bits.
    op.destinations = op.d == Type::f16 ? op.n / 4 : op.n / 2;
    if (operands[0].kind != Operand::Kind::vector ||
        operands[0].elements.size() != static_cast<std::size_t>(op.destinations)) {
        bad(fmt::format("{} accumulators, expected {}", operands[0].elements.size(),
                        op.destinations));
    }
    std::vector<RowRef> rows;
    for (const Operand& element : operands[0].elements) {
        rows.push_back(destination(element, Row::b32));
    }
    op.a_in_registers = operands[1].kind == Operand::Kind::vector;
    if (op.a_in_registers && operands[1].elements.size() != 4) {
        bad(fmt::format("{} registers of a, expected 4", operands[1].elements.size()));
    }
    for (const Operand& element :
         op.a_in_registers ? operands[1].elements : Operands{operands[1]}) {
        rows.push_back(source(element, op.a_in_registers ? Row::b32 : Row::b64));
    }
    rows.push_back(source(operands[2], Row::b64));
    op.saturate = has("satfinite");
    op.scale_d_negated = operands[3].negated;
    rows.push_back(source(operands[3], Row::predicate));
    if (operands.size() > 4) {
        expect_operands(6, 8);
        op.scale_a = immediate(operands[4], -1, 1);
        op.scale_b = immediate(operands[5], -1, 1);
    }
    if (operands.size() > 6) {
        expect_operands(op.a_in_registers ? 7 : 8, op.a_in_registers ? 7 : 8);
        op.transposed_a = !op.a_in_registers && immediate(operands[6], 0, 1) == 1;
        op.transposed_b = immediate(operands.back(), 0, 1) == 1;
    }
    if (const auto why = wgmma_unsupported(op)) {
        unknown(*why);
    }
    code_.matrix.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(op.destinations);
    effects.reads_destinations = true;
    emit(Kind::matrix, code_.matrix.size() - 1, rows, effects);
}

}  // namespace kernelforge::emulator::decoding
