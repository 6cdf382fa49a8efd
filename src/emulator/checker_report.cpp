// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker_report.hpp"

#include <array>
#include <cstdio>
#include <utility>

namespace kernelforge::emulator::checking {

namespace {

using Triple = std::array<std::uint32_t, 3>;

/// Addresses below are offsets from a null pointer.
constexpr std::uint64_t null_page_bytes = 65536;

Triple coordinates(std::uint64_t index, const Triple& extent) {
    return {static_cast<std::uint32_t>(index % extent[0]),
            static_cast<std::uint32_t>(index / extent[0] % extent[1]),
            static_cast<std::uint32_t>(index / extent[0] / extent[1])};
}

std::string text_of(const Triple& triple) {
    return "(" + std::to_string(triple[0]) + "," + std::to_string(triple[1]) + "," +
           std::to_string(triple[2]) + ")";
}

std::string hexadecimal(std::uint64_t value) {
    std::array<char, 24> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
    return text.data();
}

std::string line_of(const Place& place) {
    if (place.source_line != 0) return "line " + std::to_string(place.source_line);
    return "PTX line " + std::to_string(place.ptx_line);
}

std::string bytes_text(std::uint64_t bytes) {
    return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

std::string action_of(const Access& access) {
    switch (access.what) {
        case Access::What::read:
            return "reads";
        case Access::What::write:
            return "writes";
        case Access::What::atomic:
            return "updates atomically";
        case Access::What::async_read:
            return "copies asynchronously from";
        case Access::What::async_write:
            return "copies asynchronously to";
    }
    return "touches";
}

std::string action_of(const Opponent& other) {
    switch (other.strength) {
        case Strength::atomic:
        case Strength::atomic_block:
            return "updates atomically";
        case Strength::copy:
            return other.wrote ? "copies asynchronously to" : "copies asynchronously from";
        case Strength::plain:
        case Strength::strong:
        case Strength::strong_block:
            break;
    }
    return other.wrote ? "writes" : "reads";
}

Report start(const LaunchState& launch, Report::Kind kind, const LaneAccess& part) {
    const Actor& actor = part.access.actor;
    Report report;
    report.kind = kind;
    report.kernel = launch.kernel;
    report.address = part.address;
    report.party.block = coordinates(actor.block, launch.shape.grid);
    report.party.thread =
        coordinates(std::uint64_t{actor.warp} * 32 + part.lane, launch.shape.block);
    report.party.place = part.access.place;
    report.party.action = action_of(part.access);
    report.message = "kernel " + launch.kernel + ", " + line_of(part.access.place) + ": thread " +
                     text_of(report.party.thread) + " of block " + text_of(report.party.block) +
                     " " + report.party.action + " ";
    return report;
}

/// Where the bytes lie.
std::string location(const LaunchState& launch, const View* view, const LaneAccess& part) {
    if (view != nullptr)
        return view->name + " at byte " + std::to_string(part.address - view->address);
    const std::uint64_t owner = part.access.shared_owner;
    if (owner == part.access.actor.block)
        return "shared memory at offset " + std::to_string(part.address);
    return "shared memory of block " + text_of(coordinates(owner, launch.shape.grid)) +
           " at offset " + std::to_string(part.address);
}

std::uint64_t distance(const View& view, const LaneAccess& part) {
    const std::uint64_t end = view.address + view.bytes;
    if (part.address >= end) return part.address - end;
    if (part.address + part.bytes > end) return 0;
    return view.address - (part.address + part.bytes);
}

std::string relation(const View& view, const LaneAccess& part) {
    const std::uint64_t end = view.address + view.bytes, last = part.address + part.bytes;
    const std::string whole = view.name + " (" + bytes_text(view.bytes) + ")";
    if (part.address >= end)
        return (part.address == end ? std::string("right past")
                                    : bytes_text(part.address - end) + " past") +
               " the end of " + whole;
    if (part.address >= view.address)
        return "the last " + std::to_string(last - end) + " of them past the end of " + whole;
    if (last > view.address)
        return "the first " + std::to_string(view.address - part.address) +
               " of them before the start of " + whole;
    return (last == view.address ? std::string("right before")
                                 : bytes_text(view.address - last) + " before") +
           " the start of " + whole;
}

/// What would have ordered the two.
std::string missing(const LaneAccess& part, const Opponent& other) {
    const Actor& actor = part.access.actor;
    if (other.under_way) return "and nothing has waited for that copy";
    if (other.block != actor.block)
        return part.access.space == Space::shared
                   ? "with no barrier of the cluster between"
                   : "with nothing between that orders the two blocks (a fence and a flag or "
                     "counter)";
    if (other.warp == actor.warp) return "with no synchronisation of the warp between";
    return other.strength == Strength::copy ? "with no wait for that copy and barrier between"
                                            : "with no barrier between";
}

}  // namespace

Report outside(const LaunchState& launch, const Views& views, const LaneAccess& part) {
    Report report = start(launch, Report::Kind::out_of_bounds, part);
    report.message += bytes_text(part.bytes);
    const View* nearest = nullptr;
    for (const auto& each : views)
        if (nearest == nullptr || distance(each->view, part) < distance(*nearest, part))
            nearest = &each->view;
    if (part.address < null_page_bytes)
        report.message += " at address " + hexadecimal(part.address) + ", a null pointer";
    else if (nearest == nullptr)
        report.message += " at address " + hexadecimal(part.address) + ", where nothing may be";
    else
        report.message += ", " + relation(*nearest, part);
    return report;
}

Report outside_shared(const LaunchState& launch, const LaneAccess& part) {
    Report report = start(launch, Report::Kind::out_of_bounds, part);
    const View whole{0, launch.shape.shared_bytes, "the block's shared memory", true, true};
    report.message += bytes_text(part.bytes) + ", " + relation(whole, part);
    return report;
}

Report read_only(const LaunchState& launch, const View& view, const LaneAccess& part) {
    Report report = start(launch, Report::Kind::read_only_write, part);
    report.message +=
        bytes_text(part.bytes) + " of " + location(launch, &view, part) + ", which is read-only";
    return report;
}

Report uninitialised(const LaunchState& launch, const View* view, const LaneAccess& part,
                     std::uint64_t unwritten) {
    Report report = start(launch, Report::Kind::uninitialised, part);
    report.message += bytes_text(part.bytes) + " of " + location(launch, view, part) +
                      (unwritten == part.address ? std::string(", which nothing has written")
                                                 : ", of which nothing has written byte " +
                                                       std::to_string(unwritten - part.address));
    return report;
}

Report race(const LaunchState& launch, const View* view, const LaneAccess& part,
            const Opponent& other) {
    Report report = start(launch, Report::Kind::race, part);
    Report::Party party;
    party.block = coordinates(other.block, launch.shape.grid);
    party.thread = coordinates(std::uint64_t{other.warp} * 32 + other.lane, launch.shape.block);
    party.place = other.place;
    party.action = action_of(other);
    const bool same_block = other.block == part.access.actor.block;
    const std::string who =
        same_block && party.thread == report.party.thread
            ? "the same thread"
            : "thread " + text_of(party.thread) + " of " +
                  (same_block ? "the same block" : "block " + text_of(party.block));
    report.message += location(launch, view, part) + ", which " + who + " " + party.action +
                      " at " + line_of(party.place) + " " + missing(part, other);
    report.other = std::move(party);
    return report;
}

}  // namespace kernelforge::emulator::checking
