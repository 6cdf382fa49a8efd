// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emulator/async_barrier.hpp"
#include "emulator/async_bulk.hpp"
#include "emulator/machine_runner.hpp"

// mbarriers and cp.async. Copies are performed when they are issued: a kernel cannot tell, as it
// must not look before it has waited.

namespace kernelforge::emulator::running {

using What = AsyncOp::What;

LaneWords Runner::async_operand(const Warp& warp, const Group& group, const DecodedInstruction& in,
                                int operand) const {
    const AsyncOp::Place& place =
        code_->async[in.attribute].places[static_cast<std::size_t>(operand)];
    LaneWords words;
    addresses(group, rows_of(warp, group),
              code_->operands[in.operands + static_cast<std::uint32_t>(operand)], place.row,
              place.symbol, place.offset, words);
    return words;
}

/// Shared addresses come as they are or in the generic window.
Space Runner::shared_space(std::uint64_t address) {
    return window_of(address) == Window::none ? Space::shared : Space::generic;
}

Runner::BarrierPlace Runner::barrier_at(Warp& warp, std::uint64_t address, int lane,
                                        const Place& place) {
    Request request;
    request.space = shared_space(address);
    request.what = Access::What::atomic;
    request.writes = true;
    request.bytes = request.alignment = 8;
    std::uint64_t rank = warp.block->unit->blocks.size();
    BarrierPlace found;
    found.memory = range(warp, request, address, 8, lane, place, &rank);
    if (rank >= warp.block->unit->blocks.size()) {
        bad_access(warp, request, Report::Kind::out_of_bounds, address, lane, place,
                   "an mbarrier that is not in shared memory");
    }
    found.owner = warp.block->unit->blocks[rank]->index;
    found.offset =
        static_cast<std::uint64_t>(found.memory - warp.block->unit->blocks[rank]->shared->data());
    return found;
}

void Runner::bad_barrier(const Warp& warp, int lane, const Place& place,
                         const BarrierPlace& barrier, const char* error) const {
    throw Fault{report(Report::Kind::bad_instruction, warp, lane, place,
                       "uses the mbarrier at shared offset " + std::to_string(barrier.offset) +
                           ", which " + error)};
}

Next Runner::async(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    const AsyncOp& op = code_->async[in.attribute];
    switch (op.what) {
        case What::copy:
            copy(warp, group, in, mask);
            return Next::advance;
        case What::commit:
        case What::bulk_commit:
            if (observer_ != nullptr) observer_->async_commit(actor(warp, mask));
            return Next::advance;
        case What::bulk_prefetch:
        case What::tensor_prefetch:
            return Next::advance;
        case What::wait:
        case What::bulk_wait:
            groups_done(warp, mask, op.count);
            return Next::advance;
        case What::bulk_copy:
        case What::bulk_reduce:
            each_lane(mask, [&](int lane) { bulk(warp, group, in, lane); });
            ++progress_;
            return Next::advance;
        case What::tensor_load:
        case What::tensor_store:
        case What::tensor_reduce:
            each_lane(mask, [&](int lane) { tensor(warp, group, in, lane); });
            ++progress_;
            return Next::advance;
        case What::test_wait:
        case What::try_wait:
        case What::test_wait_parity:
        case What::try_wait_parity:
            return barrier_wait(warp, group, in, mask);
        case What::pending_count: {
            const LaneWords states = async_operand(warp, group, in, 1);
            const RowRef to = code_->operands[in.operands];
            const Rows rows = rows_of(warp, group);
            each_lane(to == no_row ? 0 : mask, [&](int lane) {
                rows.at<std::uint32_t>(to)[lane] =
                    barrier_pending_count(states[static_cast<std::size_t>(lane)]);
            });
            return Next::advance;
        }
        default:
            barrier_update(warp, group, in, mask);
            return Next::advance;
    }
}

/// Copies of the lanes are complete, but for the `left` newest groups and what is in no group yet;
/// all of them where `left` is negative. One number counts the groups
/// of all kinds of copies for who watches, so with several kinds at once it may be told too much.
void Runner::groups_done(const Warp& warp, std::uint32_t mask, int left) {
    if (observer_ == nullptr) return;
    if (left < 0) {
        observer_->async_done(actor(warp, mask));
    } else {
        observer_->async_done_but(actor(warp, mask), static_cast<std::uint32_t>(left));
    }
}

namespace {

/// The change of one lane's operation. `value` is its count or number of bytes.
BarrierUpdate changed(What what, std::uint64_t word, std::uint32_t value) {
    switch (what) {
        case What::init:
            return barrier_init(value);
        case What::inval:
            return barrier_inval(word);
        case What::arrive:
        case What::arrive_on_copies:
            return barrier_arrive(word, value);
        case What::arrive_drop:
            return barrier_arrive_drop(word, value);
        case What::expect_tx:
            return barrier_expect_tx(word, value);
        case What::arrive_expect_tx:
            return barrier_arrive_expect_tx(word, value);
        default:
            return barrier_complete_tx(word, value);
    }
}

}  // namespace

void Runner::barrier_update(Warp& warp, Group& group, const DecodedInstruction& in,
                            std::uint32_t mask) {
    const AsyncOp& op = code_->async[in.attribute];
    // Arrivals have a destination, the state, before the barrier.
    const bool has_state = op.what == What::arrive || op.what == What::arrive_drop ||
                           op.what == What::arrive_expect_tx;
    const int barrier_operand = has_state ? 1 : 0;
    const LaneWords barriers = async_operand(warp, group, in, barrier_operand);
    LaneWords values;
    values.fill(1);
    if (in.operand_count > barrier_operand + 1) {
        values = async_operand(warp, group, in, barrier_operand + 1);
    }
    const RowRef state = has_state ? code_->operands[in.operands] : no_row;
    const Rows rows = rows_of(warp, group);
    const bool arrives = has_state || op.what == What::arrive_on_copies;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        const BarrierPlace barrier = barrier_at(warp, barriers[at], lane, in.place);
        const Actor who = actor(warp, 1U << lane);
        if (observer_ != nullptr && op.what == What::init) {
            Request request;
            request.what = Access::What::write;
            request.bytes = 8;
            LaneWords offsets{};
            offsets[at] = barrier.offset;
            tell(warp, request, Space::shared, offsets.data(), barrier.owner, 1U << lane, in.place);
        }
        if (observer_ != nullptr && op.what == What::arrive_on_copies) {
            observer_->async_done_at(who, barrier.owner, barrier.offset);
        }
        if (observer_ != nullptr && arrives) {
            observer_->mbarrier_arrive(who, barrier.owner, barrier.offset);
        }
        const auto value = static_cast<std::uint32_t>(values[at]);
        const bool adds = op.what == What::arrive_on_copies && !op.no_increment;
        const BarrierUpdate update = update_barrier(barrier.memory, [&](std::uint64_t word) {
            if (adds) {
                const BarrierUpdate added = barrier_add_pending(word);
                if (added.error != nullptr) return added;
                word = added.word;
            }
            return changed(op.what, word, value);
        });
        if (update.error != nullptr) bad_barrier(warp, lane, in.place, barrier, update.error);
        if (state != no_row) rows.at<std::uint64_t>(state)[lane] = update.state;
    });
    ++progress_;
}

