// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

// Vector clocks over the warps of a grid. Most blocks never hear of each other, so a clock holds
// only the blocks it knows of, in a tree whose unchanged parts clocks share.

namespace kernelforge::emulator::checking {

/// Counts the synchronisations of a block, from 1; every warp's events carry the time of the last
/// one in which the warp took part. 0: before everything.
using Time = std::uint32_t;

/// Who acts in a block: its warps, and the copies that an mbarrier completes, which no warp orders.
inline constexpr unsigned most_warps = 32, copying_agent = 32, members = 33;

/// What is known of one block: of each member, all events up to a time.
struct Times {
    Time base = 0;                                        ///< of members that are not in `beyond`
    std::vector<std::pair<std::uint8_t, Time>> beyond{};  ///< member and time, by member
    [[nodiscard]] Time of(unsigned member) const noexcept;
    [[nodiscard]] std::array<Time, members> all() const noexcept;
};

struct ClockNode;
/// Immutable; null knows nothing. Shared by the warps and locations that it was handed to.
using Clock = std::shared_ptr<const ClockNode>;

/// Clocks of one launch; the tree's depth follows from the number of blocks. [any]
class Clocks {
  public:
    explicit Clocks(std::uint64_t blocks = 1);
    [[nodiscard]] Time known(const Clock& clock, std::uint64_t block, unsigned member) const;
    /// Null: nothing is known of the block.
    [[nodiscard]] const Times* find(const Clock& clock, std::uint64_t block) const;
    /// The clock that knows what both know. Costs as much as the two differ.
    [[nodiscard]] Clock join(const Clock& a, const Clock& b) const;
    [[nodiscard]] Clock with(const Clock& clock, std::uint64_t block, Times times) const;

  private:
    unsigned levels_ = 1;
};

}  // namespace kernelforge::emulator::checking
