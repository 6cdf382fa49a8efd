// SPDX-License-Identifier: Apache-2.0
#include "emulator/checker.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/support.hpp"

namespace kernelforge::emulator {
namespace {

using What = Access::What;
using Kind_ = Report::Kind;

constexpr std::uint64_t x_address = 0x7f00'0000'0000, y_address = 0x7f00'0020'0000,
                        work_address = 0x7f00'0040'0000, workspace_address = 0x7eff'0000'0000;
constexpr std::uint64_t x_bytes = 4000, y_bytes = 1 << 20, work_bytes = 65536;

struct Who {
    std::uint64_t block = 0;
    std::uint32_t warp = 0;
    std::uint32_t lanes = all_lanes;
};

/// Lane i touches `bytes` at `first + i * stride`.
struct Where {
    Space space = Space::global;
    std::uint64_t first = 0, stride = 4;
    std::uint32_t bytes = 4;
    std::optional<std::uint64_t> owner{};
};

Where global(std::uint64_t first, std::uint64_t stride = 4, std::uint32_t bytes = 4) {
    return {Space::global, first, stride, bytes, {}};
}
Where shared(std::uint64_t first, std::uint64_t stride = 4, std::uint32_t bytes = 4) {
    return {Space::shared, first, stride, bytes, {}};
}
Where shared_of(std::uint64_t owner, std::uint64_t first) {
    return {Space::shared, first, 4, 4, owner};
}

constexpr std::uint32_t one = 1;

/// A kernel "k" of `blocks` blocks of `warps` warps, told to the checker call by call. x is
/// read-only, y and work may be written, work is not initialised.
class Run {
  public:
    explicit Run(std::uint32_t blocks = 1, std::uint32_t warps = 4, std::uint32_t cluster = 1) {
        shape_.grid = {blocks, 1, 1};
        shape_.block = {warps * 32, 1, 1};
        shape_.cluster = {cluster, 1, 1};
        shape_.shared_bytes = 16384;
        checker.begin({{y_address, y_bytes, "y", true, true},
                       {x_address, x_bytes, "x", false, true},
                       {work_address, work_bytes, "workspace w", true, false}});
        launch();
    }
    void launch() {
        Entry entry;
        entry.name = "k";
        checker.launch_begin(entry, shape_);
        for (std::uint64_t i = 0; i < shape_.grid[0]; ++i) checker.block_begin(i);
    }
    void cooperates() {
        shape_.grid_workspace = workspace_address;
        shape_.grid_workspace_bytes = 8;
    }
    void finish() {
        for (std::uint64_t i = 0; i < shape_.grid[0]; ++i) checker.block_end(i);
        checker.launch_end();
    }
    std::optional<Report> tell(const Who& who, What what, const Where& where, int line,
                               Order order = Order::weak, Scope scope = Scope::gpu) {
        std::array<std::uint64_t, 32> addresses{};
        for (std::uint64_t i = 0; i < 32; ++i) addresses[i] = where.first + i * where.stride;
        Access access;
        access.actor = actor(who);
        access.space = where.space;
        access.what = what;
        access.order = order;
        access.scope = scope;
        access.bytes = where.bytes;
        access.addresses = addresses.data();
        access.shared_owner = where.owner.value_or(who.block);
        access.place = {line + 100, line};
        return checker.access(access);
    }
    std::optional<Report> read(const Who& who, const Where& where, int line,
                               Order order = Order::weak) {
        return tell(who, What::read, where, line, order);
    }
    std::optional<Report> write(const Who& who, const Where& where, int line,
                                Order order = Order::weak) {
        return tell(who, What::write, where, line, order);
    }
    std::optional<Report> atomic(const Who& who, const Where& where, int line,
                                 Order order = Order::relaxed, Scope scope = Scope::gpu) {
        return tell(who, What::atomic, where, line, order, scope);
    }
    /// Of all warps.
    void barrier(std::uint64_t block = 0) {
        const std::uint64_t all = (std::uint64_t{1} << (shape_.block[0] / 32)) - 1;
        checker.block_barrier(block, 0, all, all);
    }
    void fence(const Who& who, Scope scope = Scope::gpu) {
        checker.fence(actor(who), Order::seq_cst, scope);
    }
    static Actor actor(const Who& who) { return {who.block, who.warp, who.lanes}; }

  private:
    AddressSpace memory_;

  public:
    Checker checker{memory_};

