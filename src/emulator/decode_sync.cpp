// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "emulator/decode_function.hpp"

namespace kernelforge::emulator::decoding {

namespace {

using What = SyncOp::What;
using Mode = SyncOp::Mode;

}  // namespace

void FunctionDecoder::emit_sync(const SyncOp& op, const std::vector<RowRef>& operands,
                                int destinations) {
    code_.sync.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(destinations);
    emit(Kind::sync, code_.sync.size() - 1, operands, effects);
}

void FunctionDecoder::barrier() {
    const Operands& operands = now_->operands;
    SyncOp op;
    op.aligned = now_->opcode == "bar" || has("aligned");
    if (has("cluster")) {
        cluster_barrier();
        return;
    }
    if (has("warp")) {
        expect_operands(1, 1);
        op.what = What::warp_sync;
        emit_sync(op, {source(operands[0], Row::b32)}, 0);
        return;
    }
    if (has("red")) {
        expect_operands(3, 4);
        op.what = What::barrier_reduce;
        op.mode = has("popc") ? Mode::popc : has("and") ? Mode::bit_and : Mode::bit_or;
        if (op.mode == Mode::bit_or && !has("or")) {
            unknown();
        }
        op.predicate_negated = operands.back().negated;
        std::vector<RowRef> rows{
            destination(operands[0], op.mode == Mode::popc ? Row::b32 : Row::predicate)};
        for (std::size_t i = 1; i + 1 < operands.size(); ++i) {
            rows.push_back(source(operands[i], Row::b32));
        }
        rows.push_back(source(operands.back(), Row::predicate));
        emit_sync(op, rows, 1);
        return;
    }
    op.what = has("arrive") ? What::barrier_arrive : What::barrier;
    if (op.what == What::barrier && !has("sync")) {
        unknown();
    }
    expect_operands(op.what == What::barrier_arrive ? 2 : 1, 2);
    std::vector<RowRef> rows;
    for (const Operand& operand : operands) {
        rows.push_back(source(operand, Row::b32));
    }
    emit_sync(op, rows, 0);
}

void FunctionDecoder::cluster_barrier() {
    expect_operands(0, 0);
    SyncOp op;
    op.scope = Scope::cluster;
    op.aligned = has("aligned");
    if (has("arrive")) {
        op.what = What::cluster_arrive;
        op.order = has("relaxed") ? Order::relaxed : Order::release;
    } else if (has("wait")) {
        op.what = What::cluster_wait;
        op.order = Order::acquire;
    } else {
        unknown();
    }
    emit_sync(op, {}, 0);
}

void FunctionDecoder::vote() {
    if (!has("sync")) {
        unknown("without a mask of lanes");
    }
    expect_operands(3, 3);
    SyncOp op;
    op.what = has("all")   ? What::vote_all
              : has("any") ? What::vote_any
              : has("uni") ? What::vote_uni
                           : What::vote_ballot;
    if (op.what == What::vote_ballot && !has("ballot")) {
        unknown();
    }
    op.predicate_negated = now_->operands[1].negated;
    const Row result = op.what == What::vote_ballot ? Row::b32 : Row::predicate;
    emit_sync(op,
              {destination(now_->operands[0], result), source(now_->operands[1], Row::predicate),
               source(now_->operands[2], Row::b32)},
              1);
}

void FunctionDecoder::match() {
    if (!has("sync") || has("any") == has("all")) {
        unknown();
    }
    SyncOp op;
    op.what = has("any") ? What::match_any : What::match_all;
    op.type = value_type();
    const Row value = bytes_of(op.type) == 8 ? Row::b64 : Row::b32;
    const Operands& operands = now_->operands;
    expect_operands(3, op.what == What::match_any ? 3 : 4);
    std::vector<RowRef> rows{destination(operands[0], Row::b32)};
    if (op.what == What::match_all) {
        rows.push_back(operands.size() == 4 ? destination(operands[1], Row::predicate) : no_row);
    }
    const int destinations = static_cast<int>(rows.size());
    rows.push_back(source(operands[operands.size() - 2], value));
    rows.push_back(source(operands.back(), Row::b32));
    emit_sync(op, rows, destinations);
}

void FunctionDecoder::shuffle() {
    if (!has("sync")) {
        unknown("without a mask of lanes");
    }
    SyncOp op;
    op.what = What::shuffle;
    op.mode = has("up")     ? Mode::up
              : has("down") ? Mode::down
              : has("bfly") ? Mode::bfly
                            : Mode::idx;
    if (op.mode == Mode::idx && !has("idx")) {
        unknown();
    }
    const Operands& operands = now_->operands;
    expect_operands(5, 6);
    const bool has_predicate = operands.size() == 6;
    std::vector<RowRef> rows{destination(operands[0], Row::b32),
                             has_predicate ? destination(operands[1], Row::predicate) : no_row};
    for (std::size_t i = has_predicate ? 2 : 1; i < operands.size(); ++i) {
        rows.push_back(source(operands[i], Row::b32));
    }
    emit_sync(op, rows, 2);
}

void FunctionDecoder::reduce() {
    using C = MemoryOp::Combine;
    expect_operands(3, 3);
    SyncOp op;
    op.what = What::reduce;
    op.type = value_type();
    for (const auto& [word, combine] :
         {std::pair{"add", C::add}, std::pair{"min", C::min}, std::pair{"max", C::max},
          std::pair{"and", C::bit_and}, std::pair{"or", C::bit_or}, std::pair{"xor", C::bit_xor}}) {
        if (has(word)) {
            op.combine = combine;
        }
    }
    if (op.combine == C::none || bytes_of(op.type) != 4 || op.type == Type::f32) {
        unknown();
    }
    emit_sync(op,
              {destination(now_->operands[0], Row::b32), source(now_->operands[1], Row::b32),
               source(now_->operands[2], Row::b32)},
              1);
}

void FunctionDecoder::elect() {
    expect_operands(3, 3);
    SyncOp op;
    op.what = What::elect;
    emit_sync(op,
              {destination(now_->operands[0], Row::b32),
               destination(now_->operands[1], Row::predicate), source(now_->operands[2], Row::b32)},
              2);
}

void FunctionDecoder::active_mask() {
    expect_operands(1, 1);
    SyncOp op;
    op.what = What::active_mask;
    emit_sync(op, {destination(now_->operands[0], Row::b32)}, 1);
}

/// `fence` without an order is acq_rel, `membar` means seq_cst (PTX ISA, "membar / fence").
void FunctionDecoder::fence() {
    SyncOp op;
    op.what = What::fence;
    op.order = now_->opcode == "membar" || has("sc") ? Order::seq_cst
               : has("acquire")                      ? Order::acquire
               : has("release")                      ? Order::release
                                                     : Order::acq_rel;
    op.proxy = has("proxy");
    op.scope = has("cta")                ? Scope::cta
               : has("cluster")          ? Scope::cluster
               : has("sys")              ? Scope::sys
               : has("gpu") || has("gl") ? Scope::gpu
                                         : Scope::cta;
    // Proxies are one here; the fence of a proxy without a scope orders the thread itself.
    emit_sync(op, {}, 0);
}

}  // namespace kernelforge::emulator::decoding
