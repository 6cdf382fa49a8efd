// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "emulator/program.hpp"

// What the machine tells those who watch: the checker now, counters later.

namespace kernelforge::emulator {

/// A fault, or what the checker found. `message` is the whole sentence, with names.
struct Report {
    enum class Kind {
        out_of_bounds,
        misaligned,
        read_only_write,
        uninitialised,
        race,
        barrier_divergence,
        trap,
        assertion,
        deadlock,
        endless,
        stack_overflow,
        bad_instruction,
        limit
    };
    struct Party {
        std::array<std::uint32_t, 3> block{}, thread{};
        Place place;
        std::string action;  ///< "writes", "reads", "waits at a barrier", …
    };
    Kind kind = Kind::out_of_bounds;
    std::string kernel;
    Party party;
    std::optional<Party> other;
    std::uint64_t address = 0;
    std::string message;
};
[[nodiscard]] std::string_view to_string(Report::Kind kind) noexcept;

struct LaunchShape {
    std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
    std::uint32_t shared_bytes = 0;  ///< static and dynamic, of a block
    /// Memory of a cooperative grid that its barrier is in; 0 bytes: the launch has none.
    std::uint64_t grid_workspace = 0, grid_workspace_bytes = 0;
};

/// Who: `block` is the linear index in the grid (x fastest), `warp` in the block, `lanes` a mask.
struct Actor {
    std::uint64_t block = 0;
    std::uint32_t warp = 0, lanes = 0;
};

struct Access {
    enum class What : std::uint8_t { read, write, atomic, async_read, async_write };
    Actor actor;
    Space space = Space::global;  ///< global (constant and param are not told), shared, local
    What what = What::read;
    Order order = Order::weak;
    Scope scope = Scope::gpu;
    std::uint32_t bytes = 0;  ///< a lane, all elements of a vector
    /// By lane, valid for `actor.lanes`: global addresses; shared: offset in the block that owns
    /// it; local: offset in the thread's frame memory.
    const std::uint64_t* addresses = nullptr;
    std::uint64_t shared_owner = 0;  ///< block that owns the shared memory (all lanes the same)
    Place place;
};

/// Called by the machine while it executes. Blocks run on several host threads; every call about
/// one block comes from one thread at a time, in the order of execution; calls about different
/// blocks may be concurrent. Memory effects happen between `access` and the next call of the actor.
class Observer {
  public:
    virtual ~Observer() = default;
    virtual void launch_begin(const Entry& entry, const LaunchShape& shape) = 0;
    virtual void launch_end() = 0;
    virtual void block_begin(std::uint64_t block) = 0;
    virtual void block_end(std::uint64_t block) = 0;
    /// Before the effect. A report stops the launch.
    virtual std::optional<Report> access(const Access& access) = 0;
    /// Lanes that meet at a warp-level synchronisation (bar.warp.sync, shuffle, vote, mma, …).
    virtual void warp_sync(const Actor& actor) = 0;
    /// Lanes arrive at barrier `id` of their block and do not wait: what they do from here on is
    /// not ordered by its completion.
    virtual void barrier_arrive(const Actor& actor, int id) {
        static_cast<void>(actor);
        static_cast<void>(id);
    }
    /// Barrier `id` of a block completed: `warps` bit mask of those that took part (arrived, waited
    /// or, where all threads of the block are meant, exited), `waiting` of those that were released
    /// by it.
    virtual void block_barrier(std::uint64_t block, int id, std::uint64_t warps,
                               std::uint64_t waiting) = 0;
    virtual void cluster_barrier(std::span<const std::uint64_t> blocks) = 0;
    virtual void fence(const Actor& actor, Order order, Scope scope) = 0;
    /// An mbarrier in shared memory of `owner` at `offset`: the actor arrives (releases), or has
    /// seen a phase end (acquires).
    virtual void mbarrier_arrive(const Actor& actor, std::uint64_t owner, std::uint64_t offset) = 0;
    virtual void mbarrier_acquire(const Actor& actor, std::uint64_t owner,
                                  std::uint64_t offset) = 0;
    /// cp.async of the actor's lanes up to a group are complete and visible to those lanes.
    virtual void async_done(const Actor& actor) = 0;
    /// The lanes close a group of their copies (cp.async.commit_group, cp.async.bulk.commit_group).
    virtual void async_commit(const Actor& actor) { static_cast<void>(actor); }
    /// In place of `async_done` where the `left` newest groups of the lanes may still be under way
    /// (wait_group `left`; 0: those that are closed, not what no group holds yet).
    virtual void async_done_but(const Actor& actor, std::uint32_t left) {
        static_cast<void>(left);
        async_done(actor);
    }
    /// A bulk copy's bytes become visible to who acquires that mbarrier.
    virtual void async_done_at(const Actor& actor, std::uint64_t owner, std::uint64_t offset) = 0;
};

}  // namespace kernelforge::emulator