  private:
    LaunchShape shape_;
};

std::string message(const std::optional<Report>& report) {
    return report ? report->message : "";
}

TEST_CASE("an access past a view names the view and how far", "[emulator][checker]") {
    Run run;
    const auto report = run.read({0, 3, one}, global(x_address + x_bytes + 12), 7);
    REQUIRE(report);
    CHECK(report->kind == Kind_::out_of_bounds);
    CHECK(report->message ==
          "kernel k, line 7: thread (96,0,0) of block (0,0,0) reads 4 bytes, 12 bytes past the end "
          "of x (4000 bytes)");
    CHECK(
        message(run.write({}, global(y_address + y_bytes - 64), 8)) ==
        "kernel k, line 8: thread (16,0,0) of block (0,0,0) writes 4 bytes, right past the end of "
        "y (1048576 bytes)");
    CHECK(message(run.write({0, 0, one}, global(y_address - 8), 9)) ==
          "kernel k, line 9: thread (0,0,0) of block (0,0,0) writes 4 bytes, 4 bytes before the "
          "start of y (1048576 bytes)");
    CHECK(message(run.read({0, 0, one}, global(x_address + x_bytes - 8, 16, 16), 10)) ==
          "kernel k, line 10: thread (0,0,0) of block (0,0,0) reads 16 bytes, the last 8 of them "
          "past the end of x (4000 bytes)");
    CHECK(
        message(run.read({0, 0, one}, global(16), 11)) ==
        "kernel k, line 11: thread (0,0,0) of block (0,0,0) reads 4 bytes at address 0x10, a null "
        "pointer");
}

TEST_CASE("an access past the block's shared memory is outside", "[emulator][checker]") {
    Run run;
    const auto report = run.write({0, 0, one}, shared(16384), 4);
    REQUIRE(report);
    CHECK(report->kind == Kind_::out_of_bounds);
    CHECK(report->message ==
          "kernel k, line 4: thread (0,0,0) of block (0,0,0) writes 4 bytes, right past the end of "
          "the block's shared memory (16384 bytes)");
}

TEST_CASE("a write to a read-only view is found", "[emulator][checker]") {
    Run run;
    const auto report = run.write({0, 0, one}, global(x_address + 8), 5);
    REQUIRE(report);
    CHECK(report->kind == Kind_::read_only_write);
    CHECK(
        report->message ==
        "kernel k, line 5: thread (0,0,0) of block (0,0,0) writes 4 bytes of x at byte 8, which is "
        "read-only");
    CHECK(run.atomic({0, 0, one}, global(x_address), 6));
    CHECK_FALSE(run.read({}, global(x_address), 6));
}

TEST_CASE("a read of bytes that nothing wrote is found byte by byte", "[emulator][checker]") {
    Run run;
    const auto report = run.read({0, 0, one}, global(work_address + 4), 5);
    REQUIRE(report);
    CHECK(report->kind == Kind_::uninitialised);
    CHECK(
        report->message ==
        "kernel k, line 5: thread (0,0,0) of block (0,0,0) reads 4 bytes of workspace w at byte 4, "
        "which nothing has written");
    REQUIRE_FALSE(run.write({0, 0, one}, global(work_address + 4, 4, 2), 6));
    CHECK_FALSE(run.read({0, 0, one}, global(work_address + 4, 4, 2), 7));
    CHECK_THAT(message(run.read({0, 0, one}, global(work_address + 4), 8)),
               ContainsSubstring("reads 4 bytes of workspace w at byte 4, of which nothing has "
                                 "written byte 2"));
    CHECK(run.atomic({0, 0, one}, global(work_address + 8), 9));
    CHECK(message(run.read({0, 0, one}, shared(0), 10)).find("shared memory at offset 0") !=
          std::string::npos);
}

TEST_CASE("a memset of the plan initialises, and later launches keep it", "[emulator][checker]") {
    Run run;
    run.finish();
    run.checker.written(work_address, 3000);
    run.launch();
    CHECK_FALSE(run.read({}, global(work_address), 1));
    CHECK_FALSE(run.read({0, 0, one}, global(work_address + 2996), 2));
    CHECK(run.read({0, 0, one}, global(work_address + 3000), 3));
    REQUIRE_FALSE(run.write({}, global(work_address + 8192), 4));
    run.finish();
    run.launch();
    CHECK_FALSE(run.read({0, 2}, global(work_address + 8192), 5));
    CHECK_FALSE(run.read({}, global(work_address), 6));
}

TEST_CASE("shared memory is fresh in each block", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({}, shared(0), 1));
    CHECK_FALSE(run.read({}, shared(0), 2));
    run.checker.block_end(0);
    run.checker.block_begin(0);
    CHECK(run.read({}, shared(0), 2));
}

TEST_CASE("a missing barrier is found with both parties", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 1}, shared(128), 12));
    const auto report = run.read({0, 0, one << 5}, shared(128), 14);
    REQUIRE(report);
    CHECK(report->kind == Kind_::race);
    CHECK(report->message ==
          "kernel k, line 14: thread (5,0,0) of block (0,0,0) reads shared memory at offset 148, "
          "which thread (37,0,0) of the same block writes at line 12 with no barrier between");
    REQUIRE(report->other);
    CHECK(report->other->thread == std::array<std::uint32_t, 3>{37, 0, 0});
    CHECK(report->other->place.source_line == 12);
    CHECK(report->other->action == "writes");
}

TEST_CASE("barriers in a double buffer are silent, one left out is found", "[emulator][checker]") {
    for (const bool second : {true, false}) {
        Run run;
        std::optional<Report> found;
        for (int step = 0; step < 4 && !found; ++step) {
            for (std::uint32_t warp = 0; warp < 4 && !found; ++warp)
                found = run.write({0, warp}, shared(warp * 128), 10);
            if (found) break;
            run.barrier();
            for (std::uint32_t warp = 0; warp < 4; ++warp)
                REQUIRE_FALSE(run.read({0, warp}, shared((warp + 1) % 4 * 128), 12));
            if (second) run.barrier();
        }
        CHECK(found.has_value() == !second);
        if (found) CHECK(found->other->action == "reads");
    }
    Run run;
    for (std::uint64_t step = 0; step < 6; ++step) {
        const std::uint64_t buffer = step % 2 * 1024;
        for (std::uint32_t warp = 0; warp < 4; ++warp)
            REQUIRE_FALSE(run.write({0, warp}, shared(buffer + warp * 128), 10));
        run.barrier();
        for (std::uint32_t warp = 0; warp < 4; ++warp)
            REQUIRE_FALSE(run.read({0, warp}, shared(buffer + (warp + 1) % 4 * 128), 12));
    }
}

