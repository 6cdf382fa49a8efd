// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <string_view>

#include "kernelforge/error.hpp"

// The CUDA driver, loaded at run time: a build starts with and without one.

// Every function that is used. `cuda.h` renames many of them to a version (`cuMemAlloc` is
// `cuMemAlloc_v2`); members, types and looked-up symbols are renamed alike.
#define KERNELFORGE_DRIVER_FUNCTIONS(X)            \
    X(cuInit)                                      \
    X(cuDriverGetVersion)                          \
    X(cuGetErrorName)                              \
    X(cuGetErrorString)                            \
    X(cuDeviceGetCount)                            \
    X(cuDeviceGet)                                 \
    X(cuDeviceGetName)                             \
    X(cuDeviceGetUuid)                             \
    X(cuDeviceGetAttribute)                        \
    X(cuDeviceGetPCIBusId)                         \
    X(cuDeviceTotalMem)                            \
    X(cuDevicePrimaryCtxRetain)                    \
    X(cuDevicePrimaryCtxRelease)                   \
    X(cuCtxSetCurrent)                             \
    X(cuCtxSetLimit)                               \
    X(cuCtxSynchronize)                            \
    X(cuCtxResetPersistingL2Cache)                 \
    X(cuStreamCreate)                              \
    X(cuStreamDestroy)                             \
    X(cuStreamQuery)                               \
    X(cuEventCreate)                               \
    X(cuEventDestroy)                              \
    X(cuEventRecord)                               \
    X(cuModuleLoadData)                            \
    X(cuModuleUnload)                              \
    X(cuModuleGetFunction)                         \
    X(cuModuleGetGlobal)                           \
    X(cuFuncSetAttribute)                          \
    X(cuLaunchKernel)                              \
    X(cuLaunchKernelEx)                            \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(cuOccupancyMaxActiveClusters)                \
    X(cuMemGetInfo)                                \
    X(cuMemAlloc)                                  \
    X(cuMemFree)                                   \
    X(cuMemHostAlloc)                              \
    X(cuMemFreeHost)                               \
    X(cuMemsetD8Async)                             \
    X(cuMemcpyDtoHAsync)                           \
    X(cuMemcpyHtoDAsync)                           \
    X(cuMemcpyDtoDAsync)                           \
    X(cuMemGetAllocationGranularity)               \
    X(cuMemAddressReserve)                         \
    X(cuMemAddressFree)                            \
    X(cuMemCreate)                                 \
    X(cuMemRelease)                                \
    X(cuMemMap)                                    \
    X(cuMemUnmap)                                  \
    X(cuMemSetAccess)                              \
    X(cuTensorMapEncodeTiled)

namespace kernelforge::worker {

/// A driver call failed. `result()` tells a candidate's fault from ours.
class DriverError final : public Error {
  public:
    DriverError(CUresult result, const std::string& message)
        : Error(ErrorCode::device_unavailable, message), result_(result) {}
    [[nodiscard]] CUresult result() const noexcept { return result_; }

  private:
    CUresult result_;
};

/// Whether the context is lost for good after this result: every later call gives it again, and
/// only a new process helps.
[[nodiscard]] bool is_sticky(CUresult result) noexcept;

/// The checked table of functions. Never unloaded. [any]
struct Driver {
#define KERNELFORGE_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
    KERNELFORGE_DRIVER_FUNCTIONS(KERNELFORGE_DRIVER_MEMBER)
#undef KERNELFORGE_DRIVER_MEMBER
    /// Milliseconds between two events; both versions of the driver's function have this shape.
    CUresult(CUDAAPI* event_elapsed_time)(float*, CUevent, CUevent) = nullptr;
    /// From 12.4 on; null before.
    CUresult(CUDAAPI* function_parameter)(CUfunction, std::size_t, std::size_t*,
                                          std::size_t*) = nullptr;

    /// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
    [[nodiscard]] std::string describe(CUresult result) const;
    /// @throws DriverError "WHAT: DESCRIPTION" unless `result` is success
    void check(CUresult result, std::string_view what) const;
};

/// Loads libcuda.so.1 and looks every function up; null where the library is absent.
/// @throws Error device_unavailable: the library is there but lacks a function (driver too old)
[[nodiscard]] std::unique_ptr<const Driver> load_driver();

}  // namespace kernelforge::worker
