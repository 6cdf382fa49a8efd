// SPDX-License-Identifier: Apache-2.0
#include "emulator_machine_code.hpp"

#include "support/catch.hpp"

using namespace kernelforge::emulator;
using S = SpecialRegister;

namespace {

/// Leaves the linear thread number in a row, the address of its b32 element of parameter 0 in
/// another.
struct Thread {
    explicit Thread(Assembler& a) : number(a.b32()), address(a.b64()), base(a.b64()) {
        a.pure(multiply32, {number, a.special(S::ctaid_x), a.special(S::ntid_x)});
        a.pure(add32, {number, number, a.special(S::tid_x)});
        a.load_parameter(base, 0);
        a.pure(index64, {address, base, number, a.constant32(4)});
    }
    RowRef number, address, base;
};

std::string message_of(const Outcome& outcome) {
    return outcome.report ? outcome.report->message : "";
}

}  // namespace

TEST_CASE("every thread of a grid loads, adds and stores its element", "[machine]") {
    Assembler a;
    const Thread thread(a);
    const RowRef value = a.b32(), inside = a.predicate();
    a.pure(less32, {inside, thread.number, a.constant32(1000)});
    const std::size_t out = a.branch(inside, true);
    a.load(Space::global, value, thread.address);
    a.pure(add32, {value, value, thread.number});
    a.store(Space::global, thread.address, value);
    a.land(out);
    a.emit(Kind::ret);
    TestDevice device;
    const std::uint64_t data = device.make<std::uint32_t>(1000, 7);
    const Outcome outcome = device.run(a.take(), 8, 128, {data});
    REQUIRE(message_of(outcome) == "");
    REQUIRE(outcome.status == Outcome::Status::ok);
    for (std::uint32_t i = 0; i < 1000; ++i) REQUIRE(device.at<std::uint32_t>(data)[i] == i + 7);
    // Set up, compare and ret are of all 1024 threads, the branch of the 24 that take it.
    CHECK(outcome.thread_instructions == 1024 * 6 + 24 + 1000 * 3);
}

TEST_CASE("lanes that part come together again before a shuffle", "[machine]") {
    Assembler a;
    const Thread thread(a);
    const RowRef value = a.b32(), odd = a.predicate(), low = a.b32();
    a.pure(and32, {low, thread.number, a.constant32(1)});
    a.pure(less32, {odd, a.constant32(0), low});
    const std::size_t to_else = a.branch(odd);
    a.pure(add32, {value, thread.number, a.constant32(100)});
    const std::size_t to_end = a.branch();
    a.land(to_else);
    a.pure(add32, {value, thread.number, a.constant32(200)});
    a.land(to_end);
    SyncOp op;
    op.what = SyncOp::What::shuffle;
    op.mode = SyncOp::Mode::bfly;
    a.sync(op, {value, no_row, value, a.constant32(1), a.constant32(0x1f), a.constant32(~0U)});
    a.store(Space::global, thread.address, value);
    a.emit(Kind::exit);
    TestDevice device;
    const std::uint64_t data = device.make<std::uint32_t>(64);
    const Outcome outcome = device.run(a.take(), 1, 64, {data});
    REQUIRE(message_of(outcome) == "");
    for (std::uint32_t i = 0; i < 64; ++i) {
        const std::uint32_t other = i ^ 1;
        REQUIRE(device.at<std::uint32_t>(data)[i] == other + (other % 2 == 1 ? 200 : 100));
    }
}

