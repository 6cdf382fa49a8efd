// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>

#include "emulator/machine_runner.hpp"

// Barriers of blocks and clusters, and fences.

namespace kernelforge::emulator::running {

namespace {

using What = SyncOp::What;

/// The value of a barrier's operand, the same in all lanes that execute it.
std::uint32_t operand_of(const Rows& rows, RowRef row, std::uint32_t mask) {
    return rows.at<std::uint32_t>(row)[std::countr_zero(mask)];
}

bool is_uniform(const Rows& rows, RowRef row, std::uint32_t mask) {
    const std::uint32_t first = operand_of(rows, row, mask);
    bool same = true;
    each_lane(mask, [&](int lane) { same = same && rows.at<std::uint32_t>(row)[lane] == first; });
    return same;
}

/// Where the barrier's id stands among the operands, and the number of threads (-1: nowhere).
struct Operands {
    int id = 0, threads = -1, predicate = -1;
};

Operands operands_of(const SyncOp& op, int count) {
    if (op.what == What::barrier_reduce) return {1, count == 4 ? 2 : -1, count - 1};
    return {0, count == 2 ? 1 : -1, -1};
}

}  // namespace

Next Runner::block_barrier(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
                           std::uint32_t mask) {
    // `.aligned`: all threads of the warp execute the same instruction.
    if (op.aligned && mask != warp.live) return wait_for_lanes(warp, group, mask, all_lanes);
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    const Operands at = operands_of(op, in.operand_count);
    const int lane = std::countr_zero(mask);
    const std::uint32_t id = operand_of(rows, operands[at.id], mask);
    const std::uint32_t expected =
        at.threads < 0 ? 0 : operand_of(rows, operands[at.threads], mask);
    BlockState& block = *warp.block;
    if (!is_uniform(rows, operands[at.id], mask) ||
        (at.threads >= 0 && !is_uniform(rows, operands[at.threads], mask))) {
        throw Fault{report(Report::Kind::barrier_divergence, warp, lane, in.place,
                           "names another barrier, or number of threads, than other lanes of its "
                           "warp")};
    }
    if (id >= block.barriers.size()) {
        throw Fault{report(Report::Kind::bad_instruction, warp, lane, in.place,
                           "uses barrier " + std::to_string(id) + " of 16")};
    }
    if (at.threads >= 0 && (expected == 0 || expected % warp_lanes != 0)) {
        throw Fault{report(Report::Kind::bad_instruction, warp, lane, in.place,
                           "expects " + std::to_string(expected) +
                               " threads at a barrier, which is not a multiple of 32")};
    }
    Barrier& barrier = block.barriers[id];
    if (op.what == What::barrier_reduce) {
        const std::uint32_t bits = *rows.at<std::uint32_t>(operands[at.predicate]);
        barrier.population +=
            static_cast<std::uint32_t>(std::popcount((op.predicate_negated ? ~bits : bits) & mask));
        barrier.contributors += static_cast<std::uint32_t>(std::popcount(mask));
    }
    if (op.what != What::barrier_arrive) {
        split(warp, group, mask, group.pc, Wait::block_barrier, 0);
        (mask == group.mask ? group : warp.groups.back()).barrier = static_cast<std::uint8_t>(id);
        barrier.waiting_warps |= 1U << warp.index;
    } else {
        if (observer_ != nullptr) {
            observer_->barrier_arrive(actor(warp, mask), static_cast<int>(id));
        }
        if (mask != group.mask) {
            split(warp, group, mask, group.pc + 1, Wait::none, 0);
        } else {
            ++group.pc;
        }
    }
    arrive(warp, static_cast<int>(id), mask, expected, in.place);
    return Next::reschedule;
}

/// PTX ISA 9.0, "bar, barrier": a warp counts as all its threads, those that the block does not
/// have included, where the number of threads is given.
void Runner::arrive(Warp& warp, int id, std::uint32_t lanes, std::uint32_t expected,
                    const Place& place) {
    BlockState& block = *warp.block;
    Barrier& barrier = block.barriers[static_cast<std::size_t>(id)];
    if (barrier.active && barrier.expected != expected) {
        throw Fault{report(
            Report::Kind::barrier_divergence, warp, std::countr_zero(lanes), place,
            "expects " + (expected == 0 ? std::string("all") : std::to_string(expected)) +
                " threads at barrier " + std::to_string(id) + ", for which " + line(barrier.place) +
                " expects " +
                (barrier.expected == 0 ? std::string("all") : std::to_string(barrier.expected)))};
    }
    barrier.active = true;
    barrier.expected = expected;
    barrier.place = place;
    block.active_barriers |= 1U << id;
    std::uint32_t& arrived = barrier.arrived[warp.index];
    barrier.counted += static_cast<std::uint32_t>(std::popcount(lanes));
    arrived |= lanes;
    ++progress_;
    if ((arrived & warp.live) == warp.live) {
        barrier.counted += static_cast<std::uint32_t>(warp_lanes - std::popcount(arrived));
    }
    static_cast<void>(complete_if_full(block, id));
}

bool Runner::complete_if_full(BlockState& block, int id) {
    Barrier& barrier = block.barriers[static_cast<std::size_t>(id)];
    if (barrier.expected != 0) {
        if (barrier.counted < barrier.expected) return false;
    } else {
        for (const Warp& warp : block.warps) {
            const std::uint32_t needed = warp.started ? warp.live : warp.all;
            if ((needed & ~barrier.arrived[warp.index]) != 0) return false;
        }
    }
    release(block, id);
    return true;
}

void Runner::release(BlockState& block, int id) {
    Barrier& barrier = block.barriers[static_cast<std::size_t>(id)];
    std::uint64_t took_part = 0;
    for (Warp& warp : block.warps) {
        // A barrier of all threads takes those that have exited as arrived.
        const bool exited = barrier.expected == 0 && warp.live == 0;
        if (exited || barrier.arrived[warp.index] != 0) {
            took_part |= std::uint64_t{1} << warp.index;
        }
        if ((barrier.waiting_warps >> warp.index & 1U) == 0) continue;
        for (Group& group : warp.groups) {
            if (group.wait != Wait::block_barrier || group.barrier != id) continue;
            const DecodedInstruction& in = code_->instructions[group.pc];
            const SyncOp& op = code_->sync[in.attribute];
            if (op.what == What::barrier_reduce) {
                const RowRef to = code_->operands[in.operands];
                const Rows rows = rows_of(warp, group);
                const bool yes = op.mode == SyncOp::Mode::bit_and
                                     ? barrier.population == barrier.contributors
                                     : barrier.population != 0;
                if (op.mode == SyncOp::Mode::popc && to != no_row) {
                    each_lane(group.mask, [&](int lane) {
                        rows.at<std::uint32_t>(to)[lane] = barrier.population;
                    });
                } else if (to != no_row) {
                    auto& bits = *rows.at<std::uint32_t>(to);
                    bits = (bits & ~group.mask) | (yes ? group.mask : 0);
                }
            }
            group.wait = Wait::none;
            ++group.pc;
        }
    }
    ++progress_;
    if (observer_ != nullptr) {
        observer_->block_barrier(block.index, id, took_part, barrier.waiting_warps);
    }
    barrier = {};
    block.active_barriers &= ~(1U << id);
}

Next Runner::cluster_barrier(Warp& warp, Group& group, const SyncOp& op, std::uint32_t mask) {
    // `.aligned`: all threads of the warp execute the same instruction.
    if (op.aligned && mask != warp.live) return wait_for_lanes(warp, group, mask, all_lanes);
    Unit& unit = *warp.block->unit;
    if (op.what == What::cluster_arrive) {
        warp.cluster_arrived |= mask;
        unit.cluster_arrival = true;
        if (mask == group.mask) {
            ++group.pc;
        } else {
            split(warp, group, mask, group.pc + 1, Wait::none, 0);
        }
        complete_cluster(unit);
        return Next::reschedule;
    }
    // Lanes whose arrival has been completed are no longer among the arrived ones.
    if ((warp.cluster_arrived & mask) == 0) return Next::advance;
    return split(warp, group, mask, group.pc, Wait::cluster_barrier, 0);
}

bool Runner::complete_cluster(Unit& unit) {
    for (const auto& block : unit.blocks) {
        for (const Warp& warp : block->warps) {
            const std::uint32_t needed = warp.started ? warp.live : warp.all;
            if ((needed & ~warp.cluster_arrived) != 0) return false;
        }
    }
    std::vector<std::uint64_t> blocks;
    for (const auto& block : unit.blocks) {
        blocks.push_back(block->index);
        for (Warp& warp : block->warps) {
            warp.cluster_arrived = 0;
            for (Group& group : warp.groups) {
                if (group.wait != Wait::cluster_barrier) continue;
                group.wait = Wait::none;
                ++group.pc;
            }
        }
    }
    unit.cluster_arrival = false;
    ++progress_;
    if (observer_ != nullptr) observer_->cluster_barrier(blocks);
    return true;
}

void Runner::fence(const Warp& warp, const SyncOp& op, std::uint32_t mask) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (observer_ != nullptr && !op.proxy) {
        observer_->fence(actor(warp, mask), op.order, op.scope);
    }
}

}  // namespace kernelforge::emulator::running