TEST_CASE("a write after reads by many is found, also by one of the readers",
          "[emulator][checker]") {
    for (std::uint32_t writer = 0; writer < 4; ++writer) {
        Run run;
        REQUIRE_FALSE(run.write({0, 0, one}, shared(64, 0), 1));
        run.barrier();
        for (std::uint32_t warp = 0; warp < 4; ++warp)
            REQUIRE_FALSE(run.read({0, warp, one}, shared(64, 0), 2));
        const auto report = run.write({0, writer, one}, shared(64), 3);
        REQUIRE(report);
        CHECK(report->other->action == "reads");
        CHECK(report->other->place.source_line == 2);
    }
}

TEST_CASE("a barrier of some warps orders only those", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 0}, shared(0), 1));
    REQUIRE_FALSE(run.write({0, 2}, shared(256), 2));
    run.checker.block_barrier(0, 1, 0b0011, 0b0011);
    CHECK_FALSE(run.read({0, 1}, shared(0), 3));
    CHECK(run.read({0, 1}, shared(256), 4));
    // Arriving does not wait: the producer learns nothing.
    run.checker.block_barrier(0, 2, 0b1100, 0b1000);
    CHECK_FALSE(run.read({0, 3}, shared(256), 5));
    REQUIRE_FALSE(run.write({0, 3}, shared(512), 6));
    CHECK(run.read({0, 2}, shared(512), 7));
}

TEST_CASE("what a warp does after it arrived at a barrier is not ordered by that",
          "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 0}, shared(0), 1));
    run.checker.barrier_arrive(Run::actor({0, 0}), 1);
    REQUIRE_FALSE(run.write({0, 0}, shared(256), 2));
    run.checker.block_barrier(0, 1, 0b0011, 0b0010);
    CHECK_FALSE(run.read({0, 1}, shared(0), 3));
    const auto report = run.read({0, 1}, shared(256), 4);
    REQUIRE(report);
    CHECK(report->kind == Kind_::race);
    CHECK(report->other->place.source_line == 2);
    // The next barrier orders it.
    run.checker.block_barrier(0, 1, 0b0011, 0b0011);
    CHECK_FALSE(run.read({0, 1}, shared(256), 5));
}

TEST_CASE("an arrival hands on what the warp has acquired and fenced", "[emulator][checker]") {
    Run run(3);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 4096), 1));
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::release));
    REQUIRE_FALSE(run.read({1, 0, one}, global(y_address), 3, Order::acquire));
    REQUIRE_FALSE(run.write({1, 0}, global(y_address + 8192), 4));
    run.fence({1, 0});
    run.checker.barrier_arrive(Run::actor({1, 0}), 1);
    run.checker.block_barrier(1, 1, 0b0011, 0b0010);
    CHECK_FALSE(run.read({1, 1}, global(y_address + 4096), 5));
    REQUIRE_FALSE(run.atomic({1, 1, one}, global(y_address + 64), 6));
    REQUIRE_FALSE(run.atomic({2, 0, one}, global(y_address + 64), 7));
    run.fence({2, 0});
    CHECK_FALSE(run.read({2, 0}, global(y_address + 8192), 8));
}

TEST_CASE("lanes of a warp are ordered by its synchronisations", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({}, shared(0), 1));
    const auto report = run.read({0, 0, one}, shared(4), 2);
    REQUIRE(report);
    CHECK(
        report->message ==
        "kernel k, line 2: thread (0,0,0) of block (0,0,0) reads shared memory at offset 4, which "
        "thread (1,0,0) of the same block writes at line 1 with no synchronisation of the warp "
        "between");
    CHECK_FALSE(run.read({}, shared(0), 3));  // each its own
    run.checker.warp_sync(Run::actor({}));
    CHECK_FALSE(run.read({0, 0, all_lanes >> 1}, shared(4), 4));
    CHECK(run.write({0, 0, one}, shared(8), 5));  // read by its neighbour just now
}

TEST_CASE("shuffle exchange through shared memory is silent", "[emulator][checker]") {
    Run run;
    for (int step = 0; step < 5; ++step) {
        REQUIRE_FALSE(run.write({}, shared(0), 1));
        run.checker.warp_sync(Run::actor({}));
        REQUIRE_FALSE(run.read({0, 0, all_lanes >> 1}, shared(4), 2));
        run.checker.warp_sync(Run::actor({}));
    }
}

TEST_CASE("an increment that is not atomic is found", "[emulator][checker]") {
    Run run;
    run.finish();
    run.checker.written(work_address, work_bytes);
    run.launch();
    REQUIRE_FALSE(run.read({}, global(work_address, 0), 1));
    const auto report = run.write({}, global(work_address, 0), 1);
    REQUIRE(report);
    CHECK(report->party.thread != report->other->thread);
}

TEST_CASE("neighbours in a word do not collide, whoever writes them", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address, 2, 2), 1));  // bf16, lanes of a warp
    CHECK_FALSE(run.read({0, 0}, global(y_address, 2, 2), 2));     // each its own
    CHECK_FALSE(run.write({0, 0}, global(y_address, 2, 2), 3));
    CHECK(run.read({0, 0, one}, global(y_address + 2, 2, 2), 4));  // its neighbour's
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 512, 4, 2), 5));
    CHECK_FALSE(run.write({0, 1}, global(y_address + 514, 4, 2), 6));  // other warp
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 1024, 1, 1), 7));
    CHECK_FALSE(run.read({0, 0}, global(y_address + 1024, 1, 1), 8));
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 2050, 4, 2), 9));
    CHECK_FALSE(run.read({1, 0}, global(y_address + 2048, 4, 2), 10));  // other block
    CHECK(run.read({1, 0}, global(y_address + 2050, 4, 2), 11));
}

