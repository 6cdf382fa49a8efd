// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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
        std::optional<int> other_processes;             ///< compute processes besides this one
    };
    /// Some hundred microseconds. [device]
    [[nodiscard]] Reading read() const;

  private:
    struct Table;
    Nvml() = default;
    std::shared_ptr<const Table> table_;  // never null; the type is known in nvml.cpp only
    void* device_ = nullptr;
};

/// The state around a timed part: `before` and `after` read around it.
[[nodiscard]] DeviceState device_state(const Nvml::Reading& before, const Nvml::Reading& after);

}  // namespace kernelforge::worker
