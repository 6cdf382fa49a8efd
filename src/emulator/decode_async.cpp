// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emulator/decode_function.hpp"

namespace kernelforge::emulator::decoding {

namespace {

using What = AsyncOp::What;

MemoryOp::Combine reduction_of(const Instruction& instruction) {
    using C = MemoryOp::Combine;
    for (const auto& [word, combine] :
         {std::pair{"add", C::add}, std::pair{"min", C::min}, std::pair{"max", C::max},
          std::pair{"inc", C::inc}, std::pair{"dec", C::dec}, std::pair{"and", C::bit_and},
          std::pair{"or", C::bit_or}, std::pair{"xor", C::bit_xor}}) {
        if (instruction.has(word)) {
            return combine;
        }
    }
    return C::none;
}

/// "2d" -> 2; 0: none.
int dimensions_of(const Instruction& instruction) {
    for (const std::string& word : instruction.modifiers) {
        if (word.size() == 2 && word[1] == 'd' && word[0] >= '1' && word[0] <= '5') {
            return word[0] - '0';
        }
    }
    return 0;
}

bool is_shared(std::string_view word) {
    return word == "shared" || word == "shared::cta" || word == "shared::cluster";
}

/// Destination and source: the first two state spaces among the words. False: there are none.
bool find_spaces(const Instruction& instruction, AsyncOp& op) {
    int found = 0;
    for (const std::string& word : instruction.modifiers) {
        if (found < 2 && (is_shared(word) || word == "global")) {
            const Space space = word == "global" ? Space::global : Space::shared;
            (found == 0 ? op.to : op.from) = space;
            op.to_cluster = op.to_cluster || (found == 0 && word == "shared::cluster");
            ++found;
        }
    }
    return found == 2;
}

}  // namespace

void FunctionDecoder::add_address(AsyncOp& op, std::vector<RowRef>& rows,
                                  const Operand& operand) const {
    Operand flat = operand;
    flat.elements.clear();  // coordinates are operands of their own
    const Address where = address(flat);
    op.places.push_back({where.shape, where.symbol, where.offset});
    rows.push_back(where.row);
}

void FunctionDecoder::add_value(AsyncOp& op, std::vector<RowRef>& rows, const Operand& operand,
                                Row shape) {
    op.places.push_back({shape, -1, 0});
    rows.push_back(source(operand, shape));
}

void FunctionDecoder::emit_async(const AsyncOp& op, const std::vector<RowRef>& operands,
                                 int destinations) {
    code_.async.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(destinations);
    emit(Kind::async, code_.async.size() - 1, operands, effects);
}

void FunctionDecoder::copy_async() {
    if (has("reduce")) {
        reduce_async();
        return;
    }
    if (!has("async")) {
        unknown();
    }
    if (has("bulk")) {
        copy_bulk();
        return;
    }
    const Operands& operands = now_->operands;
    AsyncOp op;
    std::vector<RowRef> rows;
    if (has("commit_group") || has("wait_all") || has("wait_group")) {
        op.what = has("commit_group") ? What::commit : What::wait;
        expect_operands(has("wait_group") ? 1 : 0, has("wait_group") ? 1 : 0);
        op.count = has("wait_group") ? immediate(operands[0], 0, 1 << 20) : -1;
        emit_async(op, rows, 0);
        return;
    }
    if (has("mbarrier")) {
        expect_operands(1, 1);
        op.what = What::arrive_on_copies;
        op.no_increment = has("noinc");
        add_address(op, rows, operands[0]);
        emit_async(op, rows, 0);
        return;
    }
    const std::size_t policy = has("L2::cache_hint") ? 1 : 0;
    expect_operands(3 + policy, 4 + policy);
    op.what = What::copy;
    op.bytes = immediate(operands[2], 4, 16);
    if ((op.bytes != 4 && op.bytes != 8 && op.bytes != 16) || (has("cg") && op.bytes != 16)) {
        bad(fmt::format("a copy of {} bytes", op.bytes));
    }
    add_address(op, rows, operands[0]);
    add_address(op, rows, operands[1]);
    if (operands.size() == 4 + policy) {
        const Operand& last = operands[3];
        op.has_ignore = shape_of(last, Row::b32) == Row::predicate;
        op.has_size = !op.has_ignore;
        if (last.negated) {
            unknown("a negated predicate");
        }
        add_value(op, rows, last, op.has_ignore ? Row::predicate : Row::b32);
    }
    emit_async(op, rows, 0);
}

void FunctionDecoder::copy_bulk() {
    const Operands& operands = now_->operands;
    AsyncOp op;
    std::vector<RowRef> rows;
    if (has("commit_group") || has("wait_group")) {
        op.what = has("commit_group") ? What::bulk_commit : What::bulk_wait;
        op.read_only = has("read");
        expect_operands(has("wait_group") ? 1 : 0, has("wait_group") ? 1 : 0);
        op.count = has("wait_group") ? immediate(operands[0], 0, 1 << 20) : 0;
        emit_async(op, rows, 0);
        return;
    }
    if (has("tensor")) {
        copy_tensor();
        return;
    }
    const std::size_t policy = has("L2::cache_hint") ? 1 : 0;
    if (has("prefetch")) {
        expect_operands(2 + policy, 2 + policy);
        op.what = What::bulk_prefetch;
        add_address(op, rows, operands[0]);
        add_value(op, rows, operands[1], Row::b32);
        emit_async(op, rows, 0);
        return;
    }
    if (has("cp_mask") || has("ignore_oob") || !find_spaces(*now_, op)) {
        unknown();
    }
    op.what = What::bulk_copy;
    op.multicast = has("multicast::cluster");
    const std::size_t barrier = has("bulk_group") ? 0 : 1;
    if (barrier == 1 && !has("mbarrier::complete_tx::bytes")) {
        unknown("its completion");
    }
    const std::size_t expected = 3 + barrier + (op.multicast ? 1 : 0) + policy;
    expect_operands(expected, expected);
    add_address(op, rows, operands[0]);
    add_address(op, rows, operands[1]);
    add_value(op, rows, operands[2], Row::b32);
    if (barrier == 1) {
        add_address(op, rows, operands[3]);
    }
    if (op.multicast) {
        add_value(op, rows, operands[4], Row::b32);
    }
    emit_async(op, rows, 0);
}

void FunctionDecoder::copy_tensor() {
    for (const std::string& word : now_->modifiers) {
        if (word.rfind("im2col", 0) == 0 || word.rfind("tile::", 0) == 0 ||
            word.rfind("cta_group", 0) == 0) {
            unknown(word);
        }
    }
    const Operands& operands = now_->operands;
    AsyncOp op;
    op.dimensions = dimensions_of(*now_);
    op.multicast = has("multicast::cluster");
    const bool is_reduction = now_->has("reduce");
    const bool is_prefetch = has("prefetch");
    if (op.dimensions == 0 || (!is_prefetch && !find_spaces(*now_, op))) {
        unknown();
    }
    const bool is_load = !is_prefetch && op.to == Space::shared;
    op.what = is_prefetch    ? What::tensor_prefetch
              : is_load      ? What::tensor_load
              : is_reduction ? What::tensor_reduce
                             : What::tensor_store;
    op.combine = is_reduction ? reduction_of(*now_) : MemoryOp::Combine::none;
    const std::size_t policy = has("L2::cache_hint") ? 1 : 0;
    const std::size_t expected = (is_prefetch ? 1
                                  : is_load   ? 3
                                              : 2) +
                                 (op.multicast ? 1 : 0) + policy;
    expect_operands(expected, expected);
    std::vector<RowRef> rows;
    const Operand& map = operands[is_load ? 1 : 0];
    Operands coordinates = map.elements;
    // `[map, {…}]` may keep its coordinates as one vector.
    if (coordinates.size() == 1 && coordinates[0].kind == Operand::Kind::vector) {
        coordinates = Operands(coordinates[0].elements);
    }
    if (coordinates.size() != static_cast<std::size_t>(op.dimensions)) {
        bad(fmt::format("{} coordinates, expected {}", coordinates.size(), op.dimensions));
    }
    if (is_load) {
        add_address(op, rows, operands[0]);
    }
    add_address(op, rows, map);
    for (const Operand& coordinate : coordinates) {
        add_value(op, rows, coordinate, Row::b32);
    }
    if (!is_prefetch) {
        add_address(op, rows, operands[is_load ? 2 : 1]);
    }
    if (op.multicast) {
        add_value(op, rows, operands[3], Row::b32);
    }
    emit_async(op, rows, 0);
}

void FunctionDecoder::reduce_async() {
    if (has("tensor")) {
        copy_tensor();
        return;
    }
    const Operands& operands = now_->operands;
    AsyncOp op;
    op.what = What::bulk_reduce;
    op.combine = reduction_of(*now_);
    op.type = value_type();
    if (!find_spaces(*now_, op) || op.combine == MemoryOp::Combine::none) {
        unknown();
    }
    const std::size_t barrier = has("bulk_group") ? 0 : 1;
    const std::size_t policy = has("L2::cache_hint") ? 1 : 0;
    expect_operands(3 + barrier + policy, 3 + barrier + policy);
    std::vector<RowRef> rows;
    add_address(op, rows, operands[0]);
    add_address(op, rows, operands[1]);
    add_value(op, rows, operands[2], Row::b32);
    if (barrier == 1) {
        add_address(op, rows, operands[3]);
    }
    emit_async(op, rows, 0);
}

void FunctionDecoder::mbarrier() {
    const Operands& operands = now_->operands;
    AsyncOp op;
    op.to_cluster = has("shared::cluster");
    op.scope = has("cluster") ? Scope::cluster : Scope::cta;
    op.order = has("relaxed") ? Order::relaxed : Order::release;
    std::vector<RowRef> rows;
    if (has("init")) {
        expect_operands(2, 2);
        op.what = What::init;
        add_address(op, rows, operands[0]);
        add_value(op, rows, operands[1], Row::b32);
        emit_async(op, rows, 0);
    } else if (has("inval")) {
        expect_operands(1, 1);
        op.what = What::inval;
        add_address(op, rows, operands[0]);
        emit_async(op, rows, 0);
    } else if (has("arrive") || has("arrive_drop")) {
        mbarrier_arrive(std::move(op));
    } else if (has("expect_tx") || has("complete_tx")) {
        expect_operands(2, 2);
        op.what = has("expect_tx") ? What::expect_tx : What::complete_tx;
        add_address(op, rows, operands[0]);
        add_value(op, rows, operands[1], Row::b32);
        emit_async(op, rows, 0);
    } else if (has("test_wait") || has("try_wait")) {
        mbarrier_wait(std::move(op));
    } else if (has("pending_count")) {
        expect_operands(2, 2);
        op.what = What::pending_count;
        op.places.push_back({Row::b32, -1, 0});
        rows.push_back(destination(operands[0], Row::b32));
        add_value(op, rows, operands[1], Row::b64);
        emit_async(op, rows, 1);
    } else {
        unknown();
    }
}

void FunctionDecoder::mbarrier_arrive(AsyncOp op) {
    const Operands& operands = now_->operands;
    expect_operands(1, 3);
    op.what = has("arrive_drop") ? What::arrive_drop
              : has("expect_tx") ? What::arrive_expect_tx
                                 : What::arrive;
    if (op.what == What::arrive_drop && has("expect_tx")) {
        unknown();
    }
    std::vector<RowRef> rows;
    std::size_t next = 0;
    op.places.push_back({Row::b64, -1, 0});
    if (operands[0].kind == Operand::Kind::address) {
        rows.push_back(no_row);
    } else {
        rows.push_back(destination(operands[next++], Row::b64));
    }
    expect_operands(next + 1, next + 2);
    add_address(op, rows, operands[next++]);
    if (next < operands.size()) {
        add_value(op, rows, operands[next], Row::b32);
    } else if (op.what == What::arrive_expect_tx) {
        bad("no number of bytes");
    }
    emit_async(op, rows, 1);
}

void FunctionDecoder::mbarrier_wait(AsyncOp op) {
    const Operands& operands = now_->operands;
    const bool parity = has("parity");
    op.order = has("relaxed") ? Order::relaxed : Order::acquire;
    op.what = has("test_wait") ? (parity ? What::test_wait_parity : What::test_wait)
                               : (parity ? What::try_wait_parity : What::try_wait);
    expect_operands(3, has("test_wait") ? 3 : 4);
    std::vector<RowRef> rows{destination(operands[0], Row::predicate)};
    op.places.push_back({Row::predicate, -1, 0});
    add_address(op, rows, operands[1]);
    add_value(op, rows, operands[2], parity ? Row::b32 : Row::b64);
    if (operands.size() == 4) {
        add_value(op, rows, operands[3], Row::b32);
    }
    emit_async(op, rows, 1);
}

}  // namespace kernelforge::emulator::decoding
