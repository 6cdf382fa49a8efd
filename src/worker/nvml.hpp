// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"

namespace kernelforge::worker {

/// Clocks, temperature and company of one device, read through libnvidia-ml.so.1. A value that the
/// driver does not give is absent.
class Nvml {
  public:
    /// The device with this PCI bus id ("0000:3B:00.0"); null where there is no NVML or no such
    /// device.
    [[nodiscard]] static std::unique_ptr<Nvml> open(const std::string& pci_bus_id);

    struct Reading {
        std::optional<int> sm_clock_mhz;
        std::optional<int> memory_clock_mhz;
        std::optional<int> temperature_c;
        std::optional<std::uint64_t> throttle_reasons;  ///< NVML's bits
        /// Ids of the compute processes, as the driver counts them: inside a container they may be
        /// those of the host. Absent also where there are more than 256.
        std::optional<std::vector<std::uint32_t>> processes;
        std::optional<int> other_processes;  ///< besides this one; set by `Device::read_state`
    };
    /// Some hundred microseconds. [device]
    [[nodiscard]] Reading read() const;

  private:
    struct Table;
    Nvml() = default;
    std::shared_ptr<const Table> table_;  // never null; the type is known in nvml.cpp only
    void* device_ = nullptr;
};

/// Lists of compute processes before and after this process made its context.
struct Company {
    std::optional<std::vector<std::uint32_t>> before;
    std::optional<std::vector<std::uint32_t>> after;
};

/// This process's id in the lists: the one that came with the context. Absent when a list is
/// unknown, or not exactly one came.
[[nodiscard]] std::optional<std::uint32_t> own_process(const Company& company);

/// How many of `processes` are not this process. Absent when the list is unknown, or this process
/// is not in it: a list that leaves us out may leave others out too.
[[nodiscard]] std::optional<int> other_processes(
    const Company& company, const std::optional<std::vector<std::uint32_t>>& processes);

/// The state around a timed part: `before` and `after` read around it.
[[nodiscard]] DeviceState device_state(const Nvml::Reading& before, const Nvml::Reading& after);

}  // namespace kernelforge::worker
