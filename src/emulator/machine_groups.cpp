// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emulator/machine_runner.hpp"

// Groups of lanes: which one runs, where they meet, and the memory of warps.

namespace kernelforge::emulator::running {

namespace {

/// Whether lanes of a group may join others at the same instruction: it has not been executed.
bool can_join(const Group& group) {
    return group.wait == Wait::none || group.wait == Wait::lanes;
}

void join_groups(std::vector<Group>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
        for (std::size_t j = i + 1; j < groups.size();) {
            Group& a = groups[i];
            const Group& b = groups[j];
            const bool together = a.pc == b.pc && a.frame == b.frame && can_join(a) &&
                                  can_join(b) && (a.wait == Wait::none || b.wait == Wait::none);
            if (!together) {
                ++j;
                continue;
            }
            a.mask |= b.mask;
            a.wait = Wait::none;
            a.deferred = false;
            a.spin = std::max(a.spin, b.spin);
            groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(j));
            j = i + 1;
        }
    }
}

/// Whether `a` runs before `b`: the deepest call first, then the smallest program counter, since
/// code is laid out so that paths meet further down.
bool before(const Group& a, const Group& b) {
    if (a.deferred != b.deferred) return b.deferred;
    if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
    return a.pc < b.pc;
}

}  // namespace

/// @returns the number of groups where none can run
std::size_t Runner::choose(Warp& warp) {
    std::vector<Group>& groups = warp.groups;
    if (groups.size() == 1) return groups[0].wait == Wait::none ? 0 : 1;
    join_groups(groups);
    std::size_t best = groups.size();
    for (std::size_t i = 0; i < groups.size(); ++i) {
        if (groups[i].wait != Wait::none) continue;
        if (best == groups.size() || before(groups[i], groups[best])) best = i;
    }
    if (best == groups.size() || !groups[best].deferred) return best;
    // All have had their turn.
    for (Group& group : groups) {
        group.deferred = false;
        group.spin = 0;
    }
    return best;
}

std::uint32_t Runner::next_meeting(const Warp& warp, std::size_t position) {
    const Group& running = warp.groups[position];
    std::uint32_t next = UINT32_MAX;
    for (const Group& other : warp.groups) {
        if (other.frame != running.frame || !can_join(other)) continue;
        if (other.pc > running.pc) next = std::min(next, other.pc);
    }
    return next;
}

/// The lanes of the group go to `pc`, or wait there; others of the group to the next instruction,
/// or, where `pc` is the instruction itself, behind it.
Next Runner::split(Warp& warp, Group& group, std::uint32_t lanes, std::uint32_t pc, Wait wait,
                   std::uint32_t named) {
    if (lanes == group.mask) {
        group.pc = pc;
        group.wait = wait;
        group.named = named;
        return Next::reschedule;
    }
    Group part = group;
    part.mask = lanes;
    part.pc = pc;
    part.wait = wait;
    part.named = named;
    group.mask &= ~lanes;
    ++group.pc;
    warp.groups.push_back(part);
    return Next::reschedule;
}

Next Runner::wait_for_lanes(Warp& warp, Group& group, std::uint32_t mask, std::uint32_t named) {
    return split(warp, group, mask, group.pc, Wait::lanes, named);
}

void Runner::start_warp(Warp& warp) {
    warp.started = true;
    warp.live = warp.all;
    if (free_fixed_rows_.empty()) {
        fixed_rows_.push_back(std::make_unique<RowBytes>(code_->constants.size()));
        free_fixed_rows_.push_back(fixed_rows_.back().get());
        std::memcpy(free_fixed_rows_.back()->data(), code_->constants.data(),
                    code_->constants.size());
    }
    warp.fixed = free_fixed_rows_.back();
    free_fixed_rows_.pop_back();
    write_specials(warp);
    Frame* frame = take_frame(launch_->entry->function);
    frame->parent = nullptr;
    frame->depth = frame->local_base = frame->stack_bytes = 0;
    frame->lanes = warp.all;
    warp.frames.assign(1, frame);
    grow_local(warp, code_->functions[frame->function].local_bytes);
    Group group;
    group.pc = code_->functions[frame->function].first;
    group.mask = warp.all;
    group.frame = frame;
    // Handlers keep references to groups while they add others.
    warp.groups.reserve(warp_lanes + 1);
    warp.groups.assign(1, group);
    warp.cluster_arrived = 0;
    warp.idle = false;
    warp.polls.fill({});
}

void Runner::finish_warp(Warp& warp) {
    if (warp.fixed == nullptr) return;
    free_fixed_rows_.push_back(warp.fixed);
    warp.fixed = nullptr;
    for (Frame* frame : warp.frames) free_frames_[frame->function].push_back(frame);
    warp.frames.clear();
    warp.groups.clear();
}

Frame* Runner::take_frame(std::uint32_t function) {
    std::vector<Frame*>& spare = free_frames_[function];
    if (!spare.empty()) {
        Frame* frame = spare.back();
        spare.pop_back();
        return frame;
    }
    const CodeFunction& code = code_->functions[function];
    frames_.push_back(std::make_unique<Frame>(function, code.frame_bytes,
                                              std::size_t{warp_lanes} * code.parameter_bytes));
    return frames_.back().get();
}

/// `lanes` are no longer in the frame; without any it is free.
void Runner::leave_frame(Warp& warp, Frame* frame, std::uint32_t lanes) {
    frame->lanes &= ~lanes;
    if (frame->lanes != 0) return;
    warp.frames.erase(std::find(warp.frames.begin(), warp.frames.end(), frame));
    free_frames_[frame->function].push_back(frame);
}

void Runner::grow_local(Warp& warp, std::uint32_t bytes) {
    if (bytes <= warp.local_bytes) return;
    constexpr std::uint32_t unit = 256;
    const std::uint32_t wanted =
        (std::max(bytes, warp.local_bytes + warp.local_bytes / 2) + unit - 1) / unit * unit;
    std::vector<std::byte> grown(std::size_t{wanted} * warp_lanes);
    for (std::size_t lane = 0; warp.local_bytes > 0 && lane < warp_lanes; ++lane) {
        std::memcpy(grown.data() + lane * wanted, warp.local.data() + lane * warp.local_bytes,
                    warp.local_bytes);
    }
    warp.local = std::move(grown);
    warp.local_bytes = wanted;
}

void Runner::report_parted(Warp& warp) {
    const Group& first = warp.groups.front();
    const DecodedInstruction& in = code_->instructions[first.pc];
    Report made = report(Report::Kind::barrier_divergence, warp, std::countr_zero(first.mask),
                         in.place, "waits for lanes that wait elsewhere");
    made.message =
        "kernel " + made.kernel + ": lanes of a warp can never come together: " + where(warp);
    if (warp.groups.size() > 1) {
        const Group& second = warp.groups[1];
        Report::Party other = made.party;
        other.thread = thread_of(warp, std::countr_zero(second.mask));
        other.place = code_->instructions[second.pc].place;
        other.action = "waits too";
        made.other = other;
    }
    throw Fault{std::move(made)};
}

}  // namespace kernelforge::emulator::running