TEST_CASE("one word among those of all lanes is found, at its lane", "[emulator][checker]") {
    for (const std::uint32_t bytes : {1U, 2U, 4U, 8U, 16U, 32U}) {
        const std::uint64_t middle = std::uint64_t{21} * bytes;  // of lane 21
        for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{1024} - middle}) {
            const auto at_middle = [&](Run& run, What what, int line) {
                return run.tell({0, 1, one}, what, shared(start + middle, 0, bytes), line);
            };
            Run run;
            REQUIRE_FALSE(run.write({0, 0}, shared(start, bytes, bytes), 1));
            run.barrier();
            REQUIRE_FALSE(at_middle(run, What::read, 2));
            REQUIRE_FALSE(run.read({0, 2}, shared(start, bytes, bytes), 3));
            const auto overwritten = run.write({0, 0}, shared(start, bytes, bytes), 4);
            REQUIRE(overwritten);
            CHECK(overwritten->party.thread[0] == 0);
            CHECK(overwritten->other->thread[0] == 64);

            Run other;
            REQUIRE_FALSE(other.write({0, 0}, shared(start, bytes, bytes), 1));
            other.barrier();
            REQUIRE_FALSE(at_middle(other, What::write, 2));
            const auto torn = other.read({0, 0}, shared(start, bytes, bytes), 3);
            REQUIRE(torn);
            CHECK(torn->party.thread[0] == 21);
            CHECK(torn->other->thread[0] == 32);

            Run fresh;
            REQUIRE_FALSE(fresh.write({0, 0, ~(one << 21)}, shared(start, bytes, bytes), 1));
            fresh.barrier();
            const auto unwritten = fresh.read({0, 1}, shared(start, bytes, bytes), 2);
            REQUIRE(unwritten);
            CHECK(unwritten->kind == Kind_::uninitialised);
            CHECK(unwritten->party.thread[0] == 32 + 21);
        }
    }
}

TEST_CASE("of three readers that nothing orders, a write meets the last", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 0}, shared(0), 1));
    run.barrier();
    for (std::uint32_t warp = 0; warp < 3; ++warp) REQUIRE_FALSE(run.read({0, warp}, shared(0), 2));
    const auto publish = [&](std::uint32_t warp) {
        run.checker.mbarrier_arrive(Run::actor({0, warp}), 0, 8192);
    };
    publish(0);
    publish(1);
    run.checker.mbarrier_acquire(Run::actor({0, 3}), 0, 8192);
    const auto report = run.write({0, 3}, shared(0), 3);
    REQUIRE(report);
    CHECK(report->other->thread[0] == 64);
    publish(2);
    run.checker.mbarrier_acquire(Run::actor({0, 3}), 0, 8192);
    CHECK_FALSE(run.write({0, 3}, shared(0), 3));
}

TEST_CASE("a race between blocks is found with both parties", "[emulator][checker]") {
    Run run(3);
    REQUIRE_FALSE(run.write({2, 1}, global(y_address), 20));
    const auto report = run.read({0, 0, one << 3}, global(y_address), 30);
    REQUIRE(report);
    CHECK(report->message ==
          "kernel k, line 30: thread (3,0,0) of block (0,0,0) reads y at byte 12, which thread "
          "(35,0,0) of block (2,0,0) writes at line 20 with nothing between that orders the two "
          "blocks (a fence and a flag or counter)");
    CHECK(run.write({1, 0}, global(y_address), 31));
    CHECK_FALSE(run.read({2, 1}, global(y_address), 32));
}

TEST_CASE("launches follow one another", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address), 1));
    REQUIRE(run.read({1, 0}, global(y_address), 2));
    run.finish();
    run.launch();
    CHECK_FALSE(run.read({1, 0}, global(y_address), 2));
    CHECK(run.write({0, 0}, global(y_address), 1));
    run.finish();
    run.launch();
    CHECK_FALSE(run.write({0, 0}, global(y_address), 1));
}

TEST_CASE("atomics do not race with each other, but with plain accesses", "[emulator][checker]") {
    Run run(4);
    for (std::uint64_t block = 0; block < 4; ++block)
        for (std::uint32_t warp = 0; warp < 4; ++warp)
            REQUIRE_FALSE(run.atomic({block, warp}, global(y_address, 4 * (block % 2)), 1));
    const auto report = run.read({0, 0, one}, global(y_address), 2);
    REQUIRE(report);
    CHECK(report->other->action == "updates atomically");
    CHECK_FALSE(run.read({0, 0, one}, global(y_address), 3, Order::relaxed));
    CHECK_FALSE(run.read({0, 0, one}, global(y_address), 3, Order::is_volatile));
    REQUIRE_FALSE(run.write({1, 0, one}, global(y_address + 512), 4, Order::is_volatile));
    CHECK_FALSE(run.read({2, 0, one}, global(y_address + 512), 5, Order::is_volatile));
    CHECK(run.write({2, 0, one}, global(y_address + 512), 6));
}

TEST_CASE("atomics of the block's scope order no other block", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.atomic({0, 0, one}, global(y_address), 1, Order::relaxed, Scope::cta));
    CHECK_FALSE(run.atomic({0, 1, one}, global(y_address), 1, Order::relaxed, Scope::cta));
    CHECK(run.atomic({1, 0, one}, global(y_address), 1, Order::relaxed, Scope::cta));
}

