// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/memory.hpp"
#include "emulator/observer.hpp"
#include "emulator/program.hpp"

namespace kernelforge::emulator {

/// Limits of the emulated device (docs/emulator.md).
struct MachineLimits {
    std::uint32_t multiprocessors = 132;
    std::uint32_t blocks_per_multiprocessor = 32;
    std::uint32_t threads_per_multiprocessor = 2048;
    std::uint32_t shared_bytes_per_multiprocessor = 233472;
    std::uint32_t max_shared_bytes_per_block = 232448;
    std::uint32_t reserved_shared_bytes = 1024;
    std::uint32_t stack_bytes = 1024;            ///< of a thread, calls included (cuCtxSetLimit)
    std::uint32_t most_local_bytes = 512 << 10;  ///< of a thread
    std::size_t most_output_bytes = 4096;        ///< of printf, a launch
};

/// A module's globals and constants, in device memory. Writable by the launches.
struct LoadedCode {
    std::shared_ptr<const Code> code;
    std::vector<std::uint64_t> global_addresses;  ///< by `Code::globals`
};

struct Launch {
    const LoadedCode* module = nullptr;
    const Entry* entry = nullptr;
    std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
    std::uint32_t dynamic_shared_bytes = 0;
    std::string parameters;  ///< bytes, laid out as `Entry::parameters`
    bool cooperative = false;
};

struct Outcome {
    enum class Status { ok, fault, out_of_time, cancelled };
    Status status = Status::ok;
    std::optional<Report> report;  ///< of a fault, and where warps were when time ran out
    std::string output;            ///< of printf
    std::uint64_t warp_instructions = 0;
    std::uint64_t thread_instructions = 0;
};

/// Executes launches on host threads. Blocks that can be resident together on the device make
/// progress together: a warp that spins does not keep another from running. [device]
class Machine {
  public:
    Machine(AddressSpace& memory, MachineLimits limits, int threads);
    ~Machine();

    /// Null: nobody watches. The observer must outlive its launches.
    void set_observer(Observer* observer) noexcept;
    /// Runs to the end. Faults are outcomes. `cancelled` is polled at least every 50 ms.
    [[nodiscard]] Outcome run(const Launch& launch, std::chrono::steady_clock::time_point deadline,
                              const std::function<bool()>& cancelled = {});

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Blocks of a kernel that fit on one multiprocessor, registers not counted (PTX has none).
[[nodiscard]] std::uint32_t resident_blocks(const MachineLimits& limits, std::uint32_t threads,
                                            std::uint32_t shared_bytes) noexcept;

}  // namespace kernelforge::emulator