TEST_CASE("a block barrier lets all warps see what the others stored in shared memory",
          "[machine]") {
    Assembler a;
    const Thread thread(a);
    const RowRef value = a.b32(), shared = a.b32(), mirrored = a.b32();
    const RowRef tid = a.special(S::tid_x);
    a.pure(multiply32, {shared, tid, a.constant32(4)});
    a.store(Space::shared, shared, thread.number, Row::b32);
    a.barrier();
    a.pure(multiply32, {mirrored, tid, a.constant32(static_cast<std::uint32_t>(-4))});
    a.pure(add32, {mirrored, mirrored, a.constant32(255 * 4)});
    a.load(Space::shared, value, mirrored, Row::b32);
    a.store(Space::global, thread.address, value);
    a.emit(Kind::exit);
    a.code.entries[0].static_shared_bytes = 1024;
    TestDevice device;
    const std::uint64_t data = device.make<std::uint32_t>(1024);
    const Outcome outcome = device.run(a.take(), 4, 256, {data});
    REQUIRE(message_of(outcome) == "");
    for (std::uint32_t i = 0; i < 1024; ++i) {
        REQUIRE(device.at<std::uint32_t>(data)[i] == i / 256 * 256 + 255 - i % 256);
    }
}

TEST_CASE("a store to memory that is not mapped is a fault with thread, line and address",
          "[machine]") {
    Assembler a;
    const Thread thread(a);
    a.store(Space::global, thread.address, thread.number);
    a.emit(Kind::exit);
    TestDevice device(1);
    const std::uint64_t data = device.make<std::uint32_t>(70);
    const Outcome outcome = device.run(a.take(), 3, 32, {data});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::out_of_bounds);
    CHECK(outcome.report->address == data + 70 * 4);
    CHECK(
        message_of(outcome) ==
        "kernel kernel, line 5: thread (6,0,0) of block (2,0,0) writes 4 bytes at 0x7f0000000118, "
        "which is not mapped");
}

TEST_CASE("stores to read-only memory and misaligned loads are faults", "[machine]") {
    TestDevice device(1);
    {
        Assembler a;
        const Thread thread(a);
        a.store(Space::global, thread.address, thread.number);
        a.emit(Kind::exit);
        const std::uint64_t data = device.make<std::uint32_t>(64, 0, false);
        const Outcome outcome = device.run(a.take(), 1, 32, {data});
        REQUIRE(outcome.status == Outcome::Status::fault);
        CHECK(outcome.report->kind == Report::Kind::read_only_write);
    }
    {
        Assembler a;
        const Thread thread(a);
        const RowRef value = a.b32();
        MemoryOp op;
        op.space = Space::global;
        op.offset = 2;
        a.memory(op, {value, thread.address});
        a.emit(Kind::exit);
        const std::uint64_t data = device.make<std::uint32_t>(64);
        const Outcome outcome = device.run(a.take(), 1, 32, {data});
        REQUIRE(outcome.status == Outcome::Status::fault);
        CHECK(outcome.report->kind == Report::Kind::misaligned);
    }
}

TEST_CASE("shared memory beyond the block's size is a fault", "[machine]") {
    Assembler a;
    const RowRef address = a.b32();
    a.pure(multiply32, {address, a.special(S::tid_x), a.constant32(4)});
    a.store(Space::shared, address, address, Row::b32);
    a.emit(Kind::exit);
    a.code.entries[0].static_shared_bytes = 100;
    TestDevice device(1);
    const Outcome outcome = device.run(a.take(), 1, 32, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::out_of_bounds);
    CHECK_THAT(message_of(outcome), ContainsSubstring("thread (25,0,0) of block (0,0,0) writes 4 "
                                                      "bytes at shared 0x64, beyond the block's "
                                                      "100 bytes"));
}

TEST_CASE("a barrier that only half of a warp reaches is reported with where each half waits",
          "[machine]") {
    Assembler a;
    const RowRef low = a.predicate();
    a.pure(less32, {low, a.special(S::tid_x), a.constant32(16)});
    const std::size_t over = a.branch(low, true);
    a.barrier(1);
    a.land(over);
    a.barrier(2);
    a.emit(Kind::exit);
    TestDevice device(1);
    const Outcome outcome = device.run(a.take(), 1, 32, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::barrier_divergence);
    CHECK_THAT(message_of(outcome), ContainsSubstring("lanes 0x0000ffff"));
    CHECK_THAT(message_of(outcome), ContainsSubstring("lanes 0xffff0000"));
    CHECK_THAT(message_of(outcome), ContainsSubstring("line 3"));
    CHECK_THAT(message_of(outcome), ContainsSubstring("line 4"));
}

