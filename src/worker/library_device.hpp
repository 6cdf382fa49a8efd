// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "worker/driver.hpp"

// The library steps' own kernels: PTX for compute_80 and later, compiled when KernelForge is built.
// NUL-terminated. Kernels and their parameter structs: library/parameters.hpp.

namespace kernelforge::worker::library {

[[nodiscard]] std::string_view common_ptx();  ///< kf_library_*, kf_sort_{index,gather}
[[nodiscard]] std::string_view reduce_f32_ptx();
[[nodiscard]] std::string_view reduce_f64_ptx();
[[nodiscard]] std::string_view reduce_f16_ptx();
[[nodiscard]] std::string_view reduce_bf16_ptx();
[[nodiscard]] std::string_view reduce_i32_ptx();
[[nodiscard]] std::string_view reduce_i64_ptx();
[[nodiscard]] std::string_view sort_f32_ptx();
[[nodiscard]] std::string_view sort_f64_ptx();
[[nodiscard]] std::string_view sort_f16_ptx();
[[nodiscard]] std::string_view sort_bf16_ptx();
[[nodiscard]] std::string_view sort_i32_ptx();
[[nodiscard]] std::string_view sort_i64_ptx();

/// PTX of a module by name (`common`, `reduce_f32`, `sort_f32`, …).
/// @throws Error unsupported: there is none of that name, or this build was made without CUB
[[nodiscard]] std::string_view module_ptx(std::string_view name);

/// The modules of the current context, each loaded when it is first used. [device]
class Kernels {
  public:
    struct Grid {
        unsigned x = 1;
        unsigned y = 1;
    };

    explicit Kernels(const Driver& driver) : driver_(driver) {}
    ~Kernels();
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    /// @throws Error unsupported (module_ptx), DriverError
    [[nodiscard]] CUfunction find(const std::string& module, const std::string& kernel);
    /// Enqueues `function` with its one parameter. @throws DriverError
    template <class Parameters>
    void launch(CUfunction function, Grid grid, unsigned threads, CUstream stream,
                const Parameters& parameters) const {
        Parameters copy = parameters;
        void* arguments[] = {&copy};
        driver_.check(driver_.cuLaunchKernel(function, grid.x, grid.y, 1, threads, 1, 1, 0, stream,
                                             arguments, nullptr),
                      "launching a kernel of a library step");
    }

  private:
    const Driver& driver_;
    std::map<std::string, CUmodule> modules_;
};

}  // namespace kernelforge::worker::library
