// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulator/checker_launch.hpp"
#include "emulator/observer.hpp"

// The sentences of what the checker finds.

namespace kernelforge::emulator::checking {

/// One lane's part of an access.
struct LaneAccess {
    const Access& access;
    unsigned lane = 0;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
};

/// Who an access conflicts with.
struct Opponent {
    std::uint64_t block = 0;
    unsigned warp = 0, lane = 0;
    Place place;
    Strength strength = Strength::plain;
    bool wrote = false;
    bool under_way = false;  ///< a copy that nothing has waited for
};

using Views = std::vector<std::unique_ptr<ShadowedView>>;

[[nodiscard]] Report outside(const LaunchState& launch, const Views& views, const LaneAccess& part);
[[nodiscard]] Report outside_shared(const LaunchState& launch, const LaneAccess& part);
[[nodiscard]] Report read_only(const LaunchState& launch, const View& view, const LaneAccess& part);
/// `view`: null for shared memory. `unwritten`: address of the first byte that nothing wrote.
[[nodiscard]] Report uninitialised(const LaunchState& launch, const View* view,
                                   const LaneAccess& part, std::uint64_t unwritten);
[[nodiscard]] Report race(const LaunchState& launch, const View* view, const LaneAccess& part,
                          const Opponent& other);

}  // namespace kernelforge::emulator::checking
