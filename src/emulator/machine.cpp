// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <stop_token>
#include <thread>

#include "emulator/machine_runner.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge::emulator {

using running::LaunchState;
using running::Runner;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t most_threads = 1024, most_threads_z = 64;
constexpr std::uint32_t most_grid_x = 0x7fff'ffff, most_grid_yz = 65535;
constexpr std::uint32_t most_cluster_blocks = 16;  // of an H100 or H200, not portable
/// Its size and its barrier, a word each (cooperative_groups/details/driver_abi.h of CUDA 13.0).
constexpr std::uint64_t grid_workspace_bytes = 8;

std::uint64_t product(const std::array<std::uint32_t, 3>& extent) {
    return std::uint64_t{extent[0]} * extent[1] * extent[2];
}

std::uint64_t rounded_up(std::uint64_t value, std::uint64_t unit) {
    return unit < 2 ? value : (value + unit - 1) / unit * unit;
}

/// Why the launch is refused; nothing: it may run.
std::optional<std::string> refusal(const Launch& launch, const MachineLimits& limits,
                                   const LaunchState& state) {
    const std::array<std::uint32_t, 3>&grid = launch.grid, &block = launch.block;
    const std::uint64_t threads = product(block);
    if (threads == 0 || threads > most_threads || block[2] > most_threads_z) {
        return "a block of " + running::text_of(block) + " threads, at most 1024";
    }
    if (product(grid) == 0 || grid[0] > most_grid_x || grid[1] > most_grid_yz ||
        grid[2] > most_grid_yz) {
        return "a grid of " + running::text_of(grid) + " blocks";
    }
    const std::uint64_t cluster = product(launch.cluster);
    if (cluster == 0 || cluster > most_cluster_blocks) {
        return "clusters of " + running::text_of(launch.cluster) + " blocks, at most 16";
    }
    for (std::size_t i = 0; i < 3; ++i) {
        if (grid[i] % launch.cluster[i] != 0) {
            return "a grid of " + running::text_of(grid) +
                   " blocks, not a multiple of clusters of " + running::text_of(launch.cluster);
        }
    }
    if (state.shared_bytes > limits.max_shared_bytes_per_block) {
        return std::to_string(state.shared_bytes) + " bytes of shared memory a block, at most " +
               std::to_string(limits.max_shared_bytes_per_block);
    }
    if (launch.parameters.size() < launch.entry->parameter_bytes) {
        return std::to_string(launch.parameters.size()) + " bytes of parameters, expected " +
               std::to_string(launch.entry->parameter_bytes);
    }
    const std::array<int, 3>& required = launch.entry->required_threads;
    for (std::size_t i = 0; required[0] > 0 && i < 3; ++i) {
        if (block[i] != static_cast<std::uint32_t>(std::max(required[i], 1))) {
            return "a block of " + running::text_of(block) + " threads, the kernel demands others";
        }
    }
    const std::array<int, 3>& most = launch.entry->max_threads;
    if (most[0] > 0 && threads > static_cast<std::uint64_t>(most[0]) *
                                     static_cast<std::uint64_t>(std::max(most[1], 1)) *
                                     static_cast<std::uint64_t>(std::max(most[2], 1))) {
        return "a block of " + running::text_of(block) + " threads, more than the launch bounds";
    }
    return std::nullopt;
}

void prepare(LaunchState& state) {
    const Launch& launch = *state.launch;
    state.entry = launch.entry;
    state.code = launch.module->code.get();
    state.threads = static_cast<std::uint32_t>(product(launch.block));
    state.warps = (state.threads + warp_lanes - 1) / warp_lanes;
    state.cluster_blocks = static_cast<std::uint32_t>(product(launch.cluster));
    state.dynamic_offset = static_cast<std::uint32_t>(
        rounded_up(launch.entry->static_shared_bytes, launch.entry->dynamic_shared_alignment));
    state.shared_bytes = launch.dynamic_shared_bytes == 0
                             ? static_cast<std::uint32_t>(launch.entry->static_shared_bytes)
                             : state.dynamic_offset + launch.dynamic_shared_bytes;
}

