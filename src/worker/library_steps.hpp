// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "worker/library.hpp"
#include "worker/library_device.hpp"

// The makers of library steps, one a library. Each loads its library when it is first asked.

namespace kernelforge::worker::library {

/// What every maker works with. `driver` outlives all steps.
struct StepContext {
    const Driver& driver;
    DeviceInfo device;
    CUstream stream = nullptr;
    LibraryOptions options;
    std::shared_ptr<Kernels> kernels;  ///< shared by the makers and the steps that they make
};

/// @throws Error internal when a buffer has no address
[[nodiscard]] CUdeviceptr address_of(const Addresses& addresses, const std::string& name);

/// Makes the steps of one library. [device]
class StepMaker {
  public:
    virtual ~StepMaker() = default;
    /// @throws Error as Libraries::make
    [[nodiscard]] virtual std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) = 0;
};

[[nodiscard]] std::unique_ptr<StepMaker> matmul_maker(const StepContext& context);  ///< cuBLASLt
[[nodiscard]] std::unique_ptr<StepMaker> sdpa_maker(const StepContext& context);    ///< cuDNN
[[nodiscard]] std::unique_ptr<StepMaker> reduce_maker(const StepContext& context);  ///< CUB
[[nodiscard]] std::unique_ptr<StepMaker> sort_maker(const StepContext& context);    ///< CUB

}  // namespace kernelforge::worker::library
