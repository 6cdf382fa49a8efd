// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "emulator/async_combine.hpp"
#include "emulator/machine.hpp"

// What a launch consists of while it runs: units of blocks, warps, groups of lanes, frames.

namespace kernelforge::emulator::running {

/// Thrown where a launch goes wrong; ends it.
struct Fault {
    Report report;
};

/// Memory for rows: aligned to 128 bytes, zero when it is made.
class RowBytes {
  public:
    static constexpr std::align_val_t alignment{128};
    explicit RowBytes(std::size_t bytes)
        : data_(new (alignment) std::byte[bytes == 0 ? 1 : bytes]()), bytes_(bytes) {}
    [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    struct Free {
        void operator()(std::byte* data) const noexcept { ::operator delete[](data, alignment); }
    };
    std::unique_ptr<std::byte[], Free> data_;
    std::size_t bytes_;
};

/// A function that lanes of a warp execute. Lanes that called it from one place in one frame share
/// it; others have frames of their own.
struct Frame {
    Frame(std::uint32_t function_index, std::size_t row_bytes, std::size_t parameter_bytes)
        : function(function_index), rows(row_bytes), parameters(parameter_bytes) {}
    std::uint32_t function;
    RowBytes rows;
    RowBytes parameters;  ///< of each lane after the other, `CodeFunction::parameter_bytes`
    Frame* parent = nullptr;
    std::uint32_t return_pc = 0, call = 0;  ///< `call`: index in `Code::calls`
    std::uint32_t depth = 0;
    std::uint32_t lanes = 0;        ///< that are in it, or in one that it called
    std::uint32_t local_base = 0;   ///< where its local variables start, in a thread's memory
    std::uint32_t stack_bytes = 0;  ///< of the recursion that led here
};

/// What a group of lanes waits for.
enum class Wait : std::uint8_t {
    none,
    lanes,          ///< other lanes of the warp, at an instruction that has not been executed
    block_barrier,  ///< at which it has arrived
    cluster_barrier,
    warp_group  ///< the other warps of its warp group, at a wgmma
};

/// Lanes of a warp that are at one instruction of one frame.
struct Group {
    std::uint32_t pc = 0, mask = 0;
    Frame* frame = nullptr;
    Wait wait = Wait::none;
    bool deferred = false;  ///< gave way to other groups because it seemed to spin
    std::uint8_t barrier = 0;
    std::uint32_t named = 0;  ///< lanes that the instruction at which it waits names
    std::uint32_t spin = 0;   ///< instructions and polls since others had their turn
};

struct BlockState;

/// A non-weak load or an atomic operation, and what came of it: the same again means spinning.
struct Poll {
    std::uint32_t pc = UINT32_MAX;
    std::uint64_t outcome = 0;
};

struct Warp {
    BlockState* block = nullptr;
    std::uint32_t index = 0;  ///< in the block
    std::uint32_t live = 0;   ///< lanes that have not exited
    std::uint32_t all = 0;    ///< lanes that there are
    bool started = false;
    bool idle = false;  ///< its last turn changed nothing that others see
    std::vector<Group> groups;
    std::vector<Frame*> frames;
    RowBytes* fixed = nullptr;
    std::vector<std::byte> local;  ///< of each lane after the other, `local_bytes`
    std::uint32_t local_bytes = 0;
    std::uint32_t cluster_arrived = 0;  ///< lanes that arrived at the running phase
    std::uint64_t executed = 0;         ///< instructions
    std::array<Poll, 16> polls{};
    std::uint32_t next_poll_entry = 0;
    std::uint32_t repeated_polls = 0;  ///< since its turn began
};

/// One of the 16 barriers of a block.
struct Barrier {
    bool active = false;
    std::uint32_t expected = 0;  ///< threads; 0: all that have not exited
    std::uint32_t counted = 0;   ///< threads that arrived, for an explicit number
    std::array<std::uint32_t, 32> arrived{};
    std::uint32_t waiting_warps = 0;
    Place place;
    // barrier.red
    std::uint32_t population = 0, contributors = 0;
};

struct Unit;

struct BlockState {
    Unit* unit = nullptr;
    std::uint64_t index = 0;  ///< linear in the grid
    std::array<std::uint32_t, 3> coordinate{};
    std::uint32_t rank = 0;  ///< in the cluster
    std::vector<Warp> warps;
    std::unique_ptr<RowBytes> shared;
    std::array<Barrier, 16> barriers{};
    std::uint32_t active_barriers = 0;  ///< bit mask
};

/// Blocks that are opened together: a cluster, or one block.
struct Unit {
    std::vector<std::unique_ptr<BlockState>> blocks;
    std::uint64_t index = 0;
    bool cluster_arrival = false;  ///< someone has arrived at the cluster's barrier
    std::uint32_t idle_passes = 0;
    bool only_waits = false;  ///< the last pass: nothing but waiting and polling
};

/// What the host threads of a launch share.
struct LaunchState {
    const Launch* launch = nullptr;
    const Code* code = nullptr;
    const Entry* entry = nullptr;
    AddressSpace* memory = nullptr;
    const MachineLimits* limits = nullptr;
    Observer* observer = nullptr;
    std::chrono::steady_clock::time_point deadline;
    std::uint32_t threads = 0;  ///< of a block
    std::uint32_t warps = 0;    ///< of a block
    std::uint32_t cluster_blocks = 1;
    std::uint32_t shared_bytes = 0;  ///< static and dynamic
    std::uint32_t dynamic_offset = 0;
    std::uint64_t units = 0;
    std::uint64_t most_open = 1;  ///< units a host thread
    std::uint64_t grid_number = 0;
    std::uint64_t grid_workspace = 0;  ///< address; 0: the launch is not cooperative
    /// By `Code::memory`; for global memory, then for shared memory.
    std::vector<std::array<CombineFn, 2>> combine;

    std::atomic<std::uint64_t> next_unit{0};
    std::atomic<std::uint64_t> progress{0};  ///< counts what may end the waiting of others
    enum Stop : int { running, fault, out_of_time, cancelled };
    std::atomic<int> stop{running};

    std::mutex mutex;
    int runners = 0;  // host threads that have not finished; guarded by mutex
    /// Host threads all of whose warps repeat themselves since they saw that much progress: when
    /// all do, none will ever make more. Guarded by mutex.
    int settled = 0;
    std::uint64_t settled_at = 0;
    std::optional<Report> report;                                  // guarded by mutex
    std::vector<std::string> whereabouts;                          // guarded by mutex
    Report::Party unfinished;                                      // guarded by mutex
    std::string output;                                            // guarded by mutex
    std::uint64_t warp_instructions = 0, thread_instructions = 0;  // guarded by mutex
};

/// Lanes of a mask, lowest first.
template <class Do>
inline void each_lane(std::uint32_t mask, const Do& act) {
    for (; mask != 0; mask &= mask - 1) act(std::countr_zero(mask));
}

}  // namespace kernelforge::emulator::running