void prepare_atomics(LaunchState& state) {
    state.combine.reserve(state.code->memory.size());
    for (const MemoryOp& op : state.code->memory) {
        std::array<CombineFn, 2> functions{};
        if (op.combine != MemoryOp::Combine::none) {
            functions = {find_combine(op.combine, op.type, Subnormals::flush),
                         find_combine(op.combine, op.type, Subnormals::keep)};
        }
        state.combine.push_back(functions);
    }
}

}  // namespace

/// Host threads, and the memory that they keep from launch to launch.
struct Machine::State {
    State(AddressSpace& space, MachineLimits device, int threads) : memory(space), limits(device) {
        for (int i = 0; i < std::max(threads, 1); ++i)
            runners.push_back(std::make_unique<Runner>());
        // The calling thread is the first.
        for (std::size_t i = 1; i < runners.size(); ++i) {
            workers.emplace_back([this, i](const std::stop_token& stop) { work(stop, i); });
        }
    }

    void work(const std::stop_token& stop, std::size_t number) {
        std::uint64_t done = 0;
        std::unique_lock lock(mutex);
        while (wake.wait(lock, stop, [&] { return launches != done; })) {
            done = launches;
            if (number >= taking_part) continue;
            LaunchState* const now = launch;
            lock.unlock();
            runners[number]->run(*now, nullptr);
            lock.lock();
            if (--unfinished == 0) finished.notify_all();
        }
    }

    void run(LaunchState& state, const std::function<bool()>& cancelled) {
        const auto count = static_cast<std::size_t>(
            std::min<std::uint64_t>(runners.size(), std::max<std::uint64_t>(state.units, 1)));
        state.runners = static_cast<int>(count);
        {
            const std::lock_guard lock(mutex);
            launch = &state;
            taking_part = count;
            unfinished = count - 1;
            ++launches;
        }
        if (count > 1) wake.notify_all();
        runners[0]->run(state, cancelled ? &cancelled : nullptr);
        std::unique_lock lock(mutex);
        constexpr std::chrono::milliseconds look{20};
        while (!finished.wait_for(lock, look, [&] { return unfinished == 0; })) {
            if (cancelled && cancelled()) {
                int expected = LaunchState::running;
                state.stop.compare_exchange_strong(expected, LaunchState::cancelled);
            }
        }
    }

    ~State() {
        if (grid_workspace == 0) return;
        memory.unmap(grid_workspace, grid_workspace_bytes);
        memory.release(grid_workspace);
    }

    /// The memory behind the barrier of a cooperative grid, as its launch finds it.
    std::uint64_t fresh_grid_workspace() {
        if (grid_workspace == 0) {
            grid_workspace = memory.reserve(grid_workspace_bytes);
            if (grid_workspace == 0) throw Error(ErrorCode::io, "device memory: no address left");
            memory.map(grid_workspace, grid_workspace_bytes,
                       std::make_shared<Block>(grid_workspace_bytes), 0, true);
        }
        std::memset(memory.host(grid_workspace, grid_workspace_bytes), 0, grid_workspace_bytes);
        return grid_workspace;
    }

    AddressSpace& memory;
    MachineLimits limits;
    Observer* observer = nullptr;
    std::uint64_t grid_workspace = 0;  // of all cooperative launches, one after the other
    std::uint64_t launches_made = 0;
    std::vector<std::unique_ptr<Runner>> runners;
    std::mutex mutex;
    std::condition_variable_any wake, finished;
    LaunchState* launch = nullptr;                // guarded by mutex
    std::size_t taking_part = 0, unfinished = 0;  // guarded by mutex
    std::uint64_t launches = 0;                   // guarded by mutex
    std::vector<std::jthread> workers;            // last: they use all of the above
};

Machine::Machine(AddressSpace& memory, MachineLimits limits, int threads)
    : state_(std::make_unique<State>(memory, limits, threads)) {}

Machine::~Machine() = default;

