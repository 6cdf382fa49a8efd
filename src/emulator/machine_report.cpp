// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "emulator/machine_runner.hpp"

// Sentences about what went wrong, and where.

namespace kernelforge::emulator {

std::string_view to_string(Report::Kind kind) noexcept {
    switch (kind) {
        case Report::Kind::out_of_bounds:
            return "out_of_bounds";
        case Report::Kind::misaligned:
            return "misaligned";
        case Report::Kind::read_only_write:
            return "read_only_write";
        case Report::Kind::uninitialised:
            return "uninitialised";
        case Report::Kind::race:
            return "race";
        case Report::Kind::barrier_divergence:
            return "barrier_divergence";
        case Report::Kind::trap:
            return "trap";
        case Report::Kind::assertion:
            return "assertion";
        case Report::Kind::deadlock:
            return "deadlock";
        case Report::Kind::endless:
            return "endless";
        case Report::Kind::stack_overflow:
            return "stack_overflow";
        case Report::Kind::bad_instruction:
            return "bad_instruction";
        case Report::Kind::limit:
            return "limit";
    }
    return "unknown";
}

namespace running {

std::string text_of(const std::array<std::uint32_t, 3>& coordinate) {
    return "(" + std::to_string(coordinate[0]) + "," + std::to_string(coordinate[1]) + "," +
           std::to_string(coordinate[2]) + ")";
}

std::array<std::uint32_t, 3> Runner::thread_of(const Warp& warp, int lane) const {
    const std::array<std::uint32_t, 3>& extent = launch_->launch->block;
    const std::uint32_t linear = warp.index * warp_lanes + static_cast<std::uint32_t>(lane);
    return {linear % extent[0], linear / extent[0] % extent[1], linear / extent[0] / extent[1]};
}

std::string Runner::line(const Place& place) const {
    return place.source_line > 0 ? "line " + std::to_string(place.source_line)
                                 : "PTX line " + std::to_string(place.ptx_line);
}

Report Runner::report(Report::Kind kind, const Warp& warp, int lane, const Place& place,
                      const std::string& what) const {
    Report made;
    made.kind = kind;
    made.kernel = launch_->entry->name;
    made.party.block = warp.block->coordinate;
    made.party.thread = thread_of(warp, lane);
    made.party.place = place;
    made.party.action = what;
    made.message = "kernel " + made.kernel + ", " + line(place) + ": thread " +
                   text_of(made.party.thread) + " of block " + text_of(made.party.block) + " " +
                   what;
    return made;
}

std::string Runner::where(const Group& group) const {
    const DecodedInstruction& in = code_->instructions[group.pc];
    char lanes[16];
    std::snprintf(lanes, sizeof lanes, "0x%08x", group.mask);
    std::string text = "lanes " + std::string(lanes);
    switch (group.wait) {
        case Wait::none:
            text += " run at ";
            break;
        case Wait::lanes:
            text += in.kind == Kind::sync &&
                            code_->sync[in.attribute].what <= SyncOp::What::barrier_reduce
                        ? " wait for the rest of their warp at the barrier of "
                        : " wait for other lanes of their warp at ";
            break;
        case Wait::block_barrier:
            text += " wait at barrier " + std::to_string(group.barrier) + " of ";
            break;
        case Wait::cluster_barrier:
            text += " wait at the cluster's barrier of ";
            break;
        case Wait::warp_group:
            text += " wait for the other warps of their warp group at the wgmma of ";
            break;
    }
    text += line(in.place);
    if (group.frame->depth > 0) text += " of " + code_->functions[group.frame->function].name;
    return text;
}

std::string Runner::where(const Warp& warp) const {
    std::string text =
        "block " + text_of(warp.block->coordinate) + " warp " + std::to_string(warp.index) + ": ";
    if (!warp.started) return text + "not started";
    for (std::size_t i = 0; i < warp.groups.size() && i < 4; ++i) {
        if (i > 0) text += ", ";
        text += where(warp.groups[i]);
    }
    if (warp.groups.size() > 4) text += ", …";
    return text;
}

}  // namespace running
}  // namespace kernelforge::emulator
