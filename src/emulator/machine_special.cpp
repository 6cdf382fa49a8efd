// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>

#include "emulator/machine_runner.hpp"

// Special registers, and questions about addresses.

namespace kernelforge::emulator::running {

namespace {

bool is_wide(SpecialRegister which) {
    return which == SpecialRegister::clock64 || which == SpecialRegister::globaltimer;
}

std::uint64_t nanoseconds_now() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

}  // namespace

std::uint64_t Runner::special(const Warp& warp, SpecialRegister which, int lane) const {
    using S = SpecialRegister;
    const Launch& launch = *launch_->launch;
    const BlockState& block = *warp.block;
    const auto offset = [which](S first) {
        return static_cast<std::size_t>(which) - static_cast<std::size_t>(first);
    };
    const std::uint32_t bit = 1U << lane;
    switch (which) {
        case S::tid_x:
        case S::tid_y:
        case S::tid_z:
            return thread_of(warp, lane)[offset(S::tid_x)];
        case S::ntid_x:
        case S::ntid_y:
        case S::ntid_z:
            return launch.block[offset(S::ntid_x)];
        case S::ctaid_x:
        case S::ctaid_y:
        case S::ctaid_z:
            return block.coordinate[offset(S::ctaid_x)];
        case S::nctaid_x:
        case S::nctaid_y:
        case S::nctaid_z:
            return launch.grid[offset(S::nctaid_x)];
        case S::laneid:
            return static_cast<std::uint64_t>(lane);
        case S::warpid:
            return warp.index;
        case S::nwarpid:
            return launch_->limits->threads_per_multiprocessor / warp_lanes;
        case S::smid:
            return block.index % launch_->limits->multiprocessors;
        case S::nsmid:
            return launch_->limits->multiprocessors;
        case S::gridid:
            return launch_->grid_number;
        case S::lanemask_eq:
            return bit;
        case S::lanemask_le:
            return bit | (bit - 1);
        case S::lanemask_lt:
            return bit - 1;
        case S::lanemask_ge:
            return ~(bit - 1);
        case S::lanemask_gt:
            return ~(bit | (bit - 1));
        case S::clusterid_x:
        case S::clusterid_y:
        case S::clusterid_z:
            return block.coordinate[offset(S::clusterid_x)] /
                   launch.cluster[offset(S::clusterid_x)];
        case S::nclusterid_x:
        case S::nclusterid_y:
        case S::nclusterid_z:
            return launch.grid[offset(S::nclusterid_x)] / launch.cluster[offset(S::nclusterid_x)];
        case S::cluster_ctaid_x:
        case S::cluster_ctaid_y:
        case S::cluster_ctaid_z:
            return block.coordinate[offset(S::cluster_ctaid_x)] %
                   launch.cluster[offset(S::cluster_ctaid_x)];
        case S::cluster_nctaid_x:
        case S::cluster_nctaid_y:
        case S::cluster_nctaid_z:
            return launch.cluster[offset(S::cluster_nctaid_x)];
        case S::cluster_ctarank:
            return block.rank;
        case S::cluster_nctarank:
            return launch_->cluster_blocks;
        case S::is_explicit_cluster:
            return launch_->cluster_blocks > 1 || launch_->entry->required_cluster[0] > 0 ? 1 : 0;
        case S::total_smem_size:
            return launch_->shared_bytes;
        case S::dynamic_smem_size:
            return launch.dynamic_shared_bytes;
        case S::envreg1:
            return launch_->grid_workspace >> 32;
        case S::envreg2:
            return launch_->grid_workspace & 0xffff'ffffU;
        case S::clock:
        case S::clock64:
            return warp_instructions_;
        case S::clock_hi:
            return warp_instructions_ >> 32;
        case S::globaltimer:
        case S::globaltimer_lo:
            return nanoseconds_now();
        case S::globaltimer_hi:
            return nanoseconds_now() >> 32;
    }
    return 0;
}

void Runner::write_specials(Warp& warp) {
    using S = SpecialRegister;
    const std::array<std::uint32_t, 3>& extent = launch_->launch->block;
    for (const auto& [which, row] : code_->specials) {
        auto* values = reinterpret_cast<std::uint32_t*>(warp.fixed->data() + ~row);
        if (which <= S::tid_z) {
            std::array<std::uint32_t, 3> thread = thread_of(warp, 0);
            for (int lane = 0; lane < warp_lanes; ++lane) {
                values[lane] = thread[static_cast<std::size_t>(which)];
                if (++thread[0] < extent[0]) continue;
                thread[0] = 0;
                if (++thread[1] < extent[1]) continue;
                thread[1] = 0;
                ++thread[2];
            }
        } else if (which == S::laneid || (which >= S::lanemask_eq && which <= S::lanemask_gt)) {
            for (int lane = 0; lane < warp_lanes; ++lane) {
                values[lane] = static_cast<std::uint32_t>(special(warp, which, lane));
            }
        } else {
            std::fill_n(values, warp_lanes, static_cast<std::uint32_t>(special(warp, which, 0)));
        }
    }
}

void Runner::read_special(Warp& warp, const Rows& rows, const DecodedInstruction& in,
                          std::uint32_t mask) {
    const auto which = static_cast<SpecialRegister>(in.attribute);
    const RowRef row = code_->operands[in.operands];
    if (row == no_row) return;
    // All lanes read at one time.
    const std::uint64_t time = special(warp, which, 0);
    const bool uniform = which >= SpecialRegister::clock;
    reads_time_ = reads_time_ || uniform;
    each_lane(mask, [&](int lane) {
        const std::uint64_t value = uniform ? time : special(warp, which, lane);
        if (is_wide(which)) {
            rows.at<std::uint64_t>(row)[lane] = value;
        } else {
            rows.at<std::uint32_t>(row)[lane] = static_cast<std::uint32_t>(value);
        }
    });
}

namespace {

std::uint64_t window_base(Space space) {
    switch (space) {
        case Space::shared:
            return AddressSpace::shared_window;
        case Space::local:
            return AddressSpace::local_window;
        case Space::param:
            return parameter_window;
        default:
            return 0;
    }
}

bool is_in(std::uint64_t address, const QueryOp& op, std::uint64_t own_rank) {
    const Window window = window_of(address);
    switch (op.space) {
        case Space::shared:
            if (window != Window::shared) return false;
            // shared::cta is the executing block's own part of shared::cluster.
            return op.cluster ||
                   rank_in(address - AddressSpace::shared_window, own_rank) == own_rank;
        case Space::local:
            return window == Window::local;
        case Space::param:
            return window == Window::parameter;
        default:
            return window == Window::none;
    }
}

}  // namespace

void Runner::query(Warp& warp, const Group& group, const DecodedInstruction& in,
                   std::uint32_t mask) {
    const QueryOp& op = code_->queries[in.attribute];
    const Rows rows = rows_of(warp, group);
    const RowRef* operands = code_->operands.data() + in.operands;
    if (operands[0] == no_row) return;
    LaneWords values;
    addresses(group, rows, operands[1], op.row, op.symbol, op.offset, values);
    const std::uint64_t own_rank = warp.block->rank;
    const auto write = [&](int lane, std::uint64_t value, Row row) {
        if (row == Row::b64) {
            rows.at<std::uint64_t>(operands[0])[lane] = value;
        } else {
            rows.at<std::uint32_t>(operands[0])[lane] = static_cast<std::uint32_t>(value);
        }
    };
    if (op.what == QueryOp::What::is_space) {
        std::uint32_t yes = 0;
        each_lane(mask, [&](int lane) {
            yes |= std::uint32_t{is_in(values[static_cast<std::size_t>(lane)], op, own_rank)}
                   << lane;
        });
        auto& bits = *rows.at<std::uint32_t>(operands[0]);
        bits = (bits & ~mask) | yes;
        return;
    }
    each_lane(mask, [&](int lane) {
        const std::uint64_t value = values[static_cast<std::size_t>(lane)];
        // `mapa` and `getctarank` take generic addresses or, in 32 bits, shared ones.
        const std::uint64_t window =
            window_of(value) == Window::shared ? AddressSpace::shared_window : 0;
        switch (op.what) {
            case QueryOp::What::to_generic:
                write(lane, value + window_base(op.space), op.row);
                break;
            case QueryOp::What::to_space:
                // The address of a variable is in its space already.
                write(lane, op.symbol >= 0 ? value : value - window_base(op.space), op.row);
                break;
            case QueryOp::What::map_rank: {
                const std::uint64_t rank = rows.at<std::uint32_t>(operands[2])[lane];
                const std::uint64_t offset = (value - window) & 0xff'ffffU;
                write(lane, window + ((rank + 1) << 24 | offset), op.row);
                break;
            }
            default:
                write(lane, rank_in(value - window, own_rank), Row::b32);
        }
    });
}

}  // namespace kernelforge::emulator::running
