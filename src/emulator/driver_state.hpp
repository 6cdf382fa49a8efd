// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/driver.hpp"

// What lies behind the handles of the emulated driver. The files driver_*.cpp hold its functions by
// topic; each fills its part of the table.

namespace kernelforge::emulator {

/// Facts of an H200 that the machine does not need; the others are in MachineLimits.
namespace h200 {
inline constexpr int major = 9, minor = 0;
inline constexpr int warp_size = 32;
inline constexpr int threads_per_block = 1024;
inline constexpr int registers = 65536;
inline constexpr int default_shared_bytes = 48 << 10;
inline constexpr int l2_bytes = 62914560;
inline constexpr int clock_khz = 1980000;
inline constexpr int memory_clock_khz = 3201000;
inline constexpr int driver_version = 13000;
/// Multiprocessors of each group that a cluster must fit in: 132 of a full chip's 144 are there,
/// and which are missing differs from chip to chip.
inline constexpr std::uint32_t groups[] = {16, 16, 16, 16, 16, 16, 18, 18};
inline constexpr std::uint32_t portable_cluster = 8, largest_cluster = 16;
}  // namespace h200

inline constexpr const char* device_name = "emulator (H200 limits)";

struct DriverModule;

struct DriverFunction {
    const DriverModule* module = nullptr;
    const Entry* entry = nullptr;
    std::uint32_t most_dynamic_shared_bytes = 0;
    bool any_cluster_size = false;
    std::uint32_t registers = 0;  ///< of a thread; 0: not known, limits nothing
};

struct DriverModule {
    LoadedCode loaded;
    std::uint64_t address = 0;  ///< of its variables; 0: it has none
    std::uint64_t bytes = 0;
    std::map<std::string, DriverFunction> functions;
};

struct DriverEvent {
    std::optional<std::chrono::steady_clock::time_point> recorded;
};

/// A mapping of the virtual memory functions; nothing can be accessed before it is given access.
struct DriverMapping {
    std::uint64_t bytes = 0;
    std::shared_ptr<Block> block;
    std::uint64_t offset = 0;
    bool accessible = false;
};

struct DriverState {
    explicit DriverState(DriverOptions given);

    DriverOptions options;
    MachineLimits limits;
    std::size_t memory_bytes = 0;
    AddressSpace memory;
    std::unique_ptr<Machine> machine;
    std::optional<Checker> checker;
    bool checked = false;  ///< between begin_checked and end_checked

    CUresult fault = CUDA_SUCCESS;
    std::optional<Report> report;
    std::string refusal;
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
    std::uint64_t thread_instructions = 0;

    std::map<DriverModule*, std::unique_ptr<DriverModule>> modules;
    std::map<DriverEvent*, std::unique_ptr<DriverEvent>> events;
    std::map<void*, std::unique_ptr<char>> streams;
    std::map<void*, std::unique_ptr<char[]>> pages;  ///< of cuMemHostAlloc
    std::map<std::uint64_t, std::uint64_t> allocations;
    std::map<CUmemGenericAllocationHandle, std::shared_ptr<Block>> handles;
    std::map<std::uint64_t, DriverMapping> mappings;
    CUmemGenericAllocationHandle next_handle = 1;

    void make_machine();
    /// Host memory for the device, within `memory_bytes`; null: no memory.
    [[nodiscard]] std::shared_ptr<Block> make_block(std::size_t bytes);
    [[nodiscard]] std::size_t used_bytes();
    /// A range of its own with memory behind it; 0: no memory.
    [[nodiscard]] std::uint64_t allocate(std::size_t bytes);
    void free(std::uint64_t address, std::size_t bytes);
    /// Tells the checker of a memset or copy of the plan.
    [[nodiscard]] CUresult note_written(std::uint64_t address, std::size_t bytes);
    [[nodiscard]] CUresult keep_fault(CUresult result, Report found);
    /// The fault that the host had no memory for what `who` does.
    [[nodiscard]] CUresult keep_no_memory(const std::string& who);

  private:
    std::vector<std::pair<std::weak_ptr<Block>, std::size_t>> blocks_;
};

/// The one device's state; null where there is none. The driver's functions have no context to find
/// theirs by, hence a variable of the process.
[[nodiscard]] DriverState* driver_state() noexcept;

/// Runs a function of the driver on a device that has not failed.
template <class F>
CUresult on_device(F&& function) {
    DriverState* state = driver_state();
    if (state == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    if (state->fault != CUDA_SUCCESS) return state->fault;
    try {
        return function(*state);
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

/// The same for functions that give something back, which they do after a fault too.
template <class F>
CUresult giving_back(F&& function) {
    DriverState* state = driver_state();
    if (state == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    const CUresult result = function(*state);
    return state->fault != CUDA_SUCCESS ? state->fault : result;
}

void add_device_functions(worker::Driver& table);
void add_memory_functions(worker::Driver& table);
void add_module_functions(worker::Driver& table);
void add_launch_functions(worker::Driver& table);
void add_tensor_map_functions(worker::Driver& table);

}  // namespace kernelforge::emulator