TEST_CASE("lanes that exit do not count at barriers", "[machine]") {
    Assembler a;
    const Thread thread(a);
    const RowRef low = a.predicate();
    a.pure(less32, {low, a.special(S::tid_x), a.constant32(40)});
    DecodedInstruction& leave = a.emit(Kind::exit);
    leave.guard = low;
    leave.guard_negated = true;
    a.barrier();
    a.store(Space::global, thread.address, thread.number);
    a.emit(Kind::exit);
    TestDevice device(1);
    const std::uint64_t data = device.make<std::uint32_t>(128);
    const Outcome outcome = device.run(a.take(), 1, 128, {data});
    REQUIRE(message_of(outcome) == "");
    CHECK(device.at<std::uint32_t>(data)[39] == 39);
    CHECK(device.at<std::uint32_t>(data)[40] == 0);
}

TEST_CASE("warps at different barriers are a deadlock, reported at once", "[machine]") {
    Assembler a;
    const RowRef low = a.predicate();
    a.pure(less32, {low, a.special(S::tid_x), a.constant32(32)});
    const std::size_t over = a.branch(low, true);
    a.barrier(1);
    a.land(over);
    a.barrier(2);
    a.emit(Kind::exit);
    TestDevice device(1);
    const Outcome outcome = device.run(a.take(), 1, 64, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::barrier_divergence);
    CHECK_THAT(message_of(outcome),
               ContainsSubstring("warp 0: lanes 0xffffffff wait at barrier 1"));
    CHECK_THAT(message_of(outcome),
               ContainsSubstring("warp 1: lanes 0xffffffff wait at barrier 2"));
}

TEST_CASE("an endless loop ends at the deadline and says where warps were", "[machine]") {
    Assembler a;
    a.pure(add32, {a.b32(), a.constant32(0), a.constant32(1)});
    a.branch(no_row, false, 0);
    TestDevice device;
    const Outcome outcome = device.run(a.take(), 4, 32, {}, std::chrono::milliseconds(50));
    REQUIRE(outcome.status == Outcome::Status::out_of_time);
    CHECK(outcome.report->kind == Report::Kind::endless);
    CHECK_THAT(message_of(outcome), ContainsSubstring("did not end in time: block ("));
}

TEST_CASE("a launch over the limits is refused with its reason", "[machine]") {
    Assembler a;
    a.emit(Kind::exit);
    const auto code = a.take();
    TestDevice device(1);
    const Outcome outcome = device.run(code, 1, 1025, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::limit);
    CHECK(message_of(outcome) ==
          "kernel kernel cannot be launched: a block of (1025,1,1) threads, at most 1024");
}

TEST_CASE("blocks that poll let the blocks they wait for run, also unopened ones", "[machine]") {
    // Block b waits until block b + 1 has set its flag; the last one sets its own at once.
    Assembler a;
    const RowRef base = a.b64(), mine = a.b64(), flag = a.b32(), last = a.predicate(),
                 waits = a.predicate();
    a.load_parameter(base, 0);
    a.pure(index64, {mine, base, a.special(S::ctaid_x), a.constant32(4)});
    a.pure(less32, {last, a.special(S::ctaid_x), a.constant32(49)});
    const std::size_t skip = a.branch(last, true);
    const std::size_t again = a.here();
    MemoryOp op;
    op.space = Space::global;
    op.order = Order::acquire;
    op.offset = 4;
    a.memory(op, {flag, mine});
    a.pure(less32, {waits, flag, a.constant32(1)});
    a.branch(waits, false, again);
    a.land(skip);
    op.what = MemoryOp::What::store;
    op.order = Order::release;
    op.offset = 0;
    a.memory(op, {mine, a.constant32(1)});
    a.emit(Kind::exit);
    const auto code = a.take();
    for (const int threads : {1, 2}) {
        TestDevice device(threads);
        const std::uint64_t data = device.make<std::uint32_t>(51);
        const Outcome outcome = device.run(code, 50, 64, {data});
        REQUIRE(message_of(outcome) == "");
        for (int i = 0; i < 50; ++i) REQUIRE(device.at<std::uint32_t>(data)[i] == 1);
    }
}

