// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "emulator/machine_runner.hpp"

// Stepping a warp: the loop over instructions, and what is not a register-to-register one.

namespace kernelforge::emulator::running {

namespace {

/// Instructions of a warp in one turn. Long enough that its rows stay in the cache, short enough
/// that a block's other warps, and the clock, are looked at every few milliseconds.
constexpr std::uint64_t turn_instructions = 32768;
/// The same for a warp that did not store, reach or finish anything in its last turn: it may wait,
/// by loads that are not known as polls, for what other warps do.
constexpr std::uint64_t idle_turn_instructions = 1024;
/// Instructions (a repeated poll counts as many) after which a group of lanes gives way to others.
constexpr std::uint32_t spin_instructions = 16384;

}  // namespace

Turn Runner::run_warp(Warp& warp) {
    if (!warp.started) start_warp(warp);
    warp.repeated_polls = 0;
    const std::uint64_t first = warp.executed, before = progress_;
    const Turn turn =
        take_turn(warp, first + (warp.idle ? idle_turn_instructions : turn_instructions));
    warp.idle = progress_ == before;
    work_ += warp.executed - first;
    return turn;
}

Turn Runner::take_turn(Warp& warp, std::uint64_t limit) {
    while (!warp.groups.empty()) {
        const std::size_t position = choose(warp);
        if (position == warp.groups.size()) {
            const bool parted =
                std::all_of(warp.groups.begin(), warp.groups.end(),
                            [](const Group& group) { return group.wait == Wait::lanes; });
            if (parted) report_parted(warp);
            return Turn::blocked;
        }
        if (warp.executed >= limit) return Turn::quantum;
        // A warp that only sleeps does something: time passes for it.
        if (run_group(warp, position, limit)) {
            return warp.repeated_polls > 0 ? Turn::spinning : Turn::quantum;
        }
    }
    finish_warp(warp);
    return Turn::finished;
}

/// @returns whether the warp gives way to others because it polls or sleeps
bool Runner::run_group(Warp& warp, std::size_t position, std::uint64_t limit) {
    Group& group = warp.groups[position];
    const bool alone = warp.groups.size() == 1;
    const std::uint32_t stop = alone ? UINT32_MAX : next_meeting(warp, position);
    const DecodedInstruction* const instructions = code_->instructions.data();
    const RowRef* const operands = code_->operands.data();
    const Rows rows = rows_of(warp, group);
    const std::uint32_t mask = group.mask;
    const int lanes_in_group = std::popcount(mask);
    std::uint64_t executed = 0, thread_instructions = 0;
    std::uint32_t pc = group.pc;
    Next next = Next::advance;
    while (true) {
        const DecodedInstruction& in = instructions[pc];
        std::uint32_t lanes = mask;
        ++executed;
        if (in.guard != no_row) {
            const std::uint32_t guard = *rows.at<std::uint32_t>(in.guard);
            lanes &= in.guard_negated ? ~guard : guard;
            thread_instructions -= static_cast<std::uint64_t>(std::popcount(mask & ~lanes));
        }
        if (lanes == 0) {
            ++pc;
        } else if (in.pure != nullptr && !in.whole_warp) {
            in.pure(rows, operands + in.operands, lanes);
            ++pc;
        } else if (in.kind == Kind::branch && lanes == mask) {
            const bool backward = in.target <= pc;
            pc = in.target;
            if (!alone || (backward && warp.executed + executed >= limit)) break;
            continue;
        } else {
            group.pc = pc;
            warp.executed += executed;
            warp_instructions_ += executed;
            thread_instructions_ +=
                thread_instructions + executed * static_cast<std::uint64_t>(lanes_in_group);
            if (!alone) group.spin += static_cast<std::uint32_t>(executed);
            executed = thread_instructions = 0;
            next = execute(warp, group, in, lanes);
            if (next == Next::reschedule) return false;
            ++pc;
            if (next == Next::yield || warp.executed >= limit) break;
        }
        if (pc >= stop) break;
    }
    group.pc = pc;
    warp.executed += executed;
    warp_instructions_ += executed;
    thread_instructions_ +=
        thread_instructions + executed * static_cast<std::uint64_t>(lanes_in_group);
    if (!alone) {
        group.spin += static_cast<std::uint32_t>(executed);
        if (group.spin >= spin_instructions) {
            group.spin = 0;
            group.deferred = true;
        }
    }
    return next == Next::yield;
}

Next Runner::execute(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    switch (in.kind) {
        case Kind::pure:
            if (mask != warp.live) return wait_for_lanes(warp, group, mask, all_lanes);
            if (observer_ != nullptr) observer_->warp_sync(actor(warp, mask));
            warp.executed += matrix_weight;
            in.pure(rows_of(warp, group), code_->operands.data() + in.operands, mask);
            return Next::advance;
        case Kind::nothing:
        case Kind::breakpoint:
            return Next::advance;
        case Kind::branch:
            return split(warp, group, mask, in.target, Wait::none, 0);
        case Kind::branch_table:
            return branch_table(warp, group, in, mask);
        case Kind::call:
            return call(warp, group, in, mask);
        case Kind::call_system:
            return system_call(warp, group, in, mask);
        case Kind::ret:
            return ret(warp, group, mask);
        case Kind::exit:
            return exit(warp, group, mask);
        case Kind::trap:
            throw Fault{report(Report::Kind::trap, warp, std::countr_zero(mask), in.place,
                               "executes a trap")};
        case Kind::memory:
            return memory(warp, group, in, mask);
        case Kind::sync:
            return sync(warp, group, in, mask);
        case Kind::async:
            return async(warp, group, in, mask);
        case Kind::matrix:
            return matrix(warp, group, in, mask);
        case Kind::clock:
            read_special(warp, rows_of(warp, group), in, mask);
            return Next::advance;
        case Kind::nanosleep:
            if (mask != group.mask) return Next::advance;
            group.spin += spin_instructions / 4;
            return Next::yield;
        case Kind::address_query:
            query(warp, group, in, mask);
            return Next::advance;
    }
    return Next::advance;
}

Next Runner::poll(Warp& warp, Group& group, std::uint64_t outcome) {
    auto last = std::find_if(warp.polls.begin(), warp.polls.end(),
                             [&](const Poll& before) { return before.pc == group.pc; });
    const bool repeated = last != warp.polls.end() && last->outcome == outcome;
    if (last == warp.polls.end()) {
        last = warp.polls.begin() + warp.next_poll_entry++ % warp.polls.size();
    }
    *last = {group.pc, outcome};
    if (!repeated) {
        ++progress_;
        return Next::advance;
    }
    constexpr std::uint32_t most_polls = 8;
    group.spin += spin_instructions / most_polls;
    return ++warp.repeated_polls >= most_polls ? Next::yield : Next::advance;
}

Next Runner::branch_table(Warp& warp, Group& group, const DecodedInstruction& in,
                          std::uint32_t mask) {
    const std::vector<std::uint32_t>& table = code_->branch_tables[in.attribute];
    const auto* index = rows_of(warp, group).at<std::uint32_t>(code_->operands[in.operands]);
    std::uint32_t rest = mask;
    Group* parting = &group;
    while (rest != 0) {
        const int lane = std::countr_zero(rest);
        const std::uint32_t wanted = index[lane];
        if (wanted >= table.size()) {
            throw Fault{report(Report::Kind::bad_instruction, warp, lane, in.place,
                               "branches by index " + std::to_string(wanted) + " of a table of " +
                                   std::to_string(table.size()))};
        }
        std::uint32_t same = 0;
        each_lane(rest, [&](int other) { same |= std::uint32_t{index[other] == wanted} << other; });
        rest &= ~same;
        if (same == parting->mask) {
            parting->pc = table[wanted];
            return Next::reschedule;
        }
        parting->mask &= ~same;
        Group part = *parting;
        part.mask = same;
        part.pc = table[wanted];
        warp.groups.push_back(part);
    }
    ++group.pc;
    return Next::reschedule;
}

Next Runner::call(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    Frame* const caller = group.frame;
    const std::uint32_t return_pc = group.pc + 1;
    const CodeFunction& function = code_->functions[in.target];
    const auto same = std::find_if(warp.frames.begin(), warp.frames.end(), [&](Frame* frame) {
        return frame->parent == caller && frame->return_pc == return_pc &&
               frame->function == in.target;
    });
    Frame* frame = same == warp.frames.end() ? nullptr : *same;
    if (frame == nullptr) {
        frame = take_frame(in.target);
        frame->parent = caller;
        frame->return_pc = return_pc;
        frame->call = in.attribute;
        frame->depth = caller->depth + 1;
        frame->lanes = 0;
        frame->local_base = caller->local_base + code_->functions[caller->function].local_bytes;
        frame->stack_bytes = caller->stack_bytes;
        warp.frames.push_back(frame);
        for (const Frame* before = caller; before != nullptr; before = before->parent) {
            if (before->function != in.target) continue;
            // A return address and a saved register at least, beside the variables.
            constexpr std::uint32_t least_frame_bytes = 16;
            frame->stack_bytes += function.local_bytes + least_frame_bytes;
            break;
        }
        const std::uint32_t local_bytes = frame->local_base + function.local_bytes;
        if (frame->stack_bytes > launch_->limits->stack_bytes ||
            local_bytes > launch_->limits->most_local_bytes) {
            throw Fault{report(Report::Kind::stack_overflow, warp, std::countr_zero(mask), in.place,
                               "calls " + function.name + " " + std::to_string(frame->depth) +
                                   " calls deep, which overflows its stack of " +
                                   std::to_string(launch_->limits->stack_bytes) + " bytes")};
        }
        grow_local(warp, local_bytes);
    }
    frame->lanes |= mask;
    const std::uint32_t from_stride = code_->functions[caller->function].parameter_bytes;
    for (const CallOp::Copy& copy : code_->calls[in.attribute].arguments) {
        each_lane(mask, [&](int lane) {
            const auto at = static_cast<std::uint32_t>(lane);
            std::copy_n(caller->parameters.data() + at * from_stride + copy.from, copy.bytes,
                        frame->parameters.data() + at * function.parameter_bytes + copy.to);
        });
    }
    split(warp, group, mask, function.first, Wait::none, 0);
    Group& called = mask == group.mask ? group : warp.groups.back();
    called.frame = frame;
    return Next::reschedule;
}

Next Runner::ret(Warp& warp, Group& group, std::uint32_t mask) {
    Frame* const frame = group.frame;
    if (frame->parent == nullptr) return exit(warp, group, mask);
    Frame* const caller = frame->parent;
    const std::uint32_t from_stride = code_->functions[frame->function].parameter_bytes;
    const std::uint32_t to_stride = code_->functions[caller->function].parameter_bytes;
    for (const CallOp::Copy& copy : code_->calls[frame->call].results) {
        each_lane(mask, [&](int lane) {
            const auto at = static_cast<std::uint32_t>(lane);
            std::copy_n(frame->parameters.data() + at * from_stride + copy.from, copy.bytes,
                        caller->parameters.data() + at * to_stride + copy.to);
        });
    }
    const std::uint32_t return_pc = frame->return_pc;
    const bool all = mask == group.mask;
    split(warp, group, mask, return_pc, Wait::none, 0);
    (all ? group : warp.groups.back()).frame = caller;
    frame->lanes &= ~mask;
    if (frame->lanes == 0) leave_frame(warp, frame, 0);
    return Next::reschedule;
}

Next Runner::exit(Warp& warp, Group& group, std::uint32_t mask) {
    for (Frame* frame = group.frame; frame != nullptr;) {
        Frame* const parent = frame->parent;
        leave_frame(warp, frame, mask);
        frame = parent;
    }
    warp.live &= ~mask;
    ++progress_;
    group.mask &= ~mask;
    ++group.pc;
    if (group.mask == 0) {
        warp.groups.erase(warp.groups.begin() + (&group - warp.groups.data()));
    }
    // Those that waited for the lanes that are gone look again.
    for (Group& other : warp.groups) {
        if (other.wait == Wait::lanes) other.wait = Wait::none;
    }
    BlockState& block = *warp.block;
    for (std::uint32_t active = block.active_barriers; active != 0; active &= active - 1) {
        static_cast<void>(complete_if_full(block, std::countr_zero(active)));
    }
    if (block.unit->cluster_arrival) complete_cluster(*block.unit);
    return Next::reschedule;
}

}  // namespace kernelforge::emulator::running
