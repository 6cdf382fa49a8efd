// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "emulator/checker_launch.hpp"
#include "emulator/checker_report.hpp"
#include "emulator/observer.hpp"

namespace kernelforge::emulator::checking {

/// Checks one access of a warp against the shadow, and enters it there.
[[nodiscard]] std::optional<Report> check(LaunchState& launch, const Views& views,
                                          RunningBlock& block, const Access& access);

}  // namespace kernelforge::emulator::checking
