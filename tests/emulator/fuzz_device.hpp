// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/driver.hpp"
#include "fuzz_program.hpp"
#include "worker/compile_toolkit.hpp"
#include "worker/nvrtc_library.hpp"

// Compiles random kernels as candidates are compiled, and runs them.

namespace kernelforge::fuzz {

class KernelCompiler {
  public:
    /// @throws Error unsupported: there is no NVRTC
    KernelCompiler();
    /// PTX for a virtual architecture ("compute_90a"), machine code for a real one ("sm_90a").
    /// @throws Error parse with what the compiler says
    [[nodiscard]] std::string compile(const Program& program, const std::string& arch) const;

  private:
    compile::Toolkit toolkit_;
    compile::NvrtcLibrary library_;
};

struct Ran {
    Buffers buffers;
    std::string fault;  ///< what stopped it; empty: nothing
};

enum class Checker { on, off };
/// On the emulated device, of which there must be no other at the time.
[[nodiscard]] Ran run_emulated(const Program& program, const std::string& ptx, emulator::Isa isa,
                               Checker checker);

/// The machine's GPU.
class Gpu {
  public:
    /// @throws Error device_unavailable
    Gpu();
    [[nodiscard]] Ran run(const Program& program, const std::string& cubin) const;

  private:
    std::unique_ptr<const worker::Driver> driver_;
};

}  // namespace kernelforge::fuzz
