// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "emulator/machine_runner.hpp"
#include "emulator/matrix_fragment.hpp"
#include "emulator/matrix_load.hpp"
#include "emulator/matrix_wgmma.hpp"

// ldmatrix, stmatrix, wgmma and wmma: addresses and checks here, the rest in the functions of
// matrix_*.hpp.

namespace kernelforge::emulator::running {

using What = MatrixOp::What;

namespace {

constexpr std::uint32_t warps_in_group = 4;

}  // namespace

Next Runner::matrix(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask) {
    const MatrixOp& op = code_->matrix[in.attribute];
    if (mask != warp.live) return wait_for_lanes(warp, group, mask, all_lanes);
    if (mask != all_lanes) {
        throw Fault{report(Report::Kind::bad_instruction, warp, std::countr_zero(mask), in.place,
                           "executes an instruction of a whole warp in a warp that has not 32 "
                           "threads")};
    }
    if (observer_ != nullptr) observer_->warp_sync(actor(warp, mask));
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    switch (op.what) {
        case What::load:
        case What::store:
            matrix_rows(warp, group, in, op);
            break;
        case What::transpose:
            transpose_matrix(rows, operands);
            break;
        case What::wgmma_fence:
            break;
        case What::wgmma_commit:
            if (observer_ != nullptr) observer_->async_commit(actor(warp, mask));
            break;
        case What::wgmma_wait:
            groups_done(warp, mask, op.count);
            break;
        case What::wgmma:
            return warp_group(warp, group, in, op);
        case What::wmma_load:
        case What::wmma_store:
            fragment(warp, group, in, op);
            break;
    }
    return Next::advance;
}

void Runner::matrix_rows(Warp& warp, Group& group, const DecodedInstruction& in,
                         const MatrixOp& op) {
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    const bool loads = op.what == What::load;
    const std::uint32_t lanes = matrix_address_lanes(op.count);
    LaneWords where, host;
    addresses(group, rows, operands[loads ? op.count : 0], op.address_row, op.symbol, op.offset,
              where);
    Request request;
    request.space = window_of(where[0]) == Window::none ? Space::shared : Space::generic;
    request.what = loads ? Access::What::read : Access::What::write;
    request.writes = !loads;
    request.bytes = request.alignment = matrix_row_bytes;
    resolve(warp, request, where, lanes, in.place, host);
    std::array<std::byte*, warp_lanes> pointers{};
    each_lane(lanes, [&](int lane) {
        const auto at = static_cast<std::size_t>(lane);
        pointers[at] = reinterpret_cast<std::byte*>(host[at]);
    });
    if (loads) {
        load_matrices(op, rows, operands, pointers.data());
    } else {
        store_matrices(op, rows, operands, pointers.data());
        ++progress_;
    }
}

/// All warps of a group execute a wgmma together: a thread of any of them may say afterwards that
/// the shared memory which it read is free.
Next Runner::warp_group(Warp& warp, Group& group, const DecodedInstruction& in,
                        const MatrixOp& op) {
    BlockState& block = *warp.block;
    const std::uint32_t first = warp.index / warps_in_group * warps_in_group;
    if (first + warps_in_group > block.warps.size()) {
        throw Fault{report(Report::Kind::bad_instruction, warp, 0, in.place,
                           "executes a wgmma in a warp group that has not four warps")};
    }
    group.wait = Wait::warp_group;
    const std::span warps(block.warps.data() + first, warps_in_group);
    const bool together = std::all_of(warps.begin(), warps.end(), [&](const Warp& other) {
        return other.groups.size() == 1 && other.groups[0].wait == Wait::warp_group &&
               other.groups[0].pc == group.pc;
    });
    if (!together) return Next::reschedule;
    for (Warp& each : warps) {
        multiply(each, each.groups[0], in, op);
        each.groups[0].wait = Wait::none;
        ++each.groups[0].pc;
    }
    ++progress_;
    return Next::reschedule;
}

void Runner::multiply(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op) {
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    const int number = static_cast<int>(warp.index % warps_in_group);
    if (observer_ != nullptr) {
        const std::vector<std::uint32_t> pieces = wgmma_reads(op, rows, operands, number);
        Request request;
        request.what = Access::What::async_read;
        request.bytes = 16;
        LaneWords offsets{};
        for (std::size_t first = 0; first < pieces.size(); first += warp_lanes) {
            const std::size_t count = std::min<std::size_t>(warp_lanes, pieces.size() - first);
            std::copy_n(pieces.begin() + static_cast<std::ptrdiff_t>(first), count,
                        offsets.begin());
            const std::uint32_t lanes = count == warp_lanes ? all_lanes : (1U << count) - 1;
            tell(warp, request, Space::shared, offsets.data(), warp.block->index, lanes, in.place);
        }
    }
    warp.executed += matrix_weight * static_cast<std::uint64_t>(std::max(op.n / 8, 1));
    const std::span<const std::byte> shared(warp.block->shared->data(), launch_->shared_bytes);
    if (const auto why = multiply_warp_group(op, rows, operands, number, shared)) {
        throw Fault{report(Report::Kind::bad_instruction, warp, 0, in.place,
                           "executes a wgmma that " + *why)};
    }
}

/// wmma.load and wmma.store: an element of each lane at a time.
void Runner::fragment(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op) {
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    const bool loads = op.what == What::wmma_load;
    const int registers = in.operand_count - 2;
    const RowRef* data = operands + (loads ? 0 : 1);
    const int bytes = std::max(bytes_of(op.d), 1);
    const bool wide = bytes == 8;
    LaneWords base, where, host;
    addresses(group, rows, operands[loads ? registers : 0], op.address_row, op.symbol, op.offset,
              base);
    const std::uint64_t stride = rows.at<std::uint32_t>(operands[in.operand_count - 1])[0];
    Request request;
    request.space = op.space;
    request.what = loads ? Access::What::read : Access::What::write;
    request.writes = !loads;
    request.bytes = request.alignment = static_cast<std::uint32_t>(bytes);
    // Registers may be rows of the address: they are written when all is read.
    std::vector<LaneWords> values(static_cast<std::size_t>(registers));
    std::array<FragmentElement, warp_lanes> elements;
    for (int element = 0; element < fragment_elements(op); ++element) {
        std::uint32_t lanes = 0;
        for (int lane = 0; lane < warp_lanes; ++lane) {
            const auto at = static_cast<std::size_t>(lane);
            elements[at] = fragment_element(op, lane, element, stride);
            where[at] = base[at] + elements[at].offset;
            if (loads || !elements[at].repeated) lanes |= 1U << lane;
        }
        if (lanes == 0) continue;
        resolve(warp, request, where, lanes, in.place, host);
        each_lane(lanes, [&](int lane) {
            const auto at = static_cast<std::size_t>(lane);
            const FragmentElement& part = elements[at];
            auto* memory = reinterpret_cast<std::byte*>(host[at]);
            const RowRef row = data[part.operand];
            if (loads) {
                std::uint64_t value = 0;
                std::copy_n(memory, bytes, reinterpret_cast<std::byte*>(&value));
                values[static_cast<std::size_t>(part.operand)][at] |= value << part.shift;
                return;
            }
            const std::uint64_t value = (wide ? rows.at<std::uint64_t>(row)[at]
                                              : std::uint64_t{rows.at<std::uint32_t>(row)[at]}) >>
                                        part.shift;
            std::copy_n(reinterpret_cast<const std::byte*>(&value), bytes, memory);
        });
    }
    if (!loads) ++progress_;
    for (int i = 0; loads && i < registers; ++i) {
        if (data[i] == no_row) continue;
        for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
            const std::uint64_t value = values[static_cast<std::size_t>(i)][lane];
            if (wide) {
                rows.at<std::uint64_t>(data[i])[lane] = value;
            } else {
                rows.at<std::uint32_t>(data[i])[lane] = static_cast<std::uint32_t>(value);
            }
        }
    }
}

}  // namespace kernelforge::emulator::running
