// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "worker/driver.hpp"
#include "worker/measure_spans.hpp"

// Trusted library steps (`//@call`): cuBLASLt, cuDNN and CUB behind one interface. The libraries
// are loaded when a step first needs them.

namespace kernelforge::worker {

/// One library call with everything chosen, ready to be enqueued any number of times. [device]
class LibraryStep {
  public:
    virtual ~LibraryStep() = default;

    /// Scratch that the step wants, bytes; its content is arbitrary before each call.
    [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
    /// Enqueues the call: one or more kernels and memsets on `stream`. `addresses` holds every
    /// buffer that the call names; `workspace` is aligned to 256 and has `workspace_bytes()`. The
    /// step may outlive the `Libraries`.
    /// @throws Error device_unavailable or unsupported with the library's own status,
    /// invalid_argument (a buffer is not aligned: 256 for matmul, 16 for sdpa)
    virtual void enqueue(CUstream stream, const Addresses& addresses, CUdeviceptr workspace) = 0;
    /// "cublasLt 13.1.0: algorithm 66, tile 20, stages 12; fastest of 168 tried, 8.1 us" (numbers
    /// of cublasLt.h; docs/library_steps.md)
    [[nodiscard]] virtual std::string describe() const = 0;
};

struct LibraryOptions {
    /// Where chosen algorithms are kept between processes; empty: only in this process.
    std::string cache_folder;
    /// Folders to look for libcublasLt.so.*, libcudnn.so.* in before the loader's own search.
    std::vector<std::string> folders;
    /// Algorithms that a sweep times, at least this many where the library offers as many.
    int least_algorithms = 100;
};

/// The libraries of one process, for its current context and `stream`. [device]
class Libraries {
  public:
    virtual ~Libraries() = default;

    /// Chooses an algorithm, where there is a choice by a measured sweep, which takes up to a
    /// second for a shape that is not in the cache (cuDNN compiles its engines first, which may
    /// take some seconds). The device must be idle.
    /// @throws Error unsupported: the library is not there (which, and where it was looked for), is
    /// too old, or does not offer this; invalid_argument: shapes or types that do not fit each
    /// other
    [[nodiscard]] virtual std::unique_ptr<LibraryStep> make(const plan::ResolvedCall& call) = 0;
};

/// `driver` must outlive the result. Nothing is loaded yet.
[[nodiscard]] std::unique_ptr<Libraries> open_libraries(const Driver& driver,
                                                        const DeviceInfo& device, CUstream stream,
                                                        LibraryOptions options);

}  // namespace kernelforge::worker
