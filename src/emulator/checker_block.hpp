// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "emulator/checker_clock.hpp"
#include "emulator/checker_shadow.hpp"
#include "emulator/observer.hpp"

// What each warp of a running block has done and knows.

namespace kernelforge::emulator::checking {

/// A strong read whose effect comes after the call that tells of it: what it obtains is looked up
/// at the warp's next call, when all that it can have seen has been published.
struct Obtained {
    Page* page = nullptr;
    std::uint16_t word = 0;
    bool acquires = false;  ///< else a fence must follow
    bool in_block = false;  ///< at the scope of the block
};

/// A copy under way.
struct Copy {
    Events* events = nullptr;
    std::uint32_t event = 0;
    std::uint32_t lanes = 0;
    std::uint32_t group = 0;  ///< groups that the lanes had closed before
};

/// The event of an instruction since the warp's last synchronisation.
struct KnownEvent {
    std::uint64_t instruction = 0;
    Events* events = nullptr;
    Time time = 0;
    Strength strength = Strength::plain;
    std::uint32_t event = 0;
};

/// How an earlier event stands to access `access` of its block.
struct Standing {
    std::uint64_t access = 0;
    std::uint32_t event = 0;
    bool ordered = false;
    bool same_epoch = false;  ///< same warp, no synchronisation between: the lane decides
    bool compatible = false;  ///< both strong: never a race
};

/// What a warp knew, and had fenced, when it arrived at a barrier that has not completed.
struct Arrival {
    Clock known, released, released_in_block;
};

struct Warp {
    Time time = 1;
    bool used = false;                ///< has an event at `time`
    std::array<Time, members> own{};  ///< known of the members of its block, itself left out
    Clock foreign;                    ///< known of other blocks
    /// Events of the block's own shared memory with a smaller number are all known.
    std::uint32_t known_before = 0;
    /// What strong writes publish: the clock of the last fence, or those that a barrier handed on.
    Clock released, released_in_block;
    /// What strong reads saw, until a fence or barrier makes it known: what strong writes of the
    /// block have published to the block, and what any have to all.
    Clock seen_in_block, seen;
    /// Lanes come one by one to an mbarrier: what was acquired last, and what a release would give
    /// while nothing has been done or learnt since.
    Clock acquired, unchanged;
    std::vector<Obtained> obtained;
    std::vector<Copy> copies;
    std::array<std::uint32_t, 32> groups{};  ///< closed, by lane
    std::array<KnownEvent, 8> known_events{};

    /// All events up to here have happened.
    [[nodiscard]] Time done() const noexcept { return used ? time : time - 1; }
};

/// A running block. Calls about one block come from one thread at a time; others touch only its
/// shared memory's shadow and events.
///
/// A fence of the block's scope obtains what its own block has published, one of a wider scope all.
/// Two choices err to silence. What other blocks publish of a block's own doings, its narrow fences
/// obtain too. Barriers make what strong reads saw known, as a wide fence would: customary "last
/// block" code has a barrier there and no fence.
class RunningBlock {
  public:
    RunningBlock(PagePool& pool, std::uint64_t index, unsigned warps, std::uint64_t shared_bytes);

    std::uint64_t index;
    std::vector<Warp> warps;
    Shadow shared;
    Events events;  ///< of its shared memory, where no other block can reach that
    std::array<std::pair<std::uint64_t, std::uint16_t>, 256> places{};  ///< instruction and index
    std::size_t last_view = 0;
    std::uint64_t accesses = 0;
    std::array<Standing, 64> standings{};  ///< of the last access, by event

    /// Its following events come after a synchronisation.
    void advance(Warp& warp) noexcept {
        if (!warp.used) return;
        warp.time = ++ticks_;
        warp.used = false;
        warp.unchanged.reset();
    }
    /// What the warp knows, itself included; its following events are not in it.
    [[nodiscard]] Clock release(const Clocks& clocks, Warp& warp);
    void acquire(const Clocks& clocks, Warp& warp, const Clock& clock) const;
    /// Makes what strong reads saw known; at the scope of the block, no more than that.
    void acquire_seen(const Clocks& clocks, Warp& warp, Scope scope = Scope::gpu) const;
    /// Looks up what strong reads obtained.
    void settle(const Clocks& clocks, std::uint32_t launch, Warp& warp) const;
    /// The warp arrives at barrier `id` and goes on.
    void arrive(const Clocks& clocks, Warp& warp, int id);
    /// Barrier `id` has completed. Of a warp that arrived without waiting, what it did until then.
    void barrier(const Clocks& clocks, int id, std::uint64_t took_part, std::uint64_t waiting);
    void fence(const Clocks& clocks, Warp& warp, Order order, Scope scope);
    /// Copies of the lanes become as if the warp had made them now; `left`: newest groups that do
    /// not.
    void copies_done(Warp& warp, std::uint32_t lanes, std::uint32_t left, bool closed_only);
    /// All copies of the warp become the agent's. @returns what who waits for them learns
    [[nodiscard]] Clock copies_to_agent(const Clocks& clocks, Warp& warp);
    /// Forgets who touched its shared memory.
    void forget() noexcept;
    /// All that the block did is known to the cluster. @returns what the block brings
    [[nodiscard]] Clock bring(const Clocks& clocks);
    void receive(const Clocks& clocks, const Clock& known, const Clock& released);

  private:
    /// Of the block itself.
    void acquire_own(const Clocks& clocks, Warp& warp, const Clock& clock) const;
    void meet(const Clocks& clocks, std::uint64_t took_part, std::uint64_t waiting,
              const Arrival& arrived);
    [[nodiscard]] std::uint64_t all_warps() const noexcept {
        return (std::uint64_t{1} << warps.size()) - 1;
    }
    /// Number of the first of its events that a warp's copy under way has; without one, of the
    /// next.
    [[nodiscard]] std::uint32_t first_under_way() const noexcept;
    Time ticks_ = 1;
    Time agent_time_ = 0;                                  ///< of the agent's last event
    std::map<int, std::map<unsigned, Arrival>> arrivals_;  ///< by barrier, by warp
};

}  // namespace kernelforge::emulator::checking
