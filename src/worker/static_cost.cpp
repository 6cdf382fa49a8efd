// SPDX-License-Identifier: Apache-2.0
#include "worker/static_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "kernelforge/error.hpp"
#include "occupancy.hpp"

namespace kernelforge::worker {

namespace {

/// A round figure: what a launch costs besides its work, so that a plan of fewer launches is
/// preferred.
constexpr double launch_overhead_s = 2e-6;
constexpr double schedulers = 4.0;  // of a multiprocessor
constexpr double other_cycles = 2.0;

struct Cost {
    std::string_view opcode;
    double cycles;  ///< of a scheduler, for one warp
};

/// By class of src/worker/compile_cubin.cpp; what is not listed is mostly integer arithmetic.
/// Shared and global accesses: 32 lanes a cycle and multiprocessor, as a warp shuffle. Matrix
/// instructions: their multiply-adds over the dense rate of an H200's tensor core, 1024 of 16 bits
/// a cycle; m16n8k16 for `hmma`, m64n128k16 over four warps for `hgmma`.
constexpr std::array<Cost, 33> costs = {{
    {"atom.global", 8.0},   {"atom.shared", 8.0}, {"barrier", 1.0},
    {"branch", 1.0},        {"bulk.copy", 4.0},   {"bulk.load", 4.0},
    {"bulk.store", 4.0},    {"cp.async", 4.0},    {"cp.async.commit", 1.0},
    {"cp.async.wait", 1.0}, {"dfma", 2.0},        {"dmma", 8.0},
    {"exit", 1.0},          {"fadd", 1.0},        {"ffma", 1.0},
    {"hfma2", 1.0},         {"hgmma", 32.0},      {"hmma", 2.0},
    {"igmma", 32.0},        {"imma", 2.0},        {"ld.global", 4.0},
    {"ld.local", 4.0},      {"ld.shared", 4.0},   {"ldmatrix", 4.0},
    {"mufu", 8.0},          {"nop", 0.0},         {"qgmma", 32.0},
    {"red.global", 8.0},    {"redux", 8.0},       {"shfl", 4.0},
    {"st.global", 4.0},     {"st.local", 4.0},    {"st.shared", 4.0},
}};

static_assert(std::is_sorted(costs.begin(), costs.end(),
                             [](const Cost& a, const Cost& b) { return a.opcode < b.opcode; }));

double cycles_of(std::string_view opcode) {
    const auto* found = std::lower_bound(
        costs.begin(), costs.end(), opcode,
        [](const Cost& cost, std::string_view name) { return cost.opcode < name; });
    return found != costs.end() && found->opcode == opcode ? found->cycles : other_cycles;
}

double warp_cycles(const KernelFacts& kernel) {
    double cycles = 0.0;
    for (const auto& [opcode, count] : kernel.opcode_counts) cycles += count * cycles_of(opcode);
    return cycles;
}

std::int64_t product(const std::int64_t (&extent)[3]) {
    return extent[0] * extent[1] * extent[2];
}

/// Full waves, then what is left, spread evenly.
std::int64_t busiest_multiprocessor(std::int64_t blocks, std::int64_t resident,
                                    std::int64_t multiprocessors) {
    const std::int64_t wave = resident * multiprocessors;
    const std::int64_t rest = blocks % wave;
    return blocks / wave * resident + (rest + multiprocessors - 1) / multiprocessors;
}

double launch_cost_s(const DeviceInfo& device, const LaunchFacts& launch,
                     const KernelFacts& kernel) {
    const std::int64_t threads = product(launch.block);
    const std::int64_t warps = (threads + device.warp_size - 1) / device.warp_size;
    const Occupancy own = occupancy(kernel, threads, launch.dynamic_shared_bytes, device);
    const auto blocks = static_cast<double>(busiest_multiprocessor(
        product(launch.grid), std::max(1, own.blocks), device.multiprocessors));
    const double block_cycles = static_cast<double>(warps) * warp_cycles(kernel) / schedulers;
    return launch_overhead_s + blocks * block_cycles / (device.clock_khz * 1e3);
}

}  // namespace

double static_cost_s(const DeviceInfo& device, const std::vector<LaunchFacts>& launches,
                     const std::vector<KernelFacts>& kernels) {
    if (device.clock_khz <= 0 || device.multiprocessors <= 0 || device.warp_size <= 0) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("static cost: device {}: expected clock, multiprocessors and warp "
                        "size above 0, found {} kHz, {} and {}",
                        device.name, device.clock_khz, device.multiprocessors, device.warp_size));
    }
    if (launches.size() != kernels.size()) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("static cost: expected facts of {} launches, found {}",
                                launches.size(), kernels.size()));
    }
    double seconds = 0.0;
    for (std::size_t i = 0; i < launches.size(); ++i) {
        seconds += launch_cost_s(device, launches[i], kernels[i]);
    }
    return seconds;
}

}  // namespace kernelforge::worker