TEST_CASE("blocks that wait for a flag which nobody sets are a deadlock", "[machine]") {
    Assembler a;
    const RowRef base = a.b64(), flag = a.b32(), waits = a.predicate();
    a.load_parameter(base, 0);
    const std::size_t again = a.here();
    MemoryOp op;
    op.space = Space::global;
    op.order = Order::is_volatile;
    a.memory(op, {flag, base});
    a.pure(less32, {waits, flag, a.constant32(1)});
    a.branch(waits, false, again);
    a.emit(Kind::exit);
    TestDevice device;
    const std::uint64_t data = device.make<std::uint32_t>(1);
    const Outcome outcome = device.run(a.take(), 3, 32, {data});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::deadlock);
    CHECK_THAT(message_of(outcome), ContainsSubstring("poll what nothing changes"));
}

TEST_CASE("recursion without an end overflows the stack", "[machine]") {
    Assembler a;
    a.emit(Kind::call).target = 1;
    a.emit(Kind::exit);
    a.function("endless");
    a.emit(Kind::call).target = 1;
    a.emit(Kind::ret);
    TestDevice device(1);
    const Outcome outcome = device.run(a.take(), 1, 32, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::stack_overflow);
    CHECK_THAT(message_of(outcome), ContainsSubstring("calls endless"));
}

TEST_CASE("a launch ends soon after it is cancelled", "[machine]") {
    Assembler a;
    a.pure(add32, {a.b32(), a.constant32(0), a.constant32(1)});
    a.branch(no_row, false, 0);
    const auto code = a.take();
    TestDevice device;
    LoadedCode loaded{code, {}};
    Launch launch;
    launch.module = &loaded;
    launch.entry = code->entries.data();
    launch.grid = {8, 1, 1};
    launch.block = {32, 1, 1};
    int asked = 0;
    const Outcome outcome =
        device.machine.run(launch, std::chrono::steady_clock::now() + std::chrono::seconds(20),
                           [&] { return ++asked == 3; });
    CHECK(outcome.status == Outcome::Status::cancelled);
    CHECK(asked >= 3);
}

TEST_CASE("a device runs launch after launch, also after a fault", "[machine]") {
    Assembler good, bad;
    {
        const Thread thread(good);
        good.store(Space::global, thread.address, thread.number);
        good.emit(Kind::exit);
    }
    {
        const Thread thread(bad);
        bad.barrier();
        bad.emit(Kind::trap);
    }
    const auto good_code = good.take(), bad_code = bad.take();
    TestDevice device;
    const std::uint64_t data = device.make<std::uint32_t>(256);
    for (int i = 0; i < 20; ++i) {
        REQUIRE(device.run(bad_code, 4, 64, {data}).status == Outcome::Status::fault);
        REQUIRE(device.run(good_code, 4, 64, {data}).status == Outcome::Status::ok);
    }
    CHECK(device.at<std::uint32_t>(data)[255] == 255);
}

TEST_CASE("fewer threads than an explicit barrier expects is a deadlock", "[machine]") {
    Assembler a;
    a.sync({}, {a.constant32(3), a.constant32(64)});
    a.emit(Kind::exit);
    TestDevice device(1);
    const Outcome outcome = device.run(a.take(), 1, 32, {});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(outcome.report->kind == Report::Kind::deadlock);
    CHECK_THAT(message_of(outcome), ContainsSubstring("wait at barrier 3 of line 1"));
}

