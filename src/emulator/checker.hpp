// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/memory.hpp"
#include "emulator/observer.hpp"

namespace kernelforge::emulator {

/// What a plan may touch: exactly a tensor's, workspace's or module variable's bytes.
struct View {
    std::uint64_t address = 0, bytes = 0;
    std::string name;  ///< "x", "workspace sem", "variable counter"
    bool writable = true;
    bool initialised =
        true;  ///< else bytes count as unwritten until a kernel or memset writes them
};

/// Finds what hardware hides: accesses outside the views, misaligned ones, reads of what nothing
/// wrote, races inside a block and between blocks, writes to read-only views. Shadow memory is at
/// most 4 bytes for a byte of a view, and of shared memory, and is kept for the runs that follow.
/// Correct synchronisation (barriers, mbarriers, warp synchronisation, fences with atomics or
/// volatile accesses, acquire/release) is silent; where a partial warp synchronisation cannot be
/// told exactly, it errs to silence. [any]
class Checker final : public Observer {
  public:
    /// `memory` must outlive it.
    explicit Checker(const AddressSpace& memory);
    ~Checker() override;

    /// Begins a plan's run: its launches follow one another on one stream, so a launch sees all
    /// that earlier ones wrote. Forgets everything of the run before.
    void begin(std::vector<View> views);
    /// A memset or copy of the plan wrote these bytes.
    void written(std::uint64_t address, std::uint64_t bytes);
    void end();
    /// Until the next `begin`, memory that is no longer needed goes back to the host at once, and
    /// with it what was kept for reuse.
    void memory_ran_out() noexcept;

    void launch_begin(const Entry& entry, const LaunchShape& shape) override;
    void launch_end() override;
    void block_begin(std::uint64_t block) override;
    void block_end(std::uint64_t block) override;
    std::optional<Report> access(const Access& access) override;
    void warp_sync(const Actor& actor) override;
    void barrier_arrive(const Actor& actor, int id) override;
    void block_barrier(std::uint64_t block, int id, std::uint64_t warps,
                       std::uint64_t waiting) override;
    void cluster_barrier(std::span<const std::uint64_t> blocks) override;
    void fence(const Actor& actor, Order order, Scope scope) override;
    void mbarrier_arrive(const Actor& actor, std::uint64_t owner, std::uint64_t offset) override;
    void mbarrier_acquire(const Actor& actor, std::uint64_t owner, std::uint64_t offset) override;
    void async_done(const Actor& actor) override;
    void async_commit(const Actor& actor) override;
    void async_done_but(const Actor& actor, std::uint32_t left) override;
    void async_done_at(const Actor& actor, std::uint64_t owner, std::uint64_t offset) override;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kernelforge::emulator
