// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "emulator/async_barrier.hpp"
#include "emulator/async_bulk.hpp"
#include "emulator/async_tensor.hpp"
#include "emulator/machine_runner.hpp"

// Bulk copies and tiles of tensors.

namespace kernelforge::emulator::running {

using What = AsyncOp::What;

/// One end of a bulk copy: checks it, tells the observer, gives host memory.
std::byte* Runner::bulk_end(Warp& warp, Space space, std::uint64_t address, std::uint64_t bytes,
                            Access::What what, int lane, const Place& place) {
    Request request;
    request.space = space == Space::shared ? shared_space(address) : space;
    request.what = what;
    request.writes = what != Access::What::async_read;
    // Reductions are atomic, element by element.
    if (what == Access::What::atomic) request.order = Order::relaxed;
    request.bytes = static_cast<std::uint32_t>(bytes);
    LaneWords addresses{}, host{};
    const auto at = static_cast<std::size_t>(lane);
    addresses[at] = address;
    resolve(warp, request, addresses, 1U << lane, place, host);
    return reinterpret_cast<std::byte*>(host[at]);
}

void Runner::complete_bytes(Warp& warp, std::uint64_t barrier_address, std::uint32_t bytes,
                            int lane, const Place& place) {
    const BarrierPlace barrier = barrier_at(warp, barrier_address, lane, place);
    if (observer_ != nullptr) {
        observer_->async_done_at(actor(warp, 1U << lane), barrier.owner, barrier.offset);
    }
    const BarrierUpdate update = update_barrier(
        barrier.memory, [&](std::uint64_t word) { return barrier_complete_tx(word, bytes); });
    if (update.error != nullptr) bad_barrier(warp, lane, place, barrier, update.error);
}

namespace {

/// The address of the same offset in another block of the cluster.
std::uint64_t in_block(std::uint64_t address, std::uint64_t rank) {
    const std::uint64_t offset =
        (window_of(address) == Window::shared ? address - AddressSpace::shared_window : address) &
        shared_offset_mask;
    return offset | (rank + 1) << 24;
}

}  // namespace

/// Blocks that a copy goes to: those of the mask, or the one that the address names (one entry, the
/// address as it is).
std::vector<std::optional<std::uint64_t>> Runner::receivers(const AsyncOp& op, const Warp& warp,
                                                            std::uint64_t mask, int lane,
                                                            const Place& place) const {
    if (!op.multicast) return {std::nullopt};
    std::vector<std::optional<std::uint64_t>> ranks;
    for (std::uint64_t rank = 0; rank < 16; ++rank) {
        if ((mask >> rank & 1U) == 0) continue;
        if (rank >= launch_->cluster_blocks) {
            throw Fault{report(Report::Kind::out_of_bounds, warp, lane, place,
                               "copies to block " + std::to_string(rank) + " of a cluster of " +
                                   std::to_string(launch_->cluster_blocks))};
        }
        ranks.emplace_back(rank);
    }
    return ranks;
}

void Runner::bulk(Warp& warp, Group& group, const DecodedInstruction& in, int lane) {
    const AsyncOp& op = code_->async[in.attribute];
    const auto at = static_cast<std::size_t>(lane);
    const auto operand = [&](int index) { return async_operand(warp, group, in, index)[at]; };
    const std::uint64_t to = operand(0), from = operand(1), bytes = operand(2);
    const bool has_barrier = in.operand_count > 3 + (op.multicast ? 1 : 0);
    if (const auto why = bulk_fault(
            to, from, bytes, has_barrier ? BulkCompletion::transactions : BulkCompletion::group)) {
        throw Fault{report(Report::Kind::misaligned, warp, lane, in.place,
                           "executes a bulk copy that " + *why)};
    }
    if (bytes == 0) return;
    const std::byte* source =
        bulk_end(warp, op.from, from, bytes, Access::What::async_read, lane, in.place);
    const Access::What writing =
        op.what == What::bulk_reduce ? Access::What::atomic : Access::What::async_write;
    const std::uint64_t mask = op.multicast ? operand(in.operand_count - 1) : 0;
    for (const auto& rank : receivers(op, warp, mask, lane, in.place)) {
        std::byte* destination =
            bulk_end(warp, op.to, rank ? in_block(to, *rank) : to, bytes, writing, lane, in.place);
        if (op.what == What::bulk_reduce) {
            reduce_in_memory(destination, source, bytes, bytes_of(op.type),
                             find_combine(op.combine, op.type));
        } else {
            std::memmove(destination, source, bytes);
        }
        if (!has_barrier) continue;
        const std::uint64_t barrier = operand(3);
        complete_bytes(warp, rank ? in_block(barrier, *rank) : barrier,
                       static_cast<std::uint32_t>(bytes), lane, in.place);
    }
}

void Runner::tensor(Warp& warp, Group& group, const DecodedInstruction& in, int lane) {
    const AsyncOp& op = code_->async[in.attribute];
    const auto at = static_cast<std::size_t>(lane);
    const auto operand = [&](int index) { return async_operand(warp, group, in, index)[at]; };
    const bool loads = op.what == What::tensor_load;
    const int map_operand = loads ? 1 : 0;
    const auto fail = [&](const std::string& why) {
        throw Fault{report(Report::Kind::bad_instruction, warp, lane, in.place,
                           "executes a tensor copy that " + why)};
    };
    Request request;
    request.bytes = 128;
    request.alignment = 64;
    const std::optional<TensorMap> map =
        decode_tensor_map(range(warp, request, operand(map_operand), 128, lane, in.place, nullptr));
    if (!map) fail("names a tensor map that cuTensorMapEncodeTiled did not make");
    std::array<std::int32_t, 5> coordinates{};
    for (int i = 0; i < op.dimensions; ++i) {
        coordinates[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(operand(map_operand + 1 + i));
    }
    const int next = map_operand + 1 + op.dimensions;
    const std::uint64_t shared = operand(loads ? 0 : next);
    const std::uint64_t window =
        window_of(shared) == Window::shared ? AddressSpace::shared_window : 0;
    const auto shared_address = static_cast<std::uint32_t>((shared - window) & shared_offset_mask);
    if (const auto why = tile_fault(*map, op.dimensions, shared_address)) fail(*why);
    const std::vector<TilePiece> pieces =
        tile_pieces(*map, std::span(coordinates.data(), static_cast<std::size_t>(op.dimensions)),
                    shared_address);
    // The rank that the shared address names, if any, is that of all pieces.
    const std::uint64_t own_rank = (shared - window) & ~shared_offset_mask;
    const std::uint64_t mask = op.multicast ? operand(in.operand_count - 1) : 0;
    for (const auto& rank : receivers(op, warp, mask, lane, in.place)) {
        for (const TilePiece& piece : pieces) {
            const std::uint64_t address =
                rank ? in_block(piece.shared, *rank) : piece.shared | own_rank;
            move_piece(warp, op, *map, piece, address, lane, in.place);
        }
        if (!loads) continue;
        const std::uint64_t barrier = operand(next);
        complete_bytes(warp, rank ? in_block(barrier, *rank) : barrier, map->box_bytes, lane,
                       in.place);
    }
}

void Runner::move_piece(Warp& warp, const AsyncOp& op, const TensorMap& map, const TilePiece& piece,
                        std::uint64_t shared, int lane, const Place& place) {
    const bool loads = op.what == What::tensor_load;
    if (!loads && !piece.inside) return;
    const Access::What writing =
        op.what == What::tensor_reduce ? Access::What::atomic : Access::What::async_write;
    const Access::What reading = Access::What::async_read;
    std::byte* inner =
        bulk_end(warp, Space::shared, shared, piece.bytes, loads ? writing : reading, lane, place);
    if (!piece.inside) {
        fill_piece(map, inner, piece.bytes);
        return;
    }
    std::byte* outer = bulk_end(warp, Space::global, piece.global, piece.bytes,
                                loads ? reading : writing, lane, place);
    if (loads) {
        std::memcpy(inner, outer, piece.bytes);
    } else if (op.what == What::tensor_store) {
        std::memcpy(outer, inner, piece.bytes);
    } else {
        const CombineFn combine = find_combine(op.combine, map.type);
        if (combine == nullptr) {
            throw Fault{report(Report::Kind::bad_instruction, warp, lane, place,
                               "reduces into a tensor whose type has no such operation")};
        }
        reduce_in_memory(outer, inner, piece.bytes, bytes_of(map.type), combine);
    }
}

}  // namespace kernelforge::emulator::running
