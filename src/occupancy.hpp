// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/profile_data.hpp"

namespace kernelforge {

/// Residency of one kernel on one multiprocessor, computed without a device.
struct Occupancy {
    int blocks = 0;         ///< resident blocks; 0: it cannot be launched
    int warps = 0;          ///< resident warps
    double fraction = 0.0;  ///< resident warps over the device's most, 0 to 1
    OccupancyLimiter limiter = OccupancyLimiter::none;  ///< the smallest of the four limits
};

/// Formula and granularities are those of NVIDIA's `cuda_occupancy.h` for compute capability 8.x
/// and 9.0:
/// - threads: max_threads_per_multiprocessor / 32 warps, a block's threads rounded up to warps
/// - registers: those of a warp rounded up to 256; each of the four sub-partitions holds
///   floor(registers / 4 / that) warps; a block counts as a multiple of four warps against the
///   whole file
/// - shared memory: static + dynamic + the driver's reserve (`reserved_shared_bytes_per_block`),
/// rounded up
///   to 128 bytes; the largest carve-out is assumed
/// - blocks: max_blocks_per_multiprocessor
/// A fact that is not known limits nothing; so does a `DeviceInfo` member that is 0.
/// @param threads  of a block, > 0
[[nodiscard]] Occupancy occupancy(const KernelFacts& facts, std::int64_t threads,
                                  std::int64_t dynamic_shared_bytes, const DeviceInfo& device);

/// As above; the limiter is `grid` when the whole grid fits at once and leaves room.
[[nodiscard]] Occupancy occupancy(const KernelFacts& facts, std::int64_t threads,
                                  std::int64_t dynamic_shared_bytes, std::int64_t grid_blocks,
                                  const DeviceInfo& device);

/// "50 % occupancy (4 blocks of 256 threads per multiprocessor), limited by registers".
[[nodiscard]] std::string describe(const Occupancy& occupancy, std::int64_t threads);

}  // namespace kernelforge