void Machine::set_observer(Observer* observer) noexcept {
    state_->observer = observer;
}

Outcome Machine::run(const Launch& launch, Clock::time_point deadline,
                     const std::function<bool()>& cancelled) {
    LaunchState state;
    state.launch = &launch;
    state.memory = &state_->memory;
    state.limits = &state_->limits;
    state.observer = state_->observer;
    state.deadline = deadline;
    state.grid_number = ++state_->launches_made;
    prepare(state);
    Outcome outcome;
    const auto refuse = [&](const std::string& why) {
        Report report;
        report.kind = Report::Kind::limit;
        report.kernel = launch.entry->name;
        report.message = "kernel " + report.kernel + " cannot be launched: " + why;
        outcome.status = Outcome::Status::fault;
        outcome.report = std::move(report);
        return outcome;
    };
    if (const auto why = refusal(launch, state_->limits, state)) return refuse(*why);
    const std::uint64_t resident =
        std::uint64_t{resident_blocks(state_->limits, state.threads, state.shared_bytes)} *
        state_->limits.multiprocessors;
    const std::uint64_t blocks = product(launch.grid);
    if (launch.cooperative && blocks > resident) {
        return refuse("a cooperative grid of " + std::to_string(blocks) + " blocks, at most " +
                      std::to_string(resident) + " are resident");
    }
    state.units = blocks / state.cluster_blocks;
    state.most_open = std::max<std::uint64_t>(
        1, resident / state.cluster_blocks / std::max<std::size_t>(state_->runners.size(), 1));
    if (launch.cooperative) {
        state.most_open = state.units;
        state.grid_workspace = state_->fresh_grid_workspace();
    }
    prepare_atomics(state);
    if (state.observer != nullptr) {
        state.observer->launch_begin(
            *launch.entry, {launch.grid, launch.block, launch.cluster, state.shared_bytes,
                            state.grid_workspace, launch.cooperative ? grid_workspace_bytes : 0});
    }
    state_->run(state, cancelled);
    if (state.observer != nullptr) state.observer->launch_end();

    outcome.output = std::move(state.output);
    outcome.warp_instructions = state.warp_instructions;
    outcome.thread_instructions = state.thread_instructions;
    outcome.report = std::move(state.report);
    switch (state.stop.load()) {
        case LaunchState::fault:
            outcome.status = Outcome::Status::fault;
            break;
        case LaunchState::cancelled:
            outcome.status = Outcome::Status::cancelled;
            break;
        case LaunchState::out_of_time: {
            outcome.status = Outcome::Status::out_of_time;
            Report report;
            report.kind = Report::Kind::endless;
            report.kernel = launch.entry->name;
            report.party = state.unfinished;
            report.message = "kernel " + report.kernel + " did not end in time";
            for (std::size_t i = 0; i < std::min<std::size_t>(state.whereabouts.size(), 10); ++i) {
                report.message += (i == 0 ? ": " : "; ") + state.whereabouts[i];
            }
            outcome.report = std::move(report);
            break;
        }
        default:
            break;
    }
    return outcome;
}

std::uint32_t resident_blocks(const MachineLimits& limits, std::uint32_t threads,
                              std::uint32_t shared_bytes) noexcept {
    const std::uint32_t warps = std::max<std::uint32_t>(1, (threads + warp_lanes - 1) / warp_lanes);
    const std::uint32_t by_threads =
        limits.threads_per_multiprocessor / static_cast<std::uint32_t>(warp_lanes) / warps;
    // Shared memory is given in units of 128 bytes (CUDA occupancy calculator, capability 9.0).
    constexpr std::uint32_t unit = 128;
    const std::uint32_t bytes =
        (shared_bytes + limits.reserved_shared_bytes + unit - 1) / unit * unit;
    const std::uint32_t by_shared =
        bytes == 0 ? by_threads : limits.shared_bytes_per_multiprocessor / bytes;
    return std::min({limits.blocks_per_multiprocessor, by_threads, by_shared});
}

}  // namespace kernelforge::emulator