// Each block writes its part, one thread counts the block, the last block reads all parts.
struct LastBlock {
    enum class Variant { textbook, fence_of_each, acq_rel, no_fence, block_fence, no_barrier };
    static std::optional<Report> go(Variant variant, std::uint64_t blocks) {
        Run run(static_cast<std::uint32_t>(blocks));
        const Order order = variant == Variant::acq_rel ? Order::acq_rel : Order::relaxed;
        for (std::uint64_t block = 0; block < blocks; ++block) {
            for (std::uint32_t warp = 0; warp < 4; ++warp) {
                if (auto report = run.write({block, warp},
                                            global(y_address + 4096 + block * 512 + warp * 128), 1))
                    return report;
                if (variant == Variant::fence_of_each) run.fence({block, warp});
            }
            if (variant != Variant::no_barrier) run.barrier(block);
            if (variant == Variant::textbook || variant == Variant::no_barrier)
                run.fence({block, 0, one});
            if (variant == Variant::block_fence) run.fence({block, 0, one}, Scope::cta);
            if (auto report = run.atomic({block, 0, one}, global(y_address), 2, order))
                return report;
            run.barrier(block);
        }
        const std::uint64_t last = blocks - 1;
        for (std::uint64_t part = 0; part < blocks; ++part)
            for (std::uint32_t warp = 0; warp < 4; ++warp)
                if (auto report = run.read({last, warp},
                                           global(y_address + 4096 + part * 512 + warp * 128), 3))
                    return report;
        return std::nullopt;
    }
};

TEST_CASE("the last block may read what all wrote before they counted", "[emulator][checker]") {
    using Variant = LastBlock::Variant;
    for (const std::uint64_t blocks : {2, 40, 600}) {
        CHECK_FALSE(LastBlock::go(Variant::textbook, blocks));
        CHECK_FALSE(LastBlock::go(Variant::fence_of_each, blocks));
        CHECK_FALSE(LastBlock::go(Variant::acq_rel, blocks));
    }
}

TEST_CASE("a counter without fence, with a narrow one, or before a barrier is found",
          "[emulator][checker]") {
    using Variant = LastBlock::Variant;
    for (const auto variant : {Variant::no_fence, Variant::block_fence, Variant::no_barrier}) {
        const auto report = LastBlock::go(variant, 5);
        REQUIRE(report);
        CHECK(report->kind == Kind_::race);
        CHECK(report->party.place.source_line == 3);
        CHECK(report->other->place.source_line == 1);
    }
}

TEST_CASE("split-K that waits for its turn is silent", "[emulator][checker]") {
    Run run(4);
    const Where tile = global(y_address + 4096), turn = global(y_address);
    for (std::uint64_t block = 0; block < 4; ++block) {
        REQUIRE_FALSE(run.read({block, 0, one}, turn, 1, Order::is_volatile));
        run.fence({block, 0, one});
        run.barrier(block);
        for (std::uint32_t warp = 0; warp < 4; ++warp) {
            const Where part = global(tile.first + warp * 128);
            REQUIRE_FALSE(run.read({block, warp}, part, 2));
            REQUIRE_FALSE(run.write({block, warp}, part, 3));
        }
        run.barrier(block);
        run.fence({block, 0, one});
        REQUIRE_FALSE(run.write({block, 0, one}, turn, 4, Order::is_volatile));
    }
}

TEST_CASE("a flag hands on what was written before its release", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 128), 1));
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::release));
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 256), 3));
    REQUIRE_FALSE(run.read({1, 0, one}, global(y_address), 4, Order::acquire));
    CHECK_FALSE(run.read({1, 0}, global(y_address + 128), 5));
    CHECK(run.read({1, 0}, global(y_address + 256), 6));  // written after the release
    CHECK(run.read({1, 1}, global(y_address + 128), 7));  // another warp has not acquired
    run.barrier(1);
    CHECK_FALSE(run.read({1, 1}, global(y_address + 128), 8));
}

TEST_CASE("a relaxed read of a flag obtains nothing before a fence", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 128), 1));
    run.fence({0, 0});
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::relaxed));
    REQUIRE_FALSE(run.read({1, 0, one}, global(y_address), 3, Order::relaxed));
    CHECK(run.read({1, 0}, global(y_address + 128), 4));
    run.fence({1, 0});
    CHECK_FALSE(run.read({1, 0}, global(y_address + 128), 5));
}

TEST_CASE("a fence of the block's scope obtains nothing from other blocks", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 128), 1));
    run.fence({0, 0});
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::relaxed));
    for (const std::uint32_t warp : {0, 1}) {
        REQUIRE_FALSE(run.read({1, warp, one}, global(y_address), 3, Order::relaxed));
        run.fence({1, warp}, Scope::cta);
        const auto report = run.read({1, warp}, global(y_address + 128), 4);
        REQUIRE(report);
        CHECK(report->kind == Kind_::race);
        CHECK(report->other->place.source_line == 1);
        // A wider one later obtains it still.
        run.fence({1, warp});
        CHECK_FALSE(run.read({1, warp}, global(y_address + 128), 5));
    }
}

TEST_CASE("a flag that is written while it is being read is acquired", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 128), 1));
    // The reader's call comes first, its effect after the writer's.
    REQUIRE_FALSE(run.read({1, 0, one}, global(y_address), 4, Order::acquire));
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::release));
    CHECK_FALSE(run.read({1, 0}, global(y_address + 128), 5));
}

