// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "worker/driver.hpp"
#include "worker/library_device.hpp"

// Scratch operands and times for choosing among algorithms of a library.

namespace kernelforge::worker::library {

/// What a scratch operand is: element type and size.
struct ScratchOperand {
    std::string dtype;
    std::size_t bytes = 0;
};

/// Which bits of an element stay random and which are set, so that every element is finite and of
/// magnitude 1/2 to 1 (floating point), repeated over 8 bytes.
struct Pattern {
    std::uint64_t keep = ~std::uint64_t{0};
    std::uint64_t set = 0;
};
/// @throws Error unsupported for a type that is not floating-point
[[nodiscard]] Pattern finite_pattern(std::string_view dtype);

/// How many sets of operands are used in turn: so many that together they are twice the L2, so
/// that a call does not find what the last one left there; never over `most_bytes` altogether,
/// never over 4096, at least one.
[[nodiscard]] std::size_t scratch_sets(std::size_t set_bytes, std::int64_t l2_bytes,
                                       std::size_t most_bytes);

/// Operands in their own device memory, freed with the object, in `sets()` copies filled with
/// random finite numbers. [device]
class Scratch {
  public:
    /// @throws DriverError (out of memory: one set and the workspace do not fit)
    Scratch(const Driver& driver, const DeviceInfo& device, CUstream stream, Kernels& kernels,
            const std::vector<ScratchOperand>& operands, std::size_t workspace_bytes);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] std::size_t sets() const noexcept { return sets_; }
    /// Aligned to 256. `operand` by its place in the constructor's list.
    [[nodiscard]] CUdeviceptr address(std::size_t operand, std::size_t set) const;
    [[nodiscard]] CUdeviceptr workspace() const noexcept { return workspace_; }

  private:
    struct Placed {
        CUdeviceptr base = 0;
        std::size_t stride = 0;
    };

    void fill(Kernels& kernels, CUstream stream, const Placed& placed, std::string_view dtype,
              std::uint64_t seed);

    const Driver& driver_;
    std::vector<Placed> placed_;
    CUdeviceptr memory_ = 0;
    CUdeviceptr workspace_ = 0;
    std::size_t sets_ = 1;
};

/// Times calls on one stream by events. [device]
class CallClock {
  public:
    CallClock(const Driver& driver, CUstream stream, Kernels& kernels);
    ~CallClock();
    CallClock(const CallClock&) = delete;
    CallClock& operator=(const CallClock&) = delete;

    /// Seconds of one of `calls` calls of `enqueue`, back to back. The stream is held up first, so
    /// that the host's time to enqueue does not count, for calls up to some milliseconds.
    /// @throws DriverError, and what `enqueue` throws
    [[nodiscard]] double seconds(int calls, const std::function<void()>& enqueue);

  private:
    const Driver& driver_;
    CUstream stream_;
    CUfunction delay_ = nullptr;
    Kernels& kernels_;
    CUevent start_ = nullptr;
    CUevent stop_ = nullptr;
};

/// One of the things that are compared.
struct Contender {
    std::size_t index = 0;  ///< in the caller's list
    double seconds = 0.0;   ///< the best knowledge of its time
};

/// What a sweep found.
struct SweepResult {
    std::vector<Contender> ranking;  ///< those of the final, fastest first; empty: all failed
    std::size_t tried = 0;           ///< that ran, out of `count`
    double first_s = 0.0;            ///< of contender 0 in the final; 0: it did not run
};

/// Runs all of `count` contenders once, those within 1.5 of the fastest three times, then the best
/// eight and contender 0 twenty times each, interleaved in two rounds. `time(index, calls)` gives
/// seconds a call, negative where it does not run. Screening ends after `budget_s` of `now`.
/// The constants: a first call is right to some ten per cent, and eight finalists of twenty calls
/// cost less than the screening of a hundred.
[[nodiscard]] SweepResult sweep(std::size_t count, double budget_s,
                                const std::function<double(std::size_t, int)>& time,
                                const std::function<double()>& now);

}  // namespace kernelforge::worker::library
