// SPDX-License-Identifier: Apache-2.0
#include "occupancy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace kernelforge {
namespace {

constexpr std::int64_t register_granularity = 256;  // registers of a warp
constexpr std::int64_t shared_granularity = 128;    // bytes of a block
constexpr std::int64_t sub_partitions = 4;          // of a multiprocessor
constexpr int max_registers_per_thread = 255;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
    return (value + step - 1) / step * step;
}

std::int64_t blocks_by_registers(const KernelFacts& facts, std::int64_t warps,
                                 const DeviceInfo& device) {
    const int registers = facts.registers_per_thread.value_or(0);
    const std::int64_t file = device.registers_per_multiprocessor;
    if (registers <= 0 || file <= 0) return std::numeric_limits<std::int64_t>::max();
    const std::int64_t of_warp =
        round_up(std::int64_t{registers} * device.warp_size, register_granularity);
    if (registers > max_registers_per_thread) return 0;
    if (of_warp * round_up(warps, sub_partitions) > file) return 0;
    return file / sub_partitions / of_warp * sub_partitions / warps;
}

std::int64_t blocks_by_shared(const KernelFacts& facts, std::int64_t dynamic_bytes,
                              const DeviceInfo& device) {
    const std::int64_t available = device.shared_bytes_per_multiprocessor;
    if (available <= 0) return std::numeric_limits<std::int64_t>::max();
    const std::int64_t used = round_up(facts.static_shared_bytes.value_or(0) + dynamic_bytes +
                                           device.reserved_shared_bytes_per_block,
                                       shared_granularity);
    return used <= 0 ? std::numeric_limits<std::int64_t>::max() : available / used;
}

}  // namespace

Occupancy occupancy(const KernelFacts& facts, std::int64_t threads,
                    std::int64_t dynamic_shared_bytes, const DeviceInfo& device) {
    const std::int64_t warp_size = std::max(1, device.warp_size);
    const std::int64_t warps = std::max<std::int64_t>(1, (threads + warp_size - 1) / warp_size);
    const std::int64_t max_warps =
        std::max<std::int64_t>(1, device.max_threads_per_multiprocessor / warp_size);
    const bool launchable =
        threads > 0 && threads <= device.max_threads_per_block &&
        threads <= facts.max_threads_per_block.value_or(device.max_threads_per_block);

    // The order decides which limiter is named when several are equal: what an edit can change
    // first.
    const std::pair<OccupancyLimiter, std::int64_t> limits[] = {
        {OccupancyLimiter::registers, blocks_by_registers(facts, warps, device)},
        {OccupancyLimiter::shared_memory, blocks_by_shared(facts, dynamic_shared_bytes, device)},
        {OccupancyLimiter::threads, launchable ? max_warps / warps : 0},
        {OccupancyLimiter::blocks, device.max_blocks_per_multiprocessor},
    };
    const auto smallest =
        std::min_element(std::begin(limits), std::end(limits),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    Occupancy result;
    result.limiter = smallest->first;
    result.blocks = static_cast<int>(smallest->second);
    result.warps = static_cast<int>(smallest->second * warps);
    result.fraction = static_cast<double>(result.warps) / static_cast<double>(max_warps);
    if (result.warps >= max_warps) result.limiter = OccupancyLimiter::none;
    return result;
}

Occupancy occupancy(const KernelFacts& facts, std::int64_t threads,
                    std::int64_t dynamic_shared_bytes, std::int64_t grid_blocks,
                    const DeviceInfo& device) {
    Occupancy result = occupancy(facts, threads, dynamic_shared_bytes, device);
    if (device.multiprocessors <= 0 || result.blocks == 0) return result;
    const std::int64_t per_multiprocessor =
        (grid_blocks + device.multiprocessors - 1) / device.multiprocessors;
    if (per_multiprocessor < result.blocks) {
        const double share = static_cast<double>(per_multiprocessor) / result.blocks;
        result.blocks = static_cast<int>(per_multiprocessor);
        result.warps = static_cast<int>(result.warps * share);
        result.fraction *= share;
        result.limiter = OccupancyLimiter::grid;
    }
    return result;
}

std::string describe(const Occupancy& occupancy, std::int64_t threads) {
    if (occupancy.blocks == 0) {
        return fmt::format("a block of {} threads does not fit a multiprocessor: {}", threads,
                           to_string(occupancy.limiter));
    }
    std::string text =
        fmt::format("{:.0f} % occupancy ({} blocks of {} threads per multiprocessor)",
                    100.0 * occupancy.fraction, occupancy.blocks, threads);
    if (occupancy.limiter != OccupancyLimiter::none) {
        text += fmt::format(", limited by {}", to_string(occupancy.limiter));
    }
    return text;
}

}  // namespace kernelforge
