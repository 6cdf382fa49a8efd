// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernelforge/compiler.hpp"
#include "kernelforge/evaluator.hpp"

namespace kernelforge::worker {

/// Seconds that a plan's launches would take if every machine instruction were executed once: a
/// figure to rank candidates of one task by where nothing can be measured (docs/emulator.md,
/// "Modelled (static)"). Loops are not counted, memory is never waited for and a cache never
/// missed, so the figure is no prediction of a time. For each launch, one after the other:
///
///     launch_overhead + blocks of the busiest multiprocessor * issue cycles of a block / clock
///
/// where blocks go to multiprocessors in waves of as many as `occupancy` lets reside, and a block's
/// issue cycles are its warps' instructions times their class's cost, over four schedulers. Costs
/// are 128 over the results per clock cycle and multiprocessor in the CUDA C++ Programming Guide,
/// "Throughput of Native Arithmetic Instructions", compute capability 9.0.
/// @param device    its `clock_khz` and `multiprocessors` are above 0
/// @param launches  as they were executed
/// @param kernels   facts of the kernel of each launch, in the order of `launches`
/// @throws Error invalid_argument
[[nodiscard]] double static_cost_s(const DeviceInfo& device,
                                   const std::vector<LaunchFacts>& launches,
                                   const std::vector<KernelFacts>& kernels);

}  // namespace kernelforge::worker
