// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine_state.hpp"

namespace kernelforge::emulator {
struct TensorMap;
struct TilePiece;
}  // namespace kernelforge::emulator

namespace kernelforge::emulator::running {

/// What the stepping of a group does after an instruction.
enum class Next : std::uint8_t {
    advance,     ///< the group goes on behind the instruction
    reschedule,  ///< the groups have changed, their program counters are set
    yield        ///< as `advance`, and other warps have their turn
};

/// How a turn of a warp ended.
enum class Turn : std::uint8_t { finished, blocked, spinning, quantum };

/// Lanes of one group that take part in an instruction of the warp; several where lanes meet at
/// different places.
struct Party {
    Group* group = nullptr;
    const DecodedInstruction* instruction = nullptr;
    Rows rows;
    const RowRef* operands = nullptr;
    std::uint32_t lanes = 0;
};

/// What an instruction does to memory, of each lane.
struct Request {
    Space space = Space::generic;
    Access::What what = Access::What::read;
    bool writes = false;
    std::uint32_t bytes = 0;
    std::uint32_t alignment = 1;
    Order order = Order::weak;
    Scope scope = Scope::gpu;
    bool observed = true;  ///< observers are told
};

using LaneWords = std::array<std::uint64_t, warp_lanes>;

/// One host thread of a launch: opens blocks, runs their warps in turns. Its memory is reused from
/// block to block, and from launch to launch.
class Runner {
  public:
    /// Runs until no blocks are left or the launch stops. `cancelled`: asked now and then; null:
    /// nobody asks. What goes wrong is the launch's report.
    void run(LaunchState& launch, const std::function<bool()>* cancelled);

  private:
    // Scheduling (machine_schedule.cpp).
    void run_units();
    [[nodiscard]] bool open_next();
    void start_block(BlockState& block);
    void close(std::size_t position);
    [[nodiscard]] bool pass(Unit& unit);
    void wait_for_others();
    /// Looks at warps that do nothing but wait.
    struct Watch {
        std::uint64_t progress = 0;  ///< of the launch, when it began
        std::chrono::steady_clock::time_point since{};
        std::optional<std::uint64_t> remembered{};  ///< state of all open warps, hashed
        std::uint64_t looks = 0, horizon = 1;       ///< since it was remembered, and until the next
        bool settled = false;
    };
    [[nodiscard]] bool recurs(Watch& watch);
    void poll_time();
    void stop_with(Report report);
    void leave_whereabouts();
    [[noreturn]] void report_blocked(Unit& unit);