TEST_CASE("a look-back scan is silent", "[emulator][checker]") {
    Run run(64);
    const std::uint64_t values = y_address + 4096;
    for (std::uint64_t block = 0; block < 64; ++block) {
        for (std::uint64_t before = block; before-- > 0;) {
            REQUIRE_FALSE(
                run.read({block, 0, one}, global(y_address + before * 4), 1, Order::relaxed));
            run.fence({block, 0, one});
            REQUIRE_FALSE(run.read({block, 0, one}, global(values + before * 4), 2));
            if (before % 3 == 0) break;
        }
        REQUIRE_FALSE(run.write({block, 0, one}, global(values + block * 4), 3));
        run.fence({block, 0, one});
        REQUIRE_FALSE(run.write({block, 0, one}, global(y_address + block * 4), 4, Order::relaxed));
    }
}

TEST_CASE("a chain of flags hands on what earlier blocks released", "[emulator][checker]") {
    Run run(3);
    REQUIRE_FALSE(run.write({0, 0}, global(y_address + 4096), 1));
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address), 2, Order::release));
    REQUIRE_FALSE(run.read({1, 0, one}, global(y_address), 3, Order::acquire));
    REQUIRE_FALSE(run.atomic({1, 0, one}, global(y_address + 64), 4, Order::acq_rel));
    REQUIRE_FALSE(run.atomic({2, 0, one}, global(y_address + 64), 5, Order::acq_rel));
    CHECK_FALSE(run.read({2, 0}, global(y_address + 4096), 6));
    CHECK(run.read({2, 1}, global(y_address + 4096), 7));
}

TEST_CASE("flags in shared memory order warps of a block", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 0, one}, shared(0), 1, Order::relaxed));
    REQUIRE_FALSE(run.write({0, 0}, shared(256), 2));
    run.fence({0, 0}, Scope::cta);
    REQUIRE_FALSE(run.write({0, 0, one}, shared(0), 3, Order::is_volatile));
    REQUIRE_FALSE(run.read({0, 1, one}, shared(0), 4, Order::is_volatile));
    run.fence({0, 1}, Scope::cta);
    CHECK_FALSE(run.read({0, 1}, shared(256), 5));
    CHECK(run.read({0, 2}, shared(256), 6));
}

TEST_CASE("a wide release serves a narrow acquire of the same block", "[emulator][checker]") {
    Run run(2);
    REQUIRE_FALSE(run.write({1, 0}, global(y_address + 4096), 1));
    REQUIRE_FALSE(run.write({1, 0, one}, global(y_address), 2, Order::release));
    REQUIRE_FALSE(run.read({0, 0, one}, global(y_address), 3, Order::acquire));
    run.fence({0, 0});
    REQUIRE_FALSE(run.write({0, 0, one}, global(y_address + 128), 4, Order::is_volatile));
    REQUIRE_FALSE(run.read({0, 1, one}, global(y_address + 128), 5, Order::is_volatile));
    run.fence({0, 1}, Scope::cta);
    CHECK_FALSE(run.read({0, 1}, global(y_address + 4096), 6));
    CHECK(run.read({0, 2}, global(y_address + 4096), 7));
}

TEST_CASE("an mbarrier pipeline is silent, a stage reused too soon is found",
          "[emulator][checker]") {
    for (const bool waits : {true, false}) {
        Run run;
        const std::uint64_t full = 8192, empty = 8200;
        std::optional<Report> found;
        for (int step = 0; step < 4 && !found; ++step) {
            if (step > 0 && waits) run.checker.mbarrier_acquire(Run::actor({0, 0, one}), 0, empty);
            found = run.tell({0, 0, one}, What::async_write, shared(0, 0, 2048), 1);
            if (found) break;
            run.checker.async_done_at(Run::actor({0, 0, one}), 0, full);
            for (std::uint32_t warp = 1; warp < 4; ++warp) {
                run.checker.mbarrier_acquire(Run::actor({0, warp}), 0, full);
                REQUIRE_FALSE(run.read({0, warp}, shared(warp * 128), 2));
                run.checker.mbarrier_arrive(Run::actor({0, warp}), 0, empty);
            }
        }
        CHECK(found.has_value() == !waits);
        if (found) CHECK(found->party.action == "copies asynchronously to");
    }
}

TEST_CASE("an mbarrier hands on what was done since the arrival before", "[emulator][checker]") {
    Run run;
    run.checker.mbarrier_arrive(Run::actor({0, 0}), 0, 8192);
    REQUIRE_FALSE(run.write({0, 0}, shared(0), 1));
    run.checker.warp_sync(Run::actor({0, 0}));
    run.checker.mbarrier_acquire(Run::actor({0, 1}), 0, 8192);
    CHECK(run.read({0, 1}, shared(0), 2));
    for (std::uint32_t lane = 0; lane < 32; ++lane)
        run.checker.mbarrier_arrive(Run::actor({0, 0, one << lane}), 0, 8192);
    run.checker.mbarrier_acquire(Run::actor({0, 1}), 0, 8192);
    CHECK_FALSE(run.read({0, 1}, shared(0), 3));
}

