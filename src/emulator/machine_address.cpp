// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "emulator/machine_runner.hpp"

// From addresses of lanes to host memory, with every check that does not need an observer.

namespace kernelforge::emulator::running {

namespace {

std::string hexadecimal(std::uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

/// Whether every lane's address is a multiple of the alignment and in [begin, last]. Differences
/// are looked at as signed numbers, so that one bit says it for both ends.
bool all_within(const LaneWords& addresses, std::uint32_t mask, std::uint64_t begin,
                std::uint64_t last, std::uint64_t low_bits) {
    std::uint64_t outside = 0, bits = 0;
    if (mask == all_lanes) {
        for (const std::uint64_t address : addresses) {
            outside |= (address - begin) | (last - address);
            bits |= address;
        }
    } else {
        each_lane(mask, [&](int lane) {
            const std::uint64_t address = addresses[static_cast<std::size_t>(lane)];
            outside |= (address - begin) | (last - address);
            bits |= address;
        });
    }
    return outside >> 63 == 0 && (bits & low_bits) == 0;
}

/// Its shared memory is gone then, on hardware.
bool has_ended(const BlockState& block) {
    return std::all_of(block.warps.begin(), block.warps.end(),
                       [](const Warp& warp) { return warp.started && warp.live == 0; });
}

void add_to_all(const LaneWords& addresses, std::uint64_t delta, LaneWords& host) {
    for (std::size_t lane = 0; lane < host.size(); ++lane) host[lane] = addresses[lane] + delta;
}

std::uint64_t number_of(const std::byte* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
}

const char* name_of(Space space) {
    switch (space) {
        case Space::shared:
            return "shared ";
        case Space::local:
            return "local ";
        case Space::constant:
            return "constant ";
        case Space::param:
            return "parameter ";
        default:
            return "";
    }
}

}  // namespace

std::uint64_t Runner::symbol_address(const Group& group, std::int32_t symbol) const {
    const Symbol& named = code_->symbols[static_cast<std::size_t>(symbol)];
    switch (named.space) {
        case Space::shared:
            return named.bytes == 0 ? launch_->dynamic_offset + named.offset : named.offset;
        case Space::local:
            return group.frame->local_base + named.offset;
        case Space::param:
            return named.offset;
        default:
            return launch_->launch->module->global_addresses[named.offset];
    }
}

void Runner::addresses(const Group& group, const Rows& rows, RowRef row, Row shape,
                       std::int32_t symbol, std::int64_t offset, LaneWords& out) const {
    std::uint64_t base = static_cast<std::uint64_t>(offset);
    if (symbol >= 0) base += symbol_address(group, symbol);
    if (row == no_row) {
        out.fill(base);
    } else if (shape == Row::b64) {
        const auto* words = rows.at<std::uint64_t>(row);
        for (std::size_t lane = 0; lane < out.size(); ++lane) out[lane] = words[lane] + base;
    } else {
        // A 32-bit address wraps in 32 bits.
        const auto* words = rows.at<std::uint32_t>(row);
        const auto low = static_cast<std::uint32_t>(base);
        for (std::size_t lane = 0; lane < out.size(); ++lane) out[lane] = words[lane] + low;
    }
}

const Span* Runner::span_of(std::uint64_t address) {
    if (span_ != nullptr && address >= span_->begin && address < span_->end) return span_;
    const Span* found = launch_->memory->find(address);
    if (found != nullptr) span_ = found;
    return found;
}

bool Runner::resolve(Warp& warp, const Request& request, const LaneWords& addresses,
                     std::uint32_t mask, const Place& place, LaneWords& host) {
    const std::uint64_t first = addresses[static_cast<std::size_t>(std::countr_zero(mask))];
    const std::uint64_t low_bits = request.alignment - 1;
    const bool own_shared = request.space == Space::shared ||
                            (request.space == Space::generic && window_of(first) == Window::shared);
    if (own_shared) {
        const std::uint64_t base = request.space == Space::shared ? 0 : AddressSpace::shared_window;
        if (request.bytes <= launch_->shared_bytes &&
            all_within(addresses, mask, base, base + launch_->shared_bytes - request.bytes,
                       low_bits)) {
            if (observer_ != nullptr) {
                LaneWords offsets;
                add_to_all(addresses, std::uint64_t{0} - base, offsets);
                tell(warp, request, Space::shared, offsets.data(), warp.block->index, mask, place);
            }
            add_to_all(addresses, number_of(warp.block->shared->data()) - base, host);
            return true;
        }
    } else if (request.space != Space::local && request.space != Space::param) {
        const Span* span = span_of(first);
        if (span != nullptr && request.bytes <= span->end - span->begin &&
            (span->writable || !request.writes) &&
            all_within(addresses, mask, span->begin, span->end - request.bytes, low_bits)) {
            if (observer_ != nullptr) {
                tell(warp, request, Space::global, addresses.data(), 0, mask, place);
            }
            add_to_all(addresses, number_of(span->host) - span->begin, host);
            return false;
        }
    }
    return resolve_each(warp, request, addresses, mask, place, host);
}

bool Runner::resolve_each(Warp& warp, const Request& request, const LaneWords& addresses,
                          std::uint32_t mask, const Place& place, LaneWords& host) {
    // Lanes of each kind, for the observer: global, local, shared by owner.
    std::uint32_t global_lanes = 0, local_lanes = 0;
    std::array<std::uint32_t, 32> shared_lanes{};
    LaneWords seen{};
    const Unit& unit = *warp.block->unit;
    each_lane(mask, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        std::uint64_t owner = 0;
        const std::uint64_t address = addresses[at];
        host[at] = number_of(range(warp, request, address, request.bytes, lane, place, &owner));
        Space space = request.space;
        seen[at] = address;
        if (space == Space::generic) {
            const Window window = window_of(address);
            if (window == Window::shared) space = Space::shared;
            if (window == Window::local) {
                space = Space::local;
                seen[at] = address - AddressSpace::local_window;
            }
            if (window == Window::parameter) return;
        }
        const std::uint32_t bit = 1U << lane;
        if (space == Space::shared) {
            seen[at] = address & shared_offset_mask;
            shared_lanes[owner] |= bit;
        } else if (space == Space::local) {
            local_lanes |= bit;
        } else if (space != Space::param) {
            global_lanes |= bit;
        }
    });
    if (observer_ != nullptr) {
        if (global_lanes != 0) {
            tell(warp, request, Space::global, seen.data(), 0, global_lanes, place);
        }
        if (local_lanes != 0) {
            tell(warp, request, Space::local, seen.data(), 0, local_lanes, place);
        }
        for (std::size_t rank = 0; rank < unit.blocks.size(); ++rank) {
            if (shared_lanes[rank] == 0) continue;
            tell(warp, request, Space::shared, seen.data(), unit.blocks[rank]->index,
                 shared_lanes[rank], place);
        }
    }
    return global_lanes == 0 && local_lanes == 0;
}

std::byte* Runner::range(Warp& warp, const Request& request, std::uint64_t address,
                         std::uint64_t bytes, int lane, const Place& place,
                         std::uint64_t* shared_owner) {
    if ((address & (request.alignment - 1)) != 0) {
        bad_access(warp, request, Report::Kind::misaligned, address, lane, place,
                   "which is not a multiple of " + std::to_string(request.alignment));
    }
    Space space = request.space;
    std::uint64_t offset = address;
    if (space == Space::generic) {
        constexpr std::array spaces{Space::global, Space::shared, Space::local, Space::param};
        constexpr std::array<std::uint64_t, 4> bases{0, AddressSpace::shared_window,
                                                     AddressSpace::local_window, parameter_window};
        const auto window = static_cast<std::size_t>(window_of(address));
        space = spaces[window];
        offset -= bases[window];
    }
    const auto fits = [&](std::uint64_t size) { return offset <= size && bytes <= size - offset; };
    if (space == Space::shared) {
        const std::uint64_t rank = rank_in(offset, warp.block->rank);
        if (offset >> 32 != 0 || rank >= launch_->cluster_blocks) {
            bad_access(warp, request, Report::Kind::out_of_bounds, address, lane, place,
                       "which is in no block of its cluster");
        }
        const BlockState& owner = *warp.block->unit->blocks[rank];
        if (&owner != warp.block && has_ended(owner)) {
            bad_access(warp, request, Report::Kind::out_of_bounds, address, lane, place,
                       "of a block of its cluster that has ended");
        }
        offset &= shared_offset_mask;
        if (!fits(launch_->shared_bytes)) {
            bad_access(warp, request, Report::Kind::out_of_bounds, offset, lane, place,
                       "beyond the block's " + std::to_string(launch_->shared_bytes) + " bytes");
        }
        if (shared_owner != nullptr) *shared_owner = rank;
        return warp.block->unit->blocks[rank]->shared->data() + offset;
    }
    if (space == Space::local) {
        std::uint64_t size = 0;
        for (const Frame* frame : warp.frames) {
            if ((frame->lanes >> lane & 1U) == 0) continue;
            size = std::max<std::uint64_t>(
                size, frame->local_base + code_->functions[frame->function].local_bytes);
        }
        if (!fits(size)) {
            bad_access(warp, request, Report::Kind::out_of_bounds, offset, lane, place,
                       "beyond the thread's " + std::to_string(size) + " bytes");
        }
        return warp.local.data() + static_cast<std::size_t>(lane) * warp.local_bytes + offset;
    }
    if (space == Space::param) {
        const std::string& parameters = launch_->launch->parameters;
        if (request.writes) {
            bad_access(warp, request, Report::Kind::read_only_write, address, lane, place,
                       "which is a parameter of the kernel");
        }
        if (!fits(parameters.size())) {
            bad_access(warp, request, Report::Kind::out_of_bounds, offset, lane, place,
                       "beyond the kernel's " + std::to_string(parameters.size()) +
                           " bytes of parameters");
        }
        // Never written, as checked above.
        return const_cast<std::byte*>(reinterpret_cast<const std::byte*>(parameters.data())) +
               offset;
    }
    const Span* span = span_of(address);
    if (span == nullptr || bytes > span->end - address) {
        bad_access(
            warp, request, Report::Kind::out_of_bounds, address, lane, place,
            span == nullptr ? "which is not mapped" : "which runs over the end of a mapping");
    }
    if (request.writes && !span->writable) {
        bad_access(warp, request, Report::Kind::read_only_write, address, lane, place,
                   "which is read-only");
    }
    return span->host + (address - span->begin);
}

void Runner::bad_access(const Warp& warp, const Request& request, Report::Kind kind,
                        std::uint64_t address, int lane, const Place& place,
                        const std::string& why) {
    std::string what = request.what == Access::What::atomic ? "combines atomically "
                       : request.writes                     ? "writes "
                                                            : "reads ";
    what += std::to_string(request.bytes) + " bytes at " + name_of(request.space) +
            hexadecimal(address) + ", " + why;
    Report made = report(kind, warp, lane, place, what);
    made.address = address;
    throw Fault{std::move(made)};
}

void Runner::tell(const Warp& warp, const Request& request, Space space,
                  const std::uint64_t* addresses, std::uint64_t owner, std::uint32_t lanes,
                  const Place& place) {
    if (!request.observed) return;
    Access access;
    access.actor = actor(warp, lanes);
    access.space = space;
    access.what = request.what;
    access.order = request.order;
    access.scope = request.scope;
    access.bytes = request.bytes;
    access.addresses = addresses;
    access.shared_owner = owner;
    access.place = place;
    if (std::optional<Report> found = observer_->access(access)) throw Fault{std::move(*found)};
}

}  // namespace kernelforge::emulator::running
