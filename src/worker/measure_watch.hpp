// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/measure_device.hpp"

// Whether the device was the same, and ours alone, around a timed block.

namespace kernelforge::worker {

/// Times of the calibration kernels, seconds, the best of seven each.
struct Calibration {
    double copy_s = 0.0;     ///< 64 MiB read and 64 MiB written, after a flush
    double compute_s = 0.0;  ///< a fixed number of fp32 multiply-adds on all multiprocessors
};

/// What is known about a block.
struct BlockFacts {
    Nvml::Reading before;
    Nvml::Reading after;
    Calibration calibration_before;
    Calibration calibration_after;
    Company company;                      ///< when the context was made
    std::uint32_t process_id = 0;         ///< of this process, as itself sees it
    std::vector<std::uint32_t> siblings;  ///< the parent and its other workers
};

/// Why the times of the block do not count, one sentence; empty: they do. Reasons:
/// - a calibration time after the block is over 1.5 % from that before; arithmetic that got slower
///   while the driver reports the software power cap is that cap's doing (see below);
/// - the driver reports a hardware or thermal slowdown or a power brake (NVML's bits 0x8, 0x20,
///   0x40, 0x80) at either end. Not the software power cap (0x4): a kernel that draws much power
///   runs at that clock always, and it meets both sides of an ABBA quad alike;
/// - a compute process that was not there when the context was made, and is no sibling. Where NVML
///   counts processes otherwise than this process does (a container), siblings cannot be told from
///   others: then only a process that came or went during the block counts.
/// What the driver does not tell is no reason.
[[nodiscard]] std::string reason_to_reject(const BlockFacts& facts);

/// What is known about the device over two blocks, the second one later.
[[nodiscard]] DeviceState merge(const DeviceState& first, const DeviceState& second);

/// Parent's id in the text of /proc/PID/stat; 0 when it is none.
[[nodiscard]] std::uint32_t parent_in_stat(const std::string& stat);

/// Watches the device around timed blocks. Both functions wait for the device, which must be idle,
/// and use its recorder: not between `CallTimer::begin` and `finish`. Each reads NVML and runs four
/// rounds of a flush, the copy and the arithmetic, the first of which does not count: cheap enough
/// to be around every block, where a change is found in the block that it spoils. [device]
class BlockWatch {
  public:
    /// @throws DriverError out of memory (128 MiB)
    explicit BlockWatch(Device& device);

    /// @throws DriverError, DeviceTimeout
    void before();
    /// `reason_to_reject`, or that the calibration itself could not be timed.
    /// @throws DriverError, DeviceTimeout
    [[nodiscard]] std::string after();
    /// Of the last block. A calibration time is that of copy and compute together.
    [[nodiscard]] DeviceState state() const;

  private:
    [[nodiscard]] Calibration calibrate();
    /// What went wrong, if anything.
    [[nodiscard]] std::string try_calibrate(Calibration& calibration);

    Device& device_;
    MemoryPool::Lease from_;
    MemoryPool::Lease to_;
    BlockFacts facts_;
    std::string trouble_;
};

}  // namespace kernelforge::worker
