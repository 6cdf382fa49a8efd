// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_watch.hpp"

#include "support/catch.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

using Ids = std::vector<std::uint32_t>;

/// A quiet block of process 100, which came to a device that process 7 used.
BlockFacts quiet() {
    BlockFacts facts;
    facts.calibration_before = {33e-6, 100e-6};
    facts.calibration_after = {33.4e-6, 99e-6};
    facts.company = {Ids{7}, Ids{7, 100}};
    facts.process_id = 100;
    facts.before.processes = Ids{7, 100};
    facts.after.processes = Ids{7, 100};
    facts.before.throttle_reasons = 0x1;  // idle
    facts.after.throttle_reasons = 0x0;
    return facts;
}

}  // namespace

TEST_CASE("a quiet block is accepted, also by a driver that tells nothing", "[measure]") {
    CHECK(reason_to_reject(quiet()).empty());
    BlockFacts silent;
    silent.calibration_before = silent.calibration_after = {33e-6, 100e-6};
    CHECK(reason_to_reject(silent).empty());
}

TEST_CASE("a calibration that drifts over 1.5 percent rejects the block", "[measure]") {
    BlockFacts facts = quiet();
    facts.calibration_after.copy_s = 33e-6 * 1.016;
    CHECK_THAT(reason_to_reject(facts),
               ContainsSubstring("calibration copy took 33.00 us before and 33.53 us after"));
    facts = quiet();
    facts.calibration_after.compute_s = 100e-6 * 0.984;
    CHECK_THAT(reason_to_reject(facts), ContainsSubstring("calibration arithmetic"));
    facts.calibration_after.compute_s = 100e-6 * 1.014;
    CHECK(reason_to_reject(facts).empty());
    facts.calibration_before.compute_s = 0.0;
    CHECK_FALSE(reason_to_reject(facts).empty());
}

TEST_CASE("arithmetic that the power cap slowed down rejects nothing, faster or a slow copy does",
          "[measure]") {
    BlockFacts facts = quiet();
    facts.after.throttle_reasons = 0x4;
    facts.calibration_after.compute_s = 120e-6;
    CHECK(reason_to_reject(facts).empty());
    facts.calibration_after.compute_s = 90e-6;
    CHECK_FALSE(reason_to_reject(facts).empty());
    facts.calibration_after.compute_s = 120e-6;
    facts.calibration_after.copy_s = 40e-6;
    CHECK_THAT(reason_to_reject(facts), ContainsSubstring("calibration copy"));
    facts = quiet();
    facts.calibration_after.compute_s = 120e-6;
    CHECK_FALSE(reason_to_reject(facts).empty());
}

TEST_CASE("slowdowns reject the block at either end, the software power cap does not",
          "[measure]") {
    for (const std::uint64_t bit : {0x8, 0x20, 0x40, 0x80}) {
        BlockFacts facts = quiet();
        facts.after.throttle_reasons = bit | 0x4U;
        CHECK_FALSE(reason_to_reject(facts).empty());
        facts = quiet();
        facts.before.throttle_reasons = bit;
        CHECK_THAT(reason_to_reject(facts), ContainsSubstring("clock event reasons 0x"));
    }
    for (const std::uint64_t bit : {0x1, 0x2, 0x4, 0x10}) {
        BlockFacts facts = quiet();
        facts.after.throttle_reasons = bit;
        CHECK(reason_to_reject(facts).empty());
    }
}

TEST_CASE("a process that came after the worker rejects the block unless it is a sibling",
          "[measure]") {
    BlockFacts facts = quiet();
    facts.before.processes = facts.after.processes = Ids{7, 100, 200};
    CHECK_THAT(reason_to_reject(facts), ContainsSubstring("process 200 uses the device"));
    facts.siblings = {200};
    CHECK(reason_to_reject(facts).empty());
    facts.after.processes = Ids{7, 100, 200, 300};
    CHECK_THAT(reason_to_reject(facts), ContainsSubstring("process 300"));
    // It left before the end.
    facts = quiet();
    facts.before.processes = Ids{7, 100, 200};
    CHECK_FALSE(reason_to_reject(facts).empty());
}

TEST_CASE("with the host's process ids only coming and going counts", "[measure]") {
    BlockFacts facts = quiet();
    facts.process_id = 12;  // the driver says 100
    facts.before.processes = facts.after.processes = Ids{7, 100, 200};
    CHECK(reason_to_reject(facts).empty());
    facts.before.processes = Ids{7, 100};
    CHECK_THAT(reason_to_reject(facts), ContainsSubstring("process 200 came to or left"));
}

TEST_CASE("an unknown list of processes rejects nothing and counts nothing", "[measure]") {
    BlockFacts facts = quiet();
    facts.before.processes = Ids{7, 100, 200};
    facts.after.processes = Ids{7, 100, 200};
    facts.company.after.reset();
    CHECK(reason_to_reject(facts).empty());
    CHECK_FALSE(own_process(facts.company));
    CHECK_FALSE(other_processes(facts.company, facts.after.processes));
    CHECK_FALSE(other_processes(quiet().company, std::nullopt));
    // The driver does not show this process: then it may hide others.
    CHECK_FALSE(other_processes({Ids{}, Ids{}}, Ids{}));
    CHECK_FALSE(other_processes(quiet().company, Ids{7}));
}

TEST_CASE("this process is the one that came with its context", "[measure]") {
    CHECK(own_process(quiet().company) == 100U);
    CHECK(own_process({Ids{}, Ids{5}}) == 5U);
    CHECK_FALSE(own_process({Ids{7}, Ids{7, 100, 101}}));
    CHECK(other_processes(quiet().company, Ids{7, 100}) == 1);
    CHECK(other_processes(quiet().company, Ids{100}) == 0);
}

TEST_CASE("the parent is read after the program's name, whatever that holds", "[measure]") {
    CHECK(parent_in_stat("12 (kernelforge-wor) S 34 12 12 0 -1") == 34);
    CHECK(parent_in_stat("12 (a) b (c) 9) R 35 1 1") == 35);
    CHECK(parent_in_stat("") == 0);
    CHECK(parent_in_stat("12 (x)") == 0);
}

TEST_CASE("states of two blocks merge to the ends, all reasons and the most company", "[measure]") {
    DeviceState first;
    first.sm_clock_mhz_before = 1980;
    first.sm_clock_mhz_after = 1900;
    first.throttle_reasons = 0x4;
    first.other_processes = 2;
    first.calibration_before_s = 1e-4;
    first.temperature_c = 40;
    DeviceState second;
    second.sm_clock_mhz_before = 1700;
    second.sm_clock_mhz_after = 1600;
    second.throttle_reasons = 0x1;
    second.other_processes = 0;
    second.calibration_after_s = 2e-4;
    const DeviceState both = merge(first, second);
    CHECK(both.sm_clock_mhz_before == 1980);
    CHECK(both.sm_clock_mhz_after == 1600);
    CHECK(both.throttle_reasons == 0x5U);
    CHECK(both.other_processes == 2);
    CHECK(both.calibration_before_s == 1e-4);
    CHECK(both.calibration_after_s == 2e-4);
    CHECK(both.temperature_c == 40);
    CHECK_FALSE(merge({}, {}).throttle_reasons);
}