Next Runner::barrier_wait(Warp& warp, Group& group, const DecodedInstruction& in,
                          std::uint32_t mask) {
    const AsyncOp& op = code_->async[in.attribute];
    const bool parity = op.what == What::test_wait_parity || op.what == What::try_wait_parity;
    const bool tries = op.what == What::try_wait || op.what == What::try_wait_parity;
    const LaneWords barriers = async_operand(warp, group, in, 1);
    const LaneWords states = async_operand(warp, group, in, 2);
    std::uint32_t done = 0;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        const BarrierPlace barrier = barrier_at(warp, barriers[at], lane, in.place);
        const std::uint64_t word =
            std::atomic_ref(*reinterpret_cast<std::uint64_t*>(barrier.memory)).load();
        const BarrierTest test =
            parity ? barrier_test_parity(word, static_cast<std::uint32_t>(states[at]))
                   : barrier_test(word, states[at]);
        if (test.error != nullptr) bad_barrier(warp, lane, in.place, barrier, test.error);
        if (!test.completed) return;
        done |= 1U << lane;
        if (observer_ != nullptr) {
            observer_->mbarrier_acquire(actor(warp, 1U << lane), barrier.owner, barrier.offset);
        }
    });
    const RowRef to = code_->operands[in.operands];
    if (to != no_row) {
        auto& bits = *rows_of(warp, group).at<std::uint32_t>(to);
        bits = (bits & ~mask) | done;
    }
    if (done == mask) return Next::advance;
    // `try_wait` may suspend: here it lets the others have their turn.
    const Next next = poll(warp, group, done ^ std::uint64_t{mask} << 32);
    return tries && mask == group.mask ? Next::yield : next;
}

void Runner::copy(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    const AsyncOp& op = code_->async[in.attribute];
    const auto bytes = static_cast<std::uint32_t>(op.bytes);
    const LaneWords to = async_operand(warp, group, in, 0);
    const LaneWords from = async_operand(warp, group, in, 1);
    LaneWords sizes;
    sizes.fill(bytes);
    if (op.has_size) sizes = async_operand(warp, group, in, 2);
    if (op.has_ignore) {
        const std::uint32_t ignored =
            *rows_of(warp, group).at<std::uint32_t>(code_->operands[in.operands + 2]);
        each_lane(ignored, [&](int lane) { sizes[static_cast<std::size_t>(lane)] = 0; });
    }
    std::uint32_t whole = 0, partial = 0;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        if (const auto why = sizes[at] > 0 || bytes == 0
                                 ? copy_fault(to[at], from[at], op.bytes, sizes[at])
                                 : std::nullopt) {
            throw Fault{report(Report::Kind::misaligned, warp, lane, in.place,
                               "executes a cp.async that " + *why)};
        }
        if (sizes[at] == bytes) {
            whole |= 1U << lane;
        } else if (sizes[at] > 0) {
            partial |= 1U << lane;
        }
    });
    LaneWords source{}, destination{};
    Request reads;
    reads.space = window_of(from[static_cast<std::size_t>(std::countr_zero(mask))]) == Window::none
                      ? Space::global
                      : Space::generic;
    reads.what = Access::What::async_read;
    reads.bytes = bytes;
    reads.alignment = bytes;
    if (whole != 0) resolve(warp, reads, from, whole, in.place, source);
    each_lane(partial, [&](int lane) {
        reads.bytes = static_cast<std::uint32_t>(sizes[static_cast<std::size_t>(lane)]);
        resolve(warp, reads, from, 1U << lane, in.place, source);
    });
    Request writes;
    writes.space = shared_space(to[static_cast<std::size_t>(std::countr_zero(mask))]);
    writes.what = Access::What::async_write;
    writes.writes = true;
    writes.bytes = writes.alignment = bytes;
    // A source that is resolved for single lanes must not be overwritten by the others.
    resolve(warp, writes, to, mask, in.place, destination);
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        auto* memory = reinterpret_cast<std::byte*>(destination[at]);
        std::memcpy(memory, reinterpret_cast<const void*>(source[at]), sizes[at]);
        std::memset(memory + sizes[at], 0, bytes - sizes[at]);
    });
    ++progress_;
}

}  // namespace kernelforge::emulator::running