    // Warps and their groups (machine_warp.cpp, machine_groups.cpp).
    Turn run_warp(Warp& warp);
    Turn take_turn(Warp& warp, std::uint64_t limit);
    bool run_group(Warp& warp, std::size_t position, std::uint64_t limit);
    Next execute(Warp& warp, Group& group, const DecodedInstruction& instruction,
                 std::uint32_t mask);
    [[nodiscard]] std::size_t choose(Warp& warp);
    [[nodiscard]] static std::uint32_t next_meeting(const Warp& warp, std::size_t position);
    void start_warp(Warp& warp);
    void finish_warp(Warp& warp);
    Next split(Warp& warp, Group& group, std::uint32_t lanes, std::uint32_t pc, Wait wait,
               std::uint32_t named);
    Next branch_table(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    Next call(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    Next ret(Warp& warp, Group& group, std::uint32_t mask);
    Next exit(Warp& warp, Group& group, std::uint32_t mask);
    Frame* take_frame(std::uint32_t function);
    void leave_frame(Warp& warp, Frame* frame, std::uint32_t lanes);
    void grow_local(Warp& warp, std::uint32_t bytes);
    Next wait_for_lanes(Warp& warp, Group& group, std::uint32_t mask, std::uint32_t named);
    [[noreturn]] void report_parted(Warp& warp);

    // Special registers (machine_special.cpp).
    void write_specials(Warp& warp);
    [[nodiscard]] std::uint64_t special(const Warp& warp, SpecialRegister which, int lane) const;
    void read_special(Warp& warp, const Rows& rows, const DecodedInstruction& in,
                      std::uint32_t mask);
    void query(Warp& warp, const Group& group, const DecodedInstruction& in, std::uint32_t mask);

    // Memory (machine_memory.cpp, machine_address.cpp).
    Next memory(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    Next parameter(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask,
                   const MemoryOp& op);
    void atomic(const Rows& rows, const DecodedInstruction& in, const MemoryOp& op,
                std::uint32_t mask, const LaneWords& host, bool in_shared);
    /// Addresses of an operand: a row, or a symbol.
    void addresses(const Group& group, const Rows& rows, RowRef row, Row shape, std::int32_t symbol,
                   std::int64_t offset, LaneWords& out) const;
    [[nodiscard]] std::uint64_t symbol_address(const Group& group, std::int32_t symbol) const;
    /// Checks the accesses of the lanes, tells the observer, and gives host addresses.
    /// @returns whether all of them are in shared memory
    bool resolve(Warp& warp, const Request& request, const LaneWords& addresses, std::uint32_t mask,
                 const Place& place, LaneWords& host);
    bool resolve_each(Warp& warp, const Request& request, const LaneWords& addresses,
                      std::uint32_t mask, const Place& place, LaneWords& host);
    [[noreturn]] void bad_access(const Warp& warp, const Request& request, Report::Kind kind,
                                 std::uint64_t address, int lane, const Place& place,
                                 const std::string& why);
    void tell(const Warp& warp, const Request& request, Space space, const std::uint64_t* addresses,
              std::uint64_t owner, std::uint32_t lanes, const Place& place);
    Next poll(Warp& warp, Group& group, std::uint64_t outcome);
    [[nodiscard]] const Span* span_of(std::uint64_t address);
    /// Host memory of a range of any space for one lane; whole range in one mapping or block.
    std::byte* range(Warp& warp, const Request& request, std::uint64_t address, std::uint64_t bytes,
                     int lane, const Place& place, std::uint64_t* shared_owner);

    // Synchronisation (machine_sync.cpp, machine_barrier.cpp).
    Next sync(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    Next warp_level(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
                    std::uint32_t mask, RowRef named_row);
    bool meet(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
              std::uint32_t lanes, std::uint32_t named);
    void exchange(Warp& warp, const SyncOp& op, std::span<const Party> parties,
                  std::uint32_t lanes);
    Next block_barrier(Warp& warp, Group& group, const DecodedInstruction& in, const SyncOp& op,
                       std::uint32_t mask);
    void arrive(Warp& warp, int id, std::uint32_t lanes, std::uint32_t expected,
                const Place& place);
    [[nodiscard]] bool complete_if_full(BlockState& block, int id);
    void release(BlockState& block, int id);
    Next cluster_barrier(Warp& warp, Group& group, const SyncOp& op, std::uint32_t mask);
    bool complete_cluster(Unit& unit);
    void fence(const Warp& warp, const SyncOp& op, std::uint32_t mask);

    // mbarriers and copies (machine_async.cpp, machine_bulk.cpp).
    struct BarrierPlace {
        std::byte* memory = nullptr;
        std::uint64_t owner = 0, offset = 0;  ///< block of the grid; bytes in its shared memory
    };
    Next async(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    [[nodiscard]] LaneWords async_operand(const Warp& warp, const Group& group,
                                          const DecodedInstruction& in, int operand) const;
    [[nodiscard]] static Space shared_space(std::uint64_t address);
    BarrierPlace barrier_at(Warp& warp, std::uint64_t address, int lane, const Place& place);
    [[noreturn]] void bad_barrier(const Warp& warp, int lane, const Place& place,
                                  const BarrierPlace& barrier, const char* error) const;
    void groups_done(const Warp& warp, std::uint32_t mask, int left);
    void barrier_update(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    Next barrier_wait(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    void copy(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    void bulk(Warp& warp, Group& group, const DecodedInstruction& in, int lane);
    void tensor(Warp& warp, Group& group, const DecodedInstruction& in, int lane);
    void move_piece(Warp& warp, const AsyncOp& op, const TensorMap& map, const TilePiece& piece,
                    std::uint64_t shared, int lane, const Place& place);
    std::byte* bulk_end(Warp& warp, Space space, std::uint64_t address, std::uint64_t bytes,
                        Access::What what, int lane, const Place& place);
    void complete_bytes(Warp& warp, std::uint64_t barrier_address, std::uint32_t bytes, int lane,
                        const Place& place);
    [[nodiscard]] std::vector<std::optional<std::uint64_t>> receivers(const AsyncOp& op,
                                                                      const Warp& warp,
                                                                      std::uint64_t mask, int lane,
                                                                      const Place& place) const;

    // Matrices (machine_matrix.cpp).
    Next matrix(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    void matrix_rows(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op);
    Next warp_group(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op);
    void multiply(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op);
    void fragment(Warp& warp, Group& group, const DecodedInstruction& in, const MatrixOp& op);

    // System calls (machine_print.cpp).
    Next system_call(Warp& warp, Group& group, const DecodedInstruction& in, std::uint32_t mask);
    void print(Warp& warp, const Rows& rows, const DecodedInstruction& in, std::uint32_t mask);
    struct Printed {
        std::string text;
        std::uint32_t arguments = 0;
    };
    [[nodiscard]] Printed printed(Warp& warp, const std::string& format, std::uint64_t arguments,
                                  int lane, const Place& place);
    [[noreturn]] void assertion(Warp& warp, const Rows& rows, const DecodedInstruction& in,
                                std::uint32_t mask);
    [[nodiscard]] std::string text_at(Warp& warp, std::uint64_t address, std::size_t most, int lane,
                                      const Place& place);

    // Reports (machine_report.cpp).
    [[nodiscard]] Report report(Report::Kind kind, const Warp& warp, int lane, const Place& place,
                                const std::string& what) const;
    [[nodiscard]] std::string where(const Warp& warp) const;
    [[nodiscard]] std::string where(const Group& group) const;
    [[nodiscard]] std::string line(const Place& place) const;
    [[nodiscard]] std::array<std::uint32_t, 3> thread_of(const Warp& warp, int lane) const;

    [[nodiscard]] Rows rows_of(const Warp& warp, const Group& group) const noexcept {
        return {group.frame->rows.data(), warp.fixed->data()};
    }
    [[nodiscard]] Actor actor(const Warp& warp, std::uint32_t lanes) const noexcept {
        return {warp.block->index, warp.index, lanes};
    }

    LaunchState* launch_ = nullptr;
    const Code* code_ = nullptr;
    Observer* observer_ = nullptr;
    const Span* span_ = nullptr;  ///< last one used
    std::vector<std::unique_ptr<Unit>> open_, spare_units_;
    std::size_t current_ = 0;
    std::vector<std::unique_ptr<Frame>> frames_;         ///< all that were made
    std::vector<std::vector<Frame*>> free_frames_;       ///< by function
    std::vector<std::unique_ptr<RowBytes>> fixed_rows_;  ///< all that were made
    std::vector<RowBytes*> free_fixed_rows_;
    std::uint64_t progress_ = 0;  ///< anything that spinning does not do
    std::uint64_t warp_instructions_ = 0, thread_instructions_ = 0, next_poll_ = 0;
    std::optional<Watch> watch_;             ///< while all that is open waits
    bool reads_time_ = false;                ///< since `watch_` remembered a state
    std::shared_ptr<const Code> held_code_;  ///< whose frames are kept
    std::uint64_t work_ = 0;                 ///< about the time spent, in instructions
    const std::function<bool()>* cancelled_ = nullptr;
    std::chrono::steady_clock::time_point next_question_{};
};

/// "(3,0,0)".
[[nodiscard]] std::string text_of(const std::array<std::uint32_t, 3>& coordinate);

/// A matrix instruction takes about as long as this many others.
inline constexpr std::uint64_t matrix_weight = 32;

/// Generic window of an entry's parameters, whose address `cvta.param` takes.
inline constexpr std::uint64_t parameter_window = 0x7c00'0000'0000;

enum class Window : std::uint8_t { none, shared, local, parameter };
[[nodiscard]] inline Window window_of(std::uint64_t address) noexcept {
    if (address - AddressSpace::shared_window < AddressSpace::shared_window_bytes) {
        return Window::shared;
    }
    if (address - AddressSpace::local_window < AddressSpace::local_window_bytes) {
        return Window::local;
    }
    if (address - parameter_window < AddressSpace::local_window_bytes) return Window::parameter;
    return Window::none;
}

inline constexpr std::uint64_t shared_offset_mask = 0xff'ffff;
/// The rank that a shared address names, or the executing block's.
[[nodiscard]] inline std::uint64_t rank_in(std::uint64_t shared_address,
                                           std::uint64_t own_rank) noexcept {
    const std::uint64_t named = shared_address >> 24 & 0xffU;
    return named == 0 ? own_rank : named - 1;
}

}  // namespace kernelforge::emulator::running
