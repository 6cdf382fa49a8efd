// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "emulator/driver_state.hpp"

// Launches, with the driver's own checks before, and occupancy.

namespace kernelforge::emulator {

namespace {

constexpr std::uint64_t most_blocks_x = 0x7fff'ffff;
constexpr std::uint32_t most_blocks_yz = 65535;
constexpr std::uint32_t most_threads_z = 64;
/// Far more than end in an evaluation's time.
constexpr std::uint64_t most_emulated_blocks = std::uint64_t{1} << 32;

using Extent = std::array<std::uint32_t, 3>;

std::uint64_t product(const Extent& extent) {
    return static_cast<std::uint64_t>(extent[0]) * extent[1] * extent[2];
}

CUresult result_of(Report::Kind kind) {
    switch (kind) {
        case Report::Kind::out_of_bounds:
        case Report::Kind::read_only_write:
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        case Report::Kind::misaligned:
            return CUDA_ERROR_MISALIGNED_ADDRESS;
        case Report::Kind::assertion:
            return CUDA_ERROR_ASSERT;
        case Report::Kind::deadlock:
        case Report::Kind::endless:
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        case Report::Kind::stack_overflow:
            return CUDA_ERROR_HARDWARE_STACK_ERROR;
        case Report::Kind::bad_instruction:
            return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case Report::Kind::uninitialised:
        case Report::Kind::race:
        case Report::Kind::barrier_divergence:
        case Report::Kind::trap:
        case Report::Kind::limit:
            return CUDA_ERROR_LAUNCH_FAILED;
    }
    return CUDA_ERROR_LAUNCH_FAILED;
}

/// The cluster that a launch has: its own, else the kernel's.
CUresult read_attributes(const CUlaunchConfig& config, const DriverFunction& function,
                         Launch& launch) {
    bool has_cluster = false;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                launch.cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                                  attribute.value.clusterDim.z};
                has_cluster = true;
                break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
                launch.cooperative = attribute.value.cooperative != 0;
                break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
                break;  // launches follow one another here
            default:
                return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    const std::array<int, 3>& required = function.entry->required_cluster;
    if (required[0] == 0) return CUDA_SUCCESS;
    const Extent needed{static_cast<std::uint32_t>(required[0]),
                        static_cast<std::uint32_t>(std::max(required[1], 1)),
                        static_cast<std::uint32_t>(std::max(required[2], 1))};
    if (has_cluster && launch.cluster != needed) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    launch.cluster = needed;
    return CUDA_SUCCESS;
}

CUresult check_block(const Entry& entry, const Extent& block) {
    const std::uint64_t threads = product(block);
    if (threads == 0 || threads > h200::threads_per_block || block[2] > most_threads_z) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (entry.required_threads[0] != 0) {
        for (std::size_t i = 0; i < 3; ++i) {
            const int required = std::max(entry.required_threads[i], 1);
            if (block[i] != static_cast<std::uint32_t>(required)) return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (entry.max_threads[0] != 0) {
        std::uint64_t most = 1;
        for (const int extent : entry.max_threads) {
            most *= static_cast<std::uint64_t>(std::max(extent, 1));
        }
        if (threads > most) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/// Blocks whose registers fit in a multiprocessor; formula of NVIDIA's `cuda_occupancy.h` for
/// compute capability 9.0: registers of a warp come in units of 256, each of four sub-partitions
/// holds a quarter of them, and a block counts as a multiple of four warps.
std::uint64_t blocks_by_registers(std::uint32_t registers, std::uint64_t threads) {
    constexpr std::uint64_t parts = 4, unit = 256;
    if (registers == 0) return INT32_MAX;
    const std::uint64_t of_warp = (registers * std::uint64_t{32} + unit - 1) / unit * unit;
    const std::uint64_t warps = (threads + h200::warp_size - 1) / h200::warp_size;
    return h200::registers / parts / of_warp * parts / ((warps + parts - 1) / parts * parts);
}

std::uint32_t blocks_each(const DriverState& state, const DriverFunction& function,
                          std::uint64_t threads, std::uint64_t dynamic_bytes) {
    const std::uint32_t blocks = resident_blocks(
        state.limits, static_cast<std::uint32_t>(threads),
        static_cast<std::uint32_t>(function.entry->static_shared_bytes + dynamic_bytes));
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(blocks, blocks_by_registers(function.registers, threads)));
}

/// Clusters of so many blocks that are resident at once.
std::uint64_t clusters_at_once(std::uint32_t blocks_a_multiprocessor, std::uint64_t cluster) {
    std::uint64_t clusters = 0;
    for (const std::uint32_t group : h200::groups) {
        clusters += static_cast<std::uint64_t>(group) * blocks_a_multiprocessor / cluster;
    }
    return clusters;
}

CUresult check_cluster(const DriverState& state, const DriverFunction& function,
                       const Launch& launch) {
    const std::uint64_t cluster = product(launch.cluster);
    const std::uint32_t most =
        function.any_cluster_size ? h200::largest_cluster : h200::portable_cluster;
    if (cluster == 0 || cluster > most) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (std::size_t i = 0; i < 3; ++i) {
        if (launch.grid[i] % launch.cluster[i] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    const std::uint32_t blocks =
        blocks_each(state, function, product(launch.block), launch.dynamic_shared_bytes);
    return clusters_at_once(blocks, cluster) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult check_launch(const DriverState& state, const DriverFunction& function,
                      const Launch& launch) {
    const Extent& grid = launch.grid;
    if (product(grid) == 0 || grid[0] > most_blocks_x || grid[1] > most_blocks_yz ||
        grid[2] > most_blocks_yz) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (launch.dynamic_shared_bytes > function.most_dynamic_shared_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = check_block(*function.entry, launch.block);
    if (result == CUDA_SUCCESS &&
        blocks_by_registers(function.registers, product(launch.block)) == 0) {
        result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    if (result == CUDA_SUCCESS && product(launch.cluster) != 1) {
        result = check_cluster(state, function, launch);
    }
    if (result != CUDA_SUCCESS || !launch.cooperative) return result;
    const std::uint64_t resident =
        static_cast<std::uint64_t>(state.limits.multiprocessors) *
        blocks_each(state, function, product(launch.block), launch.dynamic_shared_bytes);
    return product(grid) <= resident ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult pack_parameters(const Entry& entry, void** parameters, Launch& launch) {
    launch.parameters.assign(entry.parameter_bytes, '\0');
    if (entry.parameters.empty()) return CUDA_SUCCESS;
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < entry.parameters.size(); ++i) {
        const auto [offset, bytes] = entry.parameters[i];
        if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
        std::memcpy(launch.parameters.data() + offset, parameters[i], bytes);
    }
    return CUDA_SUCCESS;
}

CUresult conclude(DriverState& state, const Launch& launch, Outcome outcome) {
    state.thread_instructions += outcome.thread_instructions;
    // As a GPU's driver does it.
    if (!outcome.output.empty()) {
        std::fwrite(outcome.output.data(), 1, outcome.output.size(), stdout);
    }
    if (outcome.status == Outcome::Status::ok) return CUDA_SUCCESS;
    Report report;
    if (outcome.report) {
        report = std::move(*outcome.report);
    } else {
        report.kind = Report::Kind::endless;
        report.message = "kernel " + launch.entry->name + " did not end in time";
    }
    report.kernel = report.kernel.empty() ? launch.entry->name : report.kernel;
    const bool timed_out = outcome.status != Outcome::Status::fault;
    const CUresult result = timed_out ? CUDA_ERROR_LAUNCH_TIMEOUT : result_of(report.kind);
    return state.keep_fault(result, std::move(report));
}

CUresult run(DriverState& state, const CUlaunchConfig& config, CUfunction handle,
             void** parameters) {
    const auto* function = reinterpret_cast<const DriverFunction*>(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Launch launch;
    launch.module = &function->module->loaded;
    launch.entry = function->entry;
    launch.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
    launch.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
    launch.dynamic_shared_bytes = config.sharedMemBytes;
    CUresult result = read_attributes(config, *function, launch);
    if (result == CUDA_SUCCESS) result = check_launch(state, *function, launch);
    if (result == CUDA_SUCCESS) result = pack_parameters(*function->entry, parameters, launch);
    if (result != CUDA_SUCCESS) return result;
    if (product(launch.grid) > most_emulated_blocks) {
        Report report;
        report.kind = Report::Kind::limit;
        report.kernel = launch.entry->name;
        report.message = "kernel " + launch.entry->name + " cannot be launched: a grid of " +
                         std::to_string(product(launch.grid)) +
                         " blocks, the emulator runs at most " +
                         std::to_string(most_emulated_blocks);
        return state.keep_fault(CUDA_ERROR_LAUNCH_FAILED, std::move(report));
    }
    try {
        const Outcome outcome = state.machine->run(launch, state.deadline);
        const bool at_limit = outcome.report && outcome.report->kind == Report::Kind::limit;
        if (at_limit && state.checker) state.checker->memory_ran_out();
        return conclude(state, launch, outcome);
    } catch (const std::bad_alloc&) {
        return state.keep_no_memory("kernel " + launch.entry->name);
    } catch (const Error& error) {
        Report report;
        report.kind = Report::Kind::limit;
        report.kernel = launch.entry->name;
        report.message = "kernel " + launch.entry->name + ": " + error.what();
        return state.keep_fault(CUDA_ERROR_UNKNOWN, std::move(report));
    }
}

CUresult CUDAAPI launch_with(const CUlaunchConfig* config, CUfunction function, void** parameters,
                             void** extra) {
    return on_device([&](DriverState& state) {
        if (config == nullptr || extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
        return run(state, *config, function, parameters);
    });
}

CUresult CUDAAPI launch_plain(CUfunction function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, CUstream stream, void** parameters,
                              void** extra) {
    CUlaunchConfig config{};
    config.gridDimX = grid_x;
    config.gridDimY = grid_y;
    config.gridDimZ = grid_z;
    config.blockDimX = block_x;
    config.blockDimY = block_y;
    config.blockDimZ = block_z;
    config.sharedMemBytes = shared_bytes;
    config.hStream = stream;
    return launch_with(&config, function, parameters, extra);
}

CUresult CUDAAPI active_blocks(int* blocks, CUfunction handle, int threads,
                               std::size_t dynamic_bytes) {
    return on_device([&](DriverState& state) {
        const auto* function = reinterpret_cast<const DriverFunction*>(handle);
        if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        if (blocks == nullptr || threads <= 0 || threads > h200::threads_per_block) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        const bool fits = dynamic_bytes <= function->most_dynamic_shared_bytes;
        *blocks = fits ? static_cast<int>(blocks_each(
                             state, *function, static_cast<std::uint64_t>(threads), dynamic_bytes))
                       : 0;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI active_clusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
    return on_device([&](DriverState& state) {
        const auto* function = reinterpret_cast<const DriverFunction*>(handle);
        if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
        Launch launch;
        launch.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
        launch.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
        launch.dynamic_shared_bytes = config->sharedMemBytes;
        CUresult result = read_attributes(*config, *function, launch);
        if (result == CUDA_SUCCESS) result = check_launch(state, *function, launch);
        if (result != CUDA_SUCCESS) return result;
        *clusters = static_cast<int>(clusters_at_once(
            blocks_each(state, *function, product(launch.block), launch.dynamic_shared_bytes),
            product(launch.cluster)));
        return CUDA_SUCCESS;
    });
}

}  // namespace

void add_launch_functions(worker::Driver& table) {
    table.cuLaunchKernel = launch_plain;
    table.cuLaunchKernelEx = launch_with;
    table.cuOccupancyMaxActiveBlocksPerMultiprocessor = active_blocks;
    table.cuOccupancyMaxActiveClusters = active_clusters;
}

}  // namespace kernelforge::emulator