namespace {

/// Writes down what it is told.
struct Recorder final : Observer {
    void launch_begin(const Entry& entry, const LaunchShape& shape) override {
        say("begin " + entry.name + " " + std::to_string(shape.shared_bytes));
    }
    void launch_end() override { say("end"); }
    void block_begin(std::uint64_t block) override { say("block " + std::to_string(block)); }
    void block_end(std::uint64_t block) override { say("done " + std::to_string(block)); }
    std::optional<Report> access(const Access& access) override {
        say(std::string(access.what == Access::What::read ? "read" : "write") +
            (access.space == Space::shared ? " shared " : " global ") +
            std::to_string(access.bytes) + " by warp " + std::to_string(access.actor.warp));
        if (!refuse) return std::nullopt;
        Report report;
        report.kind = Report::Kind::race;
        report.message = "refused";
        return report;
    }
    void warp_sync(const Actor& actor) override { say("sync " + std::to_string(actor.lanes)); }
    void block_barrier(std::uint64_t, int id, std::uint64_t warps, std::uint64_t waiting) override {
        say("barrier " + std::to_string(id) + " " + std::to_string(warps) + " " +
            std::to_string(waiting));
    }
    void barrier_arrive(const Actor& actor, int id) override {
        say("arrive " + std::to_string(id) + " by warp " + std::to_string(actor.warp));
    }
    void cluster_barrier(std::span<const std::uint64_t>) override { say("cluster"); }
    void fence(const Actor&, Order, Scope) override { say("fence"); }
    void mbarrier_arrive(const Actor&, std::uint64_t, std::uint64_t) override {}
    void mbarrier_acquire(const Actor&, std::uint64_t, std::uint64_t) override {}
    void async_done(const Actor&) override {}
    void async_done_at(const Actor&, std::uint64_t, std::uint64_t) override {}
    void say(const std::string& what) { heard.push_back(what); }

    bool refuse = false;
    std::vector<std::string> heard;
};

}  // namespace

TEST_CASE("an observer hears accesses and synchronisation in order, and may stop the launch",
          "[machine]") {
    Assembler a;
    const RowRef base = a.b64();
    a.load_parameter(base, 0);
    const RowRef address = a.b32(), value = a.b32();
    a.pure(multiply32, {address, a.special(S::tid_x), a.constant32(4)});
    a.store(Space::shared, address, address, Row::b32);
    a.barrier(5);
    SyncOp op;
    op.what = SyncOp::What::warp_sync;
    a.sync(op, {a.constant32(~0U)});
    a.load(Space::global, value, base);
    a.emit(Kind::exit);
    a.code.entries[0].static_shared_bytes = 256;
    const auto code = a.take();
    TestDevice device(1);
    const std::uint64_t data = device.make<std::uint32_t>(1);
    Recorder recorder;
    device.machine.set_observer(&recorder);
    REQUIRE(device.run(code, 1, 64, {data}).status == Outcome::Status::ok);
    CHECK(recorder.heard ==
          std::vector<std::string>{"begin kernel 256", "block 0", "write shared 4 by warp 0",
                                   "write shared 4 by warp 1", "barrier 5 3 3", "sync 4294967295",
                                   "read global 4 by warp 1", "sync 4294967295",
                                   "read global 4 by warp 0", "done 0", "end"});
    recorder.refuse = true;
    const Outcome outcome = device.run(code, 1, 64, {data});
    REQUIRE(outcome.status == Outcome::Status::fault);
    CHECK(message_of(outcome) == "refused");
}

TEST_CASE("an observer hears of warps that arrive and do not wait, and of those that exited",
          "[machine]") {
    Assembler a;
    const RowRef first = a.predicate(), third = a.predicate();
    a.pure(less32, {first, a.special(S::tid_x), a.constant32(32)});
    a.pure(less32, {third, a.constant32(63), a.special(S::tid_x)});
    DecodedInstruction& leave = a.emit(Kind::exit);
    leave.guard = third;
    SyncOp op;
    op.what = SyncOp::What::barrier_arrive;
    DecodedInstruction& arrive = a.sync(op, {a.constant32(3), a.constant32(64)});
    arrive.guard = first;
    op.what = SyncOp::What::barrier;
    DecodedInstruction& wait = a.sync(op, {a.constant32(3), a.constant32(64)});
    wait.guard = first;
    wait.guard_negated = true;
    a.barrier();
    a.emit(Kind::exit);
    TestDevice device(1);
    Recorder recorder;
    device.machine.set_observer(&recorder);
    REQUIRE(message_of(device.run(a.take(), 1, 96, {})) == "");
    // The third warp has exited: barrier 0 is of all threads, barrier 3 of 64.
    CHECK(recorder.heard == std::vector<std::string>{"begin kernel 0", "block 0",
                                                     "arrive 3 by warp 0", "barrier 3 3 2",
                                                     "barrier 0 7 3", "done 0", "end"});
}