TEST_CASE("a bulk copy is read only by who waits at its mbarrier", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.tell({0, 0, one}, What::async_write, shared(0, 0, 1024), 1));
    const auto early = run.read({0, 0}, shared(0), 2);
    REQUIRE(early);
    CHECK_THAT(early->message,
               ContainsSubstring("which the same thread copies asynchronously to at "
                                 "line 1 and nothing has waited for that copy"));
    run.checker.async_done_at(Run::actor({0, 0, one}), 0, 8192);
    run.barrier();
    CHECK(run.read({0, 1}, shared(0), 3));
    CHECK(run.read({0, 0}, shared(0), 4));
    run.checker.mbarrier_acquire(Run::actor({0, 1}), 0, 8192);
    CHECK_FALSE(run.read({0, 1}, shared(0), 5));
}

TEST_CASE("cp.async needs its wait, then a barrier for others", "[emulator][checker]") {
    Run run;
    for (std::uint32_t warp = 0; warp < 4; ++warp)
        REQUIRE_FALSE(run.tell({0, warp}, What::async_write, shared(warp * 512, 16, 16), 1));
    CHECK(run.read({0, 0}, shared(0, 16, 16), 2));
    for (std::uint32_t warp = 0; warp < 4; ++warp) run.checker.async_done(Run::actor({0, warp}));
    CHECK_FALSE(run.read({0, 0}, shared(0, 16, 16), 3));
    CHECK(run.read({0, 1}, shared(0, 16, 16), 4));
    run.barrier();
    CHECK_FALSE(run.read({0, 1}, shared(0, 16, 16), 5));
}

TEST_CASE("a barrier of the block does not complete a copy", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 1}, shared(512, 16, 16), 1));
    REQUIRE_FALSE(run.tell({0, 0}, What::async_write, shared(0, 16, 16), 2));
    REQUIRE_FALSE(run.write({0, 2}, shared(1024, 16, 16), 3));
    run.barrier();
    CHECK_FALSE(run.read({0, 3}, shared(512, 16, 16), 4));
    CHECK_FALSE(run.read({0, 3}, shared(1024, 16, 16), 4));
    CHECK(run.read({0, 3}, shared(0, 16, 16), 4));
    run.checker.async_done(Run::actor({0, 0}));
    CHECK(run.read({0, 3}, shared(0, 16, 16), 5));
    run.barrier();
    CHECK_FALSE(run.read({0, 3}, shared(0, 16, 16), 6));
}

TEST_CASE("a wait that leaves groups leaves their copies under way", "[emulator][checker]") {
    Run run(1, 1);
    const Actor warp = Run::actor({});
    for (std::uint64_t stage = 0; stage < 2; ++stage) {
        REQUIRE_FALSE(run.tell({}, What::async_write, shared(stage * 512, 16, 16), 1));
        run.checker.async_commit(warp);
    }
    run.checker.async_done_but(warp, 1);
    CHECK_FALSE(run.read({}, shared(0, 16, 16), 2));
    CHECK(run.read({}, shared(512, 16, 16), 3));
    run.checker.async_done_but(warp, 0);
    CHECK_FALSE(run.read({}, shared(512, 16, 16), 4));
}

TEST_CASE("the source of a copy may not be overwritten before the wait", "[emulator][checker]") {
    Run run;
    REQUIRE_FALSE(run.write({0, 0}, shared(0), 1));
    REQUIRE_FALSE(run.tell({0, 0, one}, What::async_read, shared(0, 0, 4), 2));
    CHECK(run.write({0, 0, one}, shared(0), 3));
    run.checker.async_done(Run::actor({0, 0, one}));
    CHECK_FALSE(run.write({0, 0, one}, shared(0), 4));
}

TEST_CASE("a cluster reads its blocks' shared memory after its barrier", "[emulator][checker]") {
    const std::vector<std::uint64_t> cluster{2, 3};
    Run run(4, 2, 2);
    for (const std::uint64_t block : cluster)
        for (std::uint32_t warp = 0; warp < 2; ++warp)
            REQUIRE_FALSE(run.write({block, warp}, shared(warp * 128), 1));
    const auto report = run.read({2, 0}, shared_of(3, 0), 2);
    REQUIRE(report);
    CHECK_THAT(report->message,
               ContainsSubstring("shared memory of block (3,0,0) at offset 0, which thread (0,0,0) "
                                 "of block (3,0,0) writes at line 1 with no barrier of the "
                                 "cluster between"));
    run.checker.cluster_barrier(cluster);
    CHECK_FALSE(run.read({2, 0}, shared_of(3, 0), 3));
    CHECK_FALSE(run.read({3, 1}, shared_of(2, 0), 3));
    // Without the second barrier an owner may reuse its memory too soon.
    CHECK(run.write({3, 1}, shared(0), 4));
    run.checker.cluster_barrier(cluster);
    CHECK_FALSE(run.write({3, 1}, shared(0), 5));
    run.checker.block_end(3);
    CHECK_FALSE(run.read({2, 0}, shared_of(3, 128), 6));
    run.checker.block_end(2);
}

TEST_CASE("a remote mbarrier hands on to the other block", "[emulator][checker]") {
    Run run(2, 2, 2);
    REQUIRE_FALSE(run.write({0, 0}, shared_of(1, 0), 1));
    run.checker.mbarrier_arrive(Run::actor({0, 0}), 1, 4096);
    run.checker.mbarrier_acquire(Run::actor({1, 1}), 1, 4096);
    CHECK_FALSE(run.read({1, 1}, shared(0), 2));
    CHECK(run.read({1, 0}, shared(0), 3));
}

