// SPDX-License-Identifier: Apache-2.0
#include "worker/static_cost.hpp"

#include <string>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using worker::static_cost_s;

namespace {

/// Four multiprocessors at 1 GHz, so that a microsecond is a thousand cycles.
DeviceInfo device() {
    DeviceInfo info;
    info.multiprocessors = 4;
    info.clock_khz = 1'000'000;
    return info;
}

LaunchFacts launch(std::int64_t blocks, std::int64_t threads) {
    LaunchFacts facts;
    facts.grid[0] = blocks;
    facts.block[0] = threads;
    return facts;
}

KernelFacts kernel(std::map<std::string, int> counts) {
    KernelFacts facts;
    facts.opcode_counts = std::move(counts);
    return facts;
}

/// Cycles besides the launch's own cost, which one empty launch gives.
double cycles(const LaunchFacts& l, const KernelFacts& k) {
    const double empty = static_cost_s(device(), {launch(1, 32)}, {kernel({})});
    return (static_cost_s(device(), {l}, {k}) - empty) * 1e9;
}

}  // namespace

TEST_CASE("static cost counts each warp's instructions by class over four schedulers",
          "[static_cost]") {
    // 8 warps of 100 ffma at 1 cycle and 10 loads at 4, over 4 schedulers.
    CHECK(cycles(launch(1, 256), kernel({{"ffma", 100}, {"ld.global", 10}})) == Approx(280.0));
    // Threads of a part-filled warp cost as much as a warp.
    CHECK(cycles(launch(1, 33), kernel({{"ffma", 100}})) == Approx(50.0));
    // A class without a cost of its own is integer arithmetic.
    CHECK(cycles(launch(1, 128), kernel({{"other", 10}})) == Approx(20.0));
    CHECK(cycles(launch(1, 128), kernel({{"nop", 1000}})) == Approx(0.0).margin(1e-6));
}

TEST_CASE("static cost follows the busiest multiprocessor through the waves", "[static_cost]") {
    const KernelFacts work = kernel({{"ffma", 100}});
    const double one = cycles(launch(1, 128), work);
    CHECK(cycles(launch(4, 128), work) == Approx(one));
    CHECK(cycles(launch(5, 128), work) == Approx(2 * one));
    // 1024 threads: two blocks reside; 9 blocks are a wave of 8 and one more.
    const double large = cycles(launch(1, 1024), work);
    CHECK(cycles(launch(8, 1024), work) == Approx(2 * large));
    CHECK(cycles(launch(9, 1024), work) == Approx(3 * large));
    // 255 registers: one block of 256 threads resides, so that 5 blocks are two waves all the same.
    KernelFacts fat = work;
    fat.registers_per_thread = 255;
    CHECK(cycles(launch(5, 256), fat) == Approx(2 * cycles(launch(1, 256), fat)));
}

TEST_CASE("static cost of a plan is that of its launches one after the other", "[static_cost]") {
    const KernelFacts work = kernel({{"ffma", 100}});
    const double once = static_cost_s(device(), {launch(1, 128)}, {work});
    CHECK(once > 0.0);
    CHECK(static_cost_s(device(), {launch(1, 128), launch(1, 128)}, {work, work}) ==
          Approx(2 * once));
    CHECK(static_cost_s(device(), {}, {}) == 0.0);
}

TEST_CASE("static cost refuses a device without a clock and launches without facts",
          "[static_cost]") {
    CHECK_THROWS_AS(static_cost_s(DeviceInfo(), {}, {}), Error);
    CHECK_THROWS_AS(static_cost_s(device(), {launch(1, 32)}, {}), Error);
}