TEST_CASE("a deadlock is found however long it takes warps to repeat themselves", "[machine]") {
    // Three looks a round and eight a turn: warps are where they were after three turns.
    Assembler a;
    const RowRef base = a.b64(), flag = a.b32(), waits = a.predicate();
    a.load_parameter(base, 0);
    const std::size_t again = a.here();
    MemoryOp op;
    op.space = Space::global;
    op.order = Order::is_volatile;
    for (int i = 0; i < 3; ++i) {
        op.offset = i * 4;
        a.memory(op, {flag, base});
    }
    a.pure(less32, {waits, flag, a.constant32(1)});
    a.branch(waits, false, again);
    a.emit(Kind::exit);
    const auto code = a.take();
    for (const int threads : {1, 3}) {
        TestDevice device(threads);
        const std::uint64_t data = device.make<std::uint32_t>(3);
        device.at<std::uint32_t>(data)[1] = 1;
        const Outcome outcome = device.run(code, 5, 64, {data});
        REQUIRE(outcome.status == Outcome::Status::fault);
        CHECK(outcome.report->kind == Report::Kind::deadlock);
    }
}

TEST_CASE("a wait that counts its looks is no deadlock", "[machine]") {
    Assembler a;
    const RowRef base = a.b64(), flag = a.b32(), looks = a.b32(), waits = a.predicate();
    a.load_parameter(base, 0);
    a.pure(add32, {looks, a.constant32(0), a.constant32(0)});
    const std::size_t again = a.here();
    MemoryOp op;
    op.space = Space::global;
    op.order = Order::is_volatile;
    a.memory(op, {flag, base});
    a.pure(add32, {looks, looks, a.constant32(1)});
    a.pure(less32, {waits, looks, a.constant32(200'000)});
    a.branch(waits, false, again);
    a.store(Space::global, base, looks);
    a.emit(Kind::exit);
    TestDevice device(2);
    const std::uint64_t data = device.make<std::uint32_t>(1);
    REQUIRE(message_of(device.run(a.take(), 1, 1, {data})) == "");
    CHECK(device.at<std::uint32_t>(data)[0] == 200'000);
}

TEST_CASE("a cooperative grid has a workspace, zero at first, and no other has", "[machine]") {
    Assembler a;
    const RowRef base = a.b64();
    a.load_parameter(base, 0);
    MemoryOp op;
    op.what = MemoryOp::What::store;
    op.space = Space::global;
    a.memory(op, {base, a.special(S::envreg2)});
    op.offset = 4;
    a.memory(op, {base, a.special(S::envreg1)});
    a.emit(Kind::exit);
    const auto code = a.take();
    TestDevice device(1);
    const std::uint64_t data = device.make<std::uint64_t>(1, 1);
    REQUIRE(message_of(device.run(code, 1, 1, {data})) == "");
    CHECK(*device.at<std::uint64_t>(data) == 0);
    for (int i = 0; i < 2; ++i) {
        const LoadedCode loaded{code, {}};
        Launch launch;
        launch.module = &loaded;
        launch.entry = code->entries.data();
        launch.parameters.append(reinterpret_cast<const char*>(&data), sizeof data);
        launch.cooperative = true;
        const Outcome outcome =
            device.machine.run(launch, std::chrono::steady_clock::now() + std::chrono::seconds(10));
        REQUIRE(message_of(outcome) == "");
        auto* workspace = device.at<std::uint64_t>(*device.at<std::uint64_t>(data));
        REQUIRE(workspace != nullptr);
        CHECK(*workspace == 0);
        *workspace = 7;
    }
}