TEST_CASE("a lock orders its holders", "[emulator][checker]") {
    for (const bool fences : {true, false}) {
        Run run(3);
        std::optional<Report> found;
        for (std::uint64_t block = 0; block < 3 && !found; ++block) {
            const Who holder{block, static_cast<std::uint32_t>(block), one};
            REQUIRE_FALSE(run.atomic(holder, global(y_address), 1));
            if (fences) run.fence(holder);
            found = run.read(holder, global(y_address + 4096), 2);
            if (!found) found = run.write(holder, global(y_address + 4096), 3);
            if (fences) run.fence(holder);
            REQUIRE_FALSE(run.atomic(holder, global(y_address), 4));
        }
        CHECK(found.has_value() == !fences);
    }
}

TEST_CASE("a long loop over shared memory goes on when its history is forgotten",
          "[emulator][checker]") {
    Run run(1, 1);
    for (int step = 0; step < 150000; ++step) {
        if (run.write({}, shared(0), 1)) FAIL("write");
        run.checker.warp_sync(Run::actor({}));
        if (run.read({0, 0, one}, shared(4), 2)) FAIL("read");
        run.checker.warp_sync(Run::actor({}));
    }
    REQUIRE_FALSE(run.write({}, shared(0), 1));
    CHECK(run.read({0, 0, one}, shared(4), 2));
}

TEST_CASE("a grid barrier orders all blocks", "[emulator][checker]") {
    constexpr std::uint64_t blocks = 20;
    Run run(blocks);
    for (std::uint64_t phase = 0; phase < 3; ++phase) {
        for (std::uint64_t block = 0; block < blocks; ++block) {
            const std::uint64_t part = (block + phase) % blocks;
            REQUIRE_FALSE(run.write({block, 2}, global(y_address + 4096 + part * 128), 1));
            run.barrier(block);
            run.fence({block, 0, one});
            REQUIRE_FALSE(run.atomic({block, 0, one}, global(y_address), 2));
        }
        for (std::uint64_t block = 0; block < blocks; ++block) {
            REQUIRE_FALSE(run.read({block, 0, one}, global(y_address), 3, Order::is_volatile));
            run.fence({block, 0, one});
            run.barrier(block);
        }
    }
}

TEST_CASE("the workspace of a cooperative grid may be used, and nothing beside it",
          "[emulator][checker]") {
    Run run;
    CHECK(run.atomic({0, 0, one}, global(workspace_address + 4), 1));
    run.finish();
    run.cooperates();
    run.launch();
    CHECK_FALSE(run.atomic({0, 0, one}, global(workspace_address + 4), 2));
    CHECK(message(run.read({0, 0, one}, global(workspace_address + 8), 3)) ==
          "kernel k, line 3: thread (0,0,0) of block (0,0,0) reads 4 bytes, right past the end of "
          "the workspace of the grid (8 bytes)");
    CHECK_FALSE(run.write({}, global(y_address), 4));
}

TEST_CASE("views that touch or overlap are told apart or joined", "[emulator][checker]") {
    AddressSpace memory;
    Run run;
    run.finish();
    run.checker.begin({{y_address, 100, "a", false, true},
                       {y_address + 100, 100, "b", true, false},
                       {y_address + 1024, 64, "c", false, true},
                       {y_address + 1056, 64, "d", true, true}});
    run.launch();
    CHECK(run.write({0, 0, one}, global(y_address + 96), 1));
    CHECK_FALSE(run.write({0, 0, one}, global(y_address + 100), 2));
    CHECK(run.read({0, 0, one}, global(y_address + 98), 3));  // across the two
    CHECK_FALSE(run.write({0, 0, one}, global(y_address + 1060), 4));
    CHECK_FALSE(run.read({0, 0, one}, global(y_address + 1116), 5));
    CHECK(run.read({0, 0, one}, global(y_address + 1120), 6));
}

TEST_CASE("blocks on several threads keep their order through a counter", "[emulator][checker]") {
    constexpr std::uint64_t blocks = 64;
    Run run(blocks);
    std::array<std::string, 2> found;
    const auto work = [&](std::uint64_t first, std::string& said) {
        for (std::uint64_t block = first; block < blocks; block += 2) {
            for (int step = 0; step < 20; ++step) {
                for (std::uint32_t warp = 0; warp < 4; ++warp) {
                    said += message(run.write({block, warp}, shared(warp * 128), 1));
                    // Neighbours share pages of y.
                    said += message(run.write(
                        {block, warp}, global(y_address + 4096 + block * 512 + warp * 128), 2));
                    said += message(run.atomic({block, warp}, global(y_address + 128, 4), 3));
                }
                run.barrier(block);
                for (std::uint32_t warp = 0; warp < 4; ++warp)
                    said += message(run.read({block, warp}, shared((warp + 1) % 4 * 128), 4));
                run.barrier(block);
            }
            run.fence({block, 0, one});
            said += message(run.atomic({block, 0, one}, global(y_address), 5));
            run.barrier(block);
        }
    };
    std::thread other([&] { work(1, found[1]); });
    work(0, found[0]);
    other.join();
    CHECK(found[0] == "");
    CHECK(found[1] == "");
    REQUIRE_FALSE(run.atomic({7, 0, one}, global(y_address), 6, Order::acquire));
    for (std::uint64_t block = 0; block < blocks; ++block)
        for (std::uint32_t warp = 0; warp < 4; ++warp)
            CHECK_FALSE(run.read({7, 0}, global(y_address + 4096 + block * 512 + warp * 128), 7));
    // Block 0 counted before block 62 began.
    CHECK(run.read({0, 0}, global(y_address + 4096 + 62 * 512), 8));
}

}  // namespace
}  // namespace kernelforge::emulator
