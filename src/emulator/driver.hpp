// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/checker.hpp"
#include "emulator/machine.hpp"
#include "kernelforge/evaluator.hpp"
#include "worker/driver.hpp"

// The CUDA driver's functions over the emulator, so that the measuring worker runs on it unchanged.

namespace kernelforge::emulator {

struct DriverOptions {
    int threads = 0;  ///< host threads; 0: as many as there are processors
    bool check = true;
    Isa isa = best_isa();
};

/// The emulated device behind the driver table: one a process, since the driver's functions take no
/// context of ours. Streams run at once, in order, on the calling thread; what a launch did wrong
/// shows as its result, and for good as that of every later call, as on hardware
/// (CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
/// CUDA_ERROR_ASSERT, CUDA_ERROR_LAUNCH_TIMEOUT), except that the device recovers when
/// `take_report` is called. `cuModuleLoadData` takes PTX text.
class EmulatedDevice {
  public:
    /// @throws Error invalid_argument: there is one already
    explicit EmulatedDevice(DriverOptions options);
    ~EmulatedDevice();

    [[nodiscard]] const worker::Driver& driver() const noexcept;
    /// Facts of the emulated device: an H200's, named "emulator (H200 limits)".
    [[nodiscard]] DeviceInfo info() const;

    /// From here to `end_checked`, launches are checked against these views.
    void begin_checked(std::vector<View> views);
    void end_checked();
    /// The variables of a module as views, to add to those of the tensors; constants are read-only.
    [[nodiscard]] std::vector<View> variables(CUmodule module) const;
    /// Registers of a thread of this kernel, which PTX does not say: they limit launches and
    /// residency as on the device.
    void set_registers(CUfunction function, int registers);
    /// What the last failed launch or module load was about, once.
    [[nodiscard]] std::optional<Report> take_report();
    /// Why the last module was refused (PtxError with its line), once.
    [[nodiscard]] std::string take_refusal();
    /// Launches end with out_of_time at this time.
    void set_deadline(std::chrono::steady_clock::time_point deadline);
    /// Instructions executed since the device was made.
    [[nodiscard]] std::uint64_t thread_instructions() const noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kernelforge::emulator
