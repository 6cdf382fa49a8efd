// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/program.hpp"
#include "emulator_decode_check.hpp"
#include "support/catch.hpp"

using namespace kernelforge;
using namespace kernelforge::emulator;

namespace {

using Made = std::shared_ptr<const Code>;

const std::string head = ".version 9.0\n.target sm_90a\n.address_size 64\n";
const std::string registers =
    "{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .f32 %f<40>;\n"
    ".reg .b64 %d<40>;\n.reg .f64 %g<9>;\n";

/// A kernel `k` with these lines, the first of which is line 12; `before` stands in line 4.
std::string kernel(const std::string& lines, const std::string& before = "") {
    return head + before + "\n.visible .entry k(.param .u64 a, .param .u32 n)" + registers + lines +
           "\n}\n";
}

Made decoded(const std::string& text) {
    return decode(parse_ptx(text), best_isa());
}

Made lines(const std::string& text, const std::string& before = "") {
    return decoded(kernel(text, before));
}

/// The instructions of the first function but for the return at its end.
std::vector<DecodedInstruction> body(const Code& code) {
    const CodeFunction& function = code.functions.at(code.entries.at(0).function);
    return {code.instructions.begin() + function.first,
            code.instructions.begin() + function.end - 1};
}

std::vector<RowRef> operands(const Code& code, const DecodedInstruction& instruction) {
    const auto first = code.operands.begin() + instruction.operands;
    return {first, first + instruction.operand_count};
}

/// Bits that every lane of a constant b32 or b64 row holds.
std::uint64_t constant(const Code& code, RowRef ref, std::size_t bytes) {
    REQUIRE(ref < 0);
    REQUIRE(ref != no_row);
    std::uint64_t first = 0;
    std::memcpy(&first, code.constants.data() + ~ref, bytes);
    for (std::size_t lane = 1; lane < warp_lanes; ++lane) {
        std::uint64_t other = 0;
        std::memcpy(&other, code.constants.data() + ~ref + lane * bytes, bytes);
        REQUIRE(other == first);
    }
    return first;
}

/// "line: message" of the error.
std::string refusal(const std::string& text) {
    try {
        (void)decoded(text);
    } catch (const PtxError& error) {
        return std::to_string(error.place().ptx_line) + ": " + error.what();
    }
    return "accepted";
}

std::string refused(const std::string& text) {
    return refusal(kernel(text));
}

const MemoryOp& memory(const Code& code, std::size_t index = 0) {
    return code.memory.at(body(code).at(index).attribute);
}

}  // namespace

TEST_CASE("decode keeps what memory instructions say", "[decode]") {
    SECTION("a cached vector load") {
        const Made code = lines("ld.global.nc.L2::128B.v4.f32 {%f1, _, %f3, %f4}, [%d1+-16];");
        const MemoryOp& op = memory(*code);
        CHECK(op.what == MemoryOp::What::load);
        CHECK(op.space == Space::global);
        CHECK(op.type == Type::f32);
        CHECK(op.elements == 4);
        CHECK(op.alignment == 16);
        CHECK(op.offset == -16);
        CHECK(op.read_only);
        CHECK(op.order == Order::weak);
        const auto rows = operands(*code, body(*code)[0]);
        REQUIRE(rows.size() == 5);
        CHECK(rows[1] == no_row);
        CHECK(rows[4] >= 0);
    }
    SECTION("narrow values in wide registers") {
        const Made code = lines("ld.shared.s8 %d2, [%r1];\nst.u16 [%d1], %h1;");
        CHECK(memory(*code).data_row == Row::b64);
        CHECK(memory(*code).is_signed);
        CHECK(memory(*code).address_row == Row::b32);
        CHECK(memory(*code, 1).data_row == Row::b32);
        CHECK(memory(*code, 1).space == Space::generic);
        CHECK(memory(*code, 1).alignment == 2);
    }
    SECTION("orders and scopes") {
        const Made code = lines(
            "ld.acquire.sys.global.u32 %r1, [%d1];\nst.release.cta.global.u32 [%d1], %r1;\n"
            "ld.volatile.global.u32 %r1, [%d1];\nld.relaxed.cluster.u32 %r1, [%d1];\n"
            "atom.acq_rel.gpu.global.add.u32 %r1, [%d1], 1;\natom.global.add.u32 %r1, [%d1], 1;");
        CHECK(memory(*code, 0).order == Order::acquire);
        CHECK(memory(*code, 0).scope == Scope::sys);
        CHECK(memory(*code, 1).order == Order::release);
        CHECK(memory(*code, 1).scope == Scope::cta);
        CHECK(memory(*code, 2).order == Order::is_volatile);
        CHECK(memory(*code, 2).scope == Scope::sys);
        CHECK(memory(*code, 3).order == Order::relaxed);
        CHECK(memory(*code, 3).scope == Scope::cluster);
        CHECK(memory(*code, 4).order == Order::acq_rel);
        CHECK(memory(*code, 5).order == Order::relaxed);
        CHECK(memory(*code, 5).scope == Scope::gpu);
    }
    SECTION("atomics") {
        const Made code = lines(
            "atom.shared.cas.b64 %d2, [%d1+8], %d3, 7;\nred.global.add.noftz.bf16x2 [%d1], %r1;\n"
            "red.global.v4.f32.add [%d1], {%f1, %f2, %f3, %f4};\natom.global.exch.b32 _, [%d1], "
            "%r1;\natom.global.add.L2::cache_hint.f32 %f1, [%d1], %f2, %d4;");
        const MemoryOp& cas = memory(*code, 0);
        CHECK(cas.combine == MemoryOp::Combine::compare_exchange);
        CHECK(cas.data_row == Row::b64);
        CHECK(cas.offset == 8);
        auto rows = operands(*code, body(*code)[0]);
        REQUIRE(rows.size() == 4);
        CHECK(constant(*code, rows[3], 8) == 7);
        CHECK(memory(*code, 1).what == MemoryOp::What::reduction);
        CHECK(memory(*code, 1).type == Type::bf16x2);
        CHECK(memory(*code, 1).combine == MemoryOp::Combine::add);
        CHECK(memory(*code, 2).elements == 4);
        CHECK(operands(*code, body(*code)[2]).size() == 5);
        CHECK(operands(*code, body(*code)[3])[0] == no_row);
        CHECK(operands(*code, body(*code)[4]).size() == 3);
    }
}

TEST_CASE("decode lays parameters out by their alignment", "[decode]") {
    const Made code = decoded(head +
                              ".visible .entry k(.param .u8 c, .param .u64 p, .param .align 16 .b8 "
                              "s[20], .param .u16 h)\n.maxntid 128, 2, 1\n.reqnctapercluster 2\n" +
                              registers + "ld.param.u32 %r1, [s+4];\nst.global.u32 [%d1], %r1;\n}");
    const Entry& entry = code->entries.at(0);
    using Parameter = std::pair<std::uint64_t, std::uint64_t>;
    CHECK(entry.parameters == std::vector<Parameter>{{0, 1}, {8, 8}, {16, 20}, {36, 2}});
    CHECK(entry.parameter_bytes == 38);
    CHECK(entry.max_threads == std::array{128, 2, 1});
    CHECK(entry.required_cluster[0] == 2);
    const MemoryOp& op = memory(*code);
    CHECK(op.space == Space::param);
    const Symbol& symbol = code->symbols.at(static_cast<std::size_t>(op.symbol));
    CHECK(symbol.of_launch);
    CHECK(symbol.offset == 16);
    CHECK(op.offset == 4);
    CHECK(code->find_entry("k") == &entry);
    CHECK(code->find_entry("other") == nullptr);
}

TEST_CASE("decode gives shared variables offsets and dynamic memory what follows", "[decode]") {
    const Made code = decoded(
        head +
        ".extern .shared .align 128 .b8 dyn[];\n.shared .align 4 .b8 both[12];\n"
        ".visible .entry one()" +
        registers +
        ".shared .align 8 .b8 own[8];\nmov.u64 %d1, own;\nmov.u64 %d2, both;\nmov.u32 %r1, dyn;\n"
        "st.shared.u64 [%d1], %d2;\nst.shared.u32 [%r1], 1;\n}\n.visible .entry two()" +
        registers + ".shared .align 16 .b8 big[1000];\nst.shared.u32 [big+8], 1;\n}\n" +
        ".visible .entry three()" + registers + "st.shared.u32 [both], 1;\n}\n");
    CHECK(code->entries.at(0).static_shared_bytes == 128);
    CHECK(code->entries.at(0).dynamic_shared_alignment == 128);
    CHECK(code->entries.at(1).static_shared_bytes == 1000);
    CHECK(code->entries.at(2).static_shared_bytes == 12);
    // `both` has most users and comes first; addresses are constants, so nothing is left of mov.
    const auto made = body(*code);
    REQUIRE(made.size() == 2);
    const auto rows = operands(*code, made[0]);
    CHECK(constant(*code, rows[0], 8) == 16);
    CHECK(constant(*code, rows[1], 8) == 0);
    CHECK(constant(*code, operands(*code, made[1])[0], 4) == 128);
}

TEST_CASE("decode turns values that never change into fixed rows", "[decode]") {
    const Made code = lines(
        "mov.u32 %r1, %tid.x;\nmov.f32 %f1, 0f3F800000;\nmov.u16 %h1, -1;\nmov.u32 %r2, 5;\n"
        "st.global.f32 [%d1], %f1;\nst.global.u32 [%d1], %r1;\nst.global.u16 [%d1], %h1;\n"
        "st.global.u32 [%d1], %laneid;\nst.global.u32 [%d1], %r1;\nst.global.f32 [%d1], "
        "0f3F800000;\n@%p1 mov.u32 %r2, 6;\nst.global.u32 [%d1], %r2;");
    const auto made = body(*code);
    REQUIRE(made.size() == 9);  // the two mov to %r2 remain: it has two values
    std::vector<RowRef> stored;
    for (const DecodedInstruction& instruction : made) {
        if (instruction.kind == Kind::memory) {
            stored.push_back(operands(*code, instruction)[1]);
        }
    }
    REQUIRE(stored.size() == 7);
    CHECK(constant(*code, stored[0], 4) == 0x3f800000);
    CHECK(constant(*code, stored[2], 4) == 0xffff);
    CHECK(stored[1] == stored[4]);
    CHECK(stored[0] == stored[5]);
    CHECK(stored[6] >= 0);
    REQUIRE(code->specials.size() == 2);
    CHECK(code->specials[0] == std::pair(SpecialRegister::tid_x, stored[1]));
    CHECK(code->specials[1] == std::pair(SpecialRegister::laneid, stored[3]));
    CHECK(code->constants.size() % 128 == 0);
    for (const RowRef row : stored) {
        CHECK((row < 0 ? ~row : row) % 128 == 0);
    }
}

TEST_CASE("decode keeps special registers that change as instructions", "[decode]") {
    const Made code = lines(
        "mov.u64 %d1, %globaltimer;\nmov.u32 %r1, %smid;\nst.global.u32 [%d1], "
        "%r1;\nmov.u64 %d2, %clock64;\nst.global.u64 [%d1], %d2;");
    const auto made = body(*code);
    REQUIRE(made.size() == 5);
    CHECK(made[0].kind == Kind::clock);
    CHECK(made[0].attribute == static_cast<std::uint32_t>(SpecialRegister::globaltimer));
    CHECK(made[1].attribute == static_cast<std::uint32_t>(SpecialRegister::smid));
    CHECK(made[3].attribute == static_cast<std::uint32_t>(SpecialRegister::clock64));
}

TEST_CASE("decode turns labels into indices", "[decode]") {
    const Made code = lines(
        "ld.param.u32 %r1, [n];\nAGAIN:\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, 0;\n"
        "prefetch.global.L2 [%d1];\n@!%p1 bra OUT;\n@%p1 bra.uni AGAIN;\nT: .branchtargets AGAIN, "
        "OUT;\nbrx.idx %r1, T;\nOUT:\nst.global.u32 [%d1], %r1;");
    const auto made = body(*code);
    const std::uint32_t first = code->functions[0].first;
    REQUIRE(made.size() == 7);
    CHECK(made[3].kind == Kind::branch);
    CHECK(made[3].guard_negated);
    CHECK(made[3].guard >= 0);
    CHECK(made[3].target == first + 6);
    CHECK(made[4].target == first + 1);
    CHECK_FALSE(made[4].guard_negated);
    CHECK(made[5].kind == Kind::branch_table);
    CHECK(code->branch_tables.at(made[5].attribute) == std::vector{first + 1, first + 6});
    CHECK(made[3].place.ptx_line == 17);
    CHECK(code->instructions[code->functions[0].end - 1].kind == Kind::exit);
}

TEST_CASE("decode keeps what synchronising instructions say", "[decode]") {
    const Made code = lines(
        "bar.sync 0;\nbarrier.sync 3, 64;\nbar.arrive %r1, 128;\nbar.red.popc.u32 %r2, 0, !%p1;\n"
        "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire;\n"
        "vote.sync.ballot.b32 %r3, !%p1, -1;\nmatch.all.sync.b64 %r4|%p2, %d1, %r1;\n"
        "shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1;\nshfl.sync.up.b32 %r5|%p3, %r4, 1, 0, -1;\n"
        "redux.sync.max.s32 %r6, %r5, -1;\nelect.sync _|%p4, -1;\nactivemask.b32 %r7;\n"
        "membar.gl;\nfence.acq_rel.cluster;\nfence.proxy.async;\nbar.warp.sync 1;\nmembar.sys;");
    const auto made = body(*code);
    REQUIRE(made.size() == 18);
    const auto at = [&](std::size_t i) -> const SyncOp& {
        return code->sync.at(made[i].attribute);
    };
    CHECK(at(0).what == SyncOp::What::barrier);
    CHECK(at(0).aligned);
    CHECK(constant(*code, operands(*code, made[0]).at(0), 4) == 0);
    CHECK_FALSE(at(1).aligned);
    CHECK(operands(*code, made[1]).size() == 2);
    CHECK(at(2).what == SyncOp::What::barrier_arrive);
    CHECK(at(3).what == SyncOp::What::barrier_reduce);
    CHECK(at(3).mode == SyncOp::Mode::popc);
    CHECK(at(3).predicate_negated);
    CHECK(operands(*code, made[3]).size() == 3);
    CHECK(at(4).what == SyncOp::What::cluster_arrive);
    CHECK(at(4).order == Order::release);
    CHECK(at(5).what == SyncOp::What::cluster_wait);
    CHECK(at(6).what == SyncOp::What::vote_ballot);
    CHECK(at(6).predicate_negated);
    CHECK(at(7).what == SyncOp::What::match_all);
    CHECK(at(7).type == Type::b64);
    CHECK(operands(*code, made[7]).size() == 4);
    CHECK(at(8).mode == SyncOp::Mode::bfly);
    CHECK(operands(*code, made[8]).size() == 6);
    CHECK(operands(*code, made[8])[1] == no_row);
    CHECK(at(9).mode == SyncOp::Mode::up);
    CHECK(operands(*code, made[9])[1] >= 0);
    CHECK(at(10).combine == MemoryOp::Combine::max);
    CHECK(at(10).type == Type::s32);
    CHECK(at(11).what == SyncOp::What::elect);
    CHECK(operands(*code, made[11])[0] == no_row);
    CHECK(at(12).what == SyncOp::What::active_mask);
    CHECK(at(13).order == Order::seq_cst);
    CHECK(at(13).scope == Scope::gpu);
    CHECK(at(14).scope == Scope::cluster);
    CHECK(at(15).proxy);
    CHECK(at(16).what == SyncOp::What::warp_sync);
    CHECK(at(17).scope == Scope::sys);
}

TEST_CASE("decode keeps what asynchronous instructions say", "[decode]") {
    const Made code = lines(
        "cp.async.cg.shared.global.L2::128B [%r1+16], [%d1], 16, %r2;\n"
        "cp.async.commit_group;\ncp.async.wait_group 2;\ncp.async.wait_all;\n"
        "mbarrier.init.shared.b64 [%r1], 32;\nmbarrier.arrive.shared.b64 %d2, [%r1];\n"
        "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 4096;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], %r2;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%d1], %r3, [%r4], %h1;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
        "[%d1, {%r2, 64}], [%r4];\ncp.async.bulk.wait_group.read 1;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d1], [%r1], 16;\n"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];");
    const auto made = body(*code);
    REQUIRE(made.size() == 13);
    const auto at = [&](std::size_t i) -> const AsyncOp& {
        CHECK(code->async.at(made[i].attribute).places.size() == made[i].operand_count);
        return code->async.at(made[i].attribute);
    };
    using What = AsyncOp::What;
    CHECK(at(0).what == What::copy);
    CHECK(at(0).bytes == 16);
    CHECK(at(0).has_size);
    CHECK_FALSE(at(0).has_ignore);
    CHECK(at(0).places.at(0).offset == 16);
    CHECK(at(1).what == What::commit);
    CHECK(at(2).count == 2);
    CHECK(at(3).count == -1);  // wait_all
    CHECK(at(4).what == What::init);
    CHECK(at(5).what == What::arrive);
    CHECK(operands(*code, made[5]).size() == 2);
    CHECK(at(6).what == What::arrive_expect_tx);
    CHECK(operands(*code, made[6])[0] == no_row);
    CHECK(at(7).what == What::try_wait_parity);
    CHECK(at(7).places.at(1).offset == 8);
    CHECK(at(8).what == What::bulk_copy);
    CHECK(at(8).multicast);
    CHECK(at(8).to_cluster);
    CHECK(operands(*code, made[8]).size() == 5);
    CHECK(at(9).what == What::tensor_load);
    CHECK(at(9).dimensions == 2);
    CHECK(operands(*code, made[9]).size() == 5);
    CHECK(constant(*code, operands(*code, made[9])[3], 4) == 64);
    CHECK(at(10).read_only);
    CHECK(at(11).what == What::bulk_reduce);
    CHECK(at(11).to == Space::global);
    CHECK(at(11).type == Type::f32);
    CHECK(at(12).no_increment);
}

TEST_CASE("decode keeps what matrix instructions say", "[decode]") {
    std::string accumulators;
    for (int i = 0; i < 4; ++i) {
        accumulators += (i == 0 ? "%f" : ", %f") + std::to_string(i);
    }
    const Made code = lines(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5+32];\n"
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r1, %r2};\n"
        "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {" +
        accumulators +
        "}, %d1, %d2, %p1, 1, -1, 0, 1;\nwgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\nst.global.v4.f32 [%d3], {" +
        accumulators + "};");
    const auto made = body(*code);
    REQUIRE(made.size() == 7);
    const auto at = [&](std::size_t i) -> const MatrixOp& {
        return code->matrix.at(made[i].attribute);
    };
    CHECK(at(0).count == 4);
    CHECK(at(0).transposed);
    CHECK(at(0).offset == 32);
    CHECK(at(1).what == MatrixOp::What::store);
    CHECK(operands(*code, made[1]).size() == 3);
    CHECK(at(3).what == MatrixOp::What::wgmma);
    CHECK(at(3).n == 8);
    CHECK(at(3).k == 16);
    CHECK(at(3).a == Type::bf16);
    CHECK(at(3).destinations == 4);
    CHECK(at(3).scale_b == -1);
    CHECK_FALSE(at(3).transposed_a);
    CHECK(at(3).transposed_b);
    CHECK(operands(*code, made[3]).size() == 7);
}

TEST_CASE("decode passes arguments by copies between parameter areas", "[decode]") {
    const std::string text =
        head +
        ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
        ".func (.param .b64 out) twice(.param .b32 x, .param .b64 y)\n" +
        registers +
        "ld.param.u32 %r1, [x];\ncvt.u64.u32 %d1, %r1;\nst.param.b64 [out], "
        "%d1;\nret;\n}\n.visible .entry k()" +
        registers +
        ".param .b32 p0;\n.param .b64 p1;\n.param .b64 p2;\n.param .b32 p3;\n"
        "st.param.b32 [p0], %r1;\nst.param.b64 [p1], %d1;\n"
        "call.uni (p2), twice, (p0, p1);\nld.param.b64 %d2, [p2];\n"
        "call.uni (p3), vprintf, (p1, p2);\nld.param.b32 %r2, [p3];\n"
        "st.global.u32 [%d2], %r2;\n}\n";
    const Made code = decoded(text);
    const auto made = body(*code);
    REQUIRE(made.size() == 9 + 1);
    CHECK(made[2].kind == Kind::call);
    const CodeFunction& callee = code->functions.at(made[2].target);
    CHECK(callee.name == "twice");
    CHECK(callee.parameter_bytes == 32);
    const CallOp& call = code->calls.at(made[2].attribute);
    REQUIRE(call.arguments.size() == 2);
    CHECK(call.arguments[0].from == 0);
    CHECK(call.arguments[0].to == 0);
    CHECK(call.arguments[1].to == 8);
    CHECK(call.arguments[1].bytes == 8);
    REQUIRE(call.results.size() == 1);
    CHECK(call.results[0].from == 16);
    CHECK(call.results[0].to == 16);
    CHECK(code->instructions[callee.end - 1].kind == Kind::ret);
    // vprintf: two loads, the call, a store.
    CHECK(made[4].kind == Kind::memory);
    CHECK(made[6].kind == Kind::call_system);
    CHECK(made[6].attribute == static_cast<std::uint32_t>(SystemFunction::print));
    CHECK(operands(*code, made[6]).size() == 3);
    CHECK(code->memory.at(made[7].attribute).what == MemoryOp::What::store);
    CHECK(test::check_rows(parse_ptx(text)).empty());
}

TEST_CASE("decode allows recursion", "[decode]") {
    const Made code = decoded(head + ".shared .b32 s;\n.func f()\n" + registers +
                              "@%p1 ret;\nst.shared.u32 [s], %r1;\ncall.uni f, ();\nret;\n}\n"
                              ".visible .entry k()" +
                              registers + "call.uni f, ();\n}\n");
    CHECK(code->functions.size() == 2);
    CHECK(code->entries[0].static_shared_bytes == 4);
}

TEST_CASE("decode makes addresses of variables values", "[decode]") {
    const Made code = lines(
        ".local .align 16 .b8 depot[20];\nmov.u64 %d1, depot;\ncvta.local.u64 %d2, %d1;\n"
        "mov.u64 %d3, table+4;\ncvta.to.global.u64 %d4, %d2;\nst.global.u64 [%d4], %d3;\n"
        "mov.b64 %d5, a;\ncvta.param.u64 %d6, %d5;\nst.local.u64 [%d1], %d6;\nisspacep.shared %p1, "
        "%d6;\n@%p1 st.global.u64 [table], %d6;",
        ".global .align 8 .b8 table[64];");
    const auto made = body(*code);
    CHECK(code->functions[0].local_bytes == 32);
    REQUIRE(code->queries.size() == 6);
    CHECK(code->queries[0].what == QueryOp::What::to_space);
    CHECK(code->queries[0].space == Space::local);
    CHECK(code->queries[1].what == QueryOp::What::to_generic);
    CHECK(code->queries[2].offset == 4);
    CHECK(code->queries[2].space == Space::global);
    CHECK(code->queries[3].space == Space::param);
    CHECK(code->queries[4].what == QueryOp::What::to_generic);
    REQUIRE(code->globals.size() == 1);
    CHECK(code->symbols.at(static_cast<std::size_t>(code->queries[2].symbol)).offset == 0);
    CHECK(code->memory.at(made.back().attribute).symbol >= 0);
    CHECK(operands(*code, made.back())[0] == no_row);
}

TEST_CASE("decode gives a kernel a frame of its true pressure", "[decode]") {
    std::string text;
    // Two hundred values that live one after the other, each from the one before.
    for (int i = 1; i <= 200; ++i) {
        const std::string to = std::to_string(i % 39 + 1), from = std::to_string((i - 1) % 39 + 1);
        text += "add.s32 %r" + to + ", %r" + from + ", 1;\nsetp.gt.s32 %p1, %r" + to +
                ", 5;\n@%p1 st.global.u32 [%d1], %r" + to + ";\n";
    }
    const Made code = lines(text);
    // One value, its address, a predicate; the first and the last may not meet.
    CHECK(code->functions[0].frame_bytes <= 128 * 3 + 256 + 128);
    CHECK(test::check_rows(parse_ptx(kernel(text))).empty());
}

TEST_CASE("decode keeps what a guarded write leaves", "[decode]") {
    const std::string text = kernel(
        "mov.u32 %r1, %clock;\nsetp.gt.u32 %p1, %r1, 4;\nmov.u32 %r2, %clock;\nadd.s32 %r3, %r1, "
        "1;\n"
        "@%p1 add.s32 %r2, %r3, 1;\nst.global.u32 [%d1], %r2;");
    CHECK(test::check_rows(parse_ptx(text)).empty());
    const Made code = decoded(text);
    const auto made = body(*code);
    CHECK(operands(*code, made[2])[0] == operands(*code, made[4])[0]);
    CHECK(operands(*code, made[4])[0] != operands(*code, made[4])[1]);
}

TEST_CASE("decode lets only register-to-register results take the row of a source", "[decode]") {
    const Made code = lines(
        "mov.u32 %r1, %clock;\nld.shared.v2.u32 {%r2, %r3}, [%r1];\nadd.s32 %r4, %r2, %r3;\n"
        "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;\nmov.u32 %r6, %smid;\n"
        "atom.shared.add.u32 %r7, [%r5], %r6;\nst.shared.u32 [8], %r7;");
    const auto made = body(*code);
    REQUIRE(made.size() == 7);
    const auto load = operands(*code, made[1]);
    CHECK(load[0] != load[2]);
    CHECK(load[1] != load[2]);
    const auto shuffle = operands(*code, made[3]);
    CHECK(shuffle[0] != shuffle[2]);
    const auto atomic = operands(*code, made[5]);
    CHECK(atomic[0] != atomic[1]);
    CHECK(atomic[0] != atomic[2]);
    const Made sum = lines("mov.u32 %r1, %clock;\nadd.s32 %r2, %r1, 1;\nst.shared.u32 [8], %r2;");
    const auto added = operands(*sum, body(*sum)[1]);
    CHECK(added[0] == added[1]);
}

namespace {

/// A kernel of random blocks that read and write registers of all shapes.
std::string random_kernel(std::uint32_t seed, int blocks) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const auto reg = [&](const char* kind, int n) { return kind + std::to_string(below(n)); };
    std::string text;
    for (int block = 0; block < blocks; ++block) {
        text += "L" + std::to_string(block) + ":\n";
        for (int i = below(8); i >= 0; --i) {
            const std::string guard = below(4) == 0 ? "@" + reg("%p", 9) + " " : "";
            switch (below(7)) {
                case 0:
                    text += guard + "add.s32 " + reg("%r", 12) + ", " + reg("%r", 12) + ", " +
                            reg("%r", 12) + ";\n";
                    break;
                case 1:
                    text +=
                        guard + "mul.wide.s32 " + reg("%d", 12) + ", " + reg("%r", 12) + ", 4;\n";
                    break;
                case 2:
                    text += guard + "setp.lt.s32 " + reg("%p", 9) + ", " + reg("%r", 12) + ", " +
                            reg("%r", 12) + ";\n";
                    break;
                case 3:
                    text += guard + "mov.b32 " + reg("%r", 12) + ", " + reg("%f", 12) + ";\n";
                    break;
                case 4:
                    text += guard + "ld.global.v2.f32 {%f1, " + reg("%f", 12) + "}, [" +
                            reg("%d", 12) + "];\n";
                    break;
                case 5:
                    text += guard + "add.s64 " + reg("%d", 12) + ", " + reg("%d", 12) + ", " +
                            reg("%d", 12) + ";\n";
                    break;
                default:
                    text +=
                        guard + "st.global.u32 [" + reg("%d", 12) + "], " + reg("%r", 12) + ";\n";
            }
        }
        text += "@" + reg("%p", 9) + " bra L" + std::to_string(below(blocks)) + ";\n";
    }
    // Every register has a value before, so that no path reads what nobody wrote.
    std::string start;
    for (int i = 0; i < 12; ++i) {
        const std::string n = std::to_string(i);
        start += "mov.u32 %r" + n + ", %clock;\nmov.u64 %d" + n + ", %clock64;\nmov.b32 %f" + n +
                 ", %r" + n + ";\n";
        start += i < 9 ? "setp.lt.s32 %p" + n + ", %r" + n + ", 3;\n" : "";
    }
    return kernel(start + text);
}

}  // namespace

TEST_CASE("decode gives no row to two values that both live, whatever the flow", "[decode]") {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const std::vector<std::string> problems =
            test::check_rows(parse_ptx(random_kernel(seed, 3 + static_cast<int>(seed % 12))));
        INFO("seed " << seed << ": " << (problems.empty() ? "" : problems[0]));
        CHECK(problems.empty());
    }
}

TEST_CASE("decode takes less than 0.3 s for 20000 instructions", "[decode]") {
    const Module module = parse_ptx(random_kernel(1, 3600));
    REQUIRE(module.functions.at(0).instructions.size() > 18000);
    const auto start = std::chrono::steady_clock::now();
    const auto code = decode(module, best_isa());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    CHECK(code->instructions.size() > 18000);
#ifdef NDEBUG
    CHECK(took.count() < 0.3);
#else
    CHECK(took.count() < 3.0);
#endif
}

TEST_CASE("decode refuses what is not emulated, with line and instruction", "[decode]") {
    CHECK(refused("bar.sync 0;\ntex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [a, {%r1, %r2}];") ==
          "13: instruction tex.2d.v4.f32.s32 is not emulated");
    CHECK_THAT(refused("frobnicate.b32 %r1, %r2;"),
               ContainsSubstring("instruction frobnicate.b32 is not emulated"));
    CHECK_THAT(refused("mov.u32 %r1, %envreg3;"), ContainsSubstring("special register %envreg3"));
    CHECK_THAT(refused("vote.ballot.b32 %r1, %p1;"), ContainsSubstring("without a mask of lanes"));
    CHECK_THAT(refused("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, %f3, %f4}, "
                       "%d1, %d2, %r1, 0, %p1, 1, 1, 0, 0;"),
               ContainsSubstring("sparse"));
    CHECK_THAT(refused("bar.sync 0;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.f16.f16 {%f1, %f2, "
                       "%f3, %f4}, %d1, %d2, %p1, 1, 1, 0, 0;"),
               ContainsSubstring("13: instruction wgmma.mma_async") &&
                   ContainsSubstring("not emulated: k is 32, expected 16"));
    CHECK_THAT(refused("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%f1, %f2, %f3, %f4}, "
                       "%d1, %d2, %p1, 1, 1, 0, 1;"),
               ContainsSubstring("only operands of 16 bits can be transposed"));
    CHECK_THAT(refused("atom.global.min.f32 %f1, [%d1], %f2;"),
               ContainsSubstring("that operation on that type"));
    CHECK_THAT(refusal(head + ".extern .func g();\n.visible .entry k()" + registers +
                       "call.uni g, ();\n}\n"),
               ContainsSubstring("function g is declared, but defined nowhere"));
}

TEST_CASE("decode refuses malformed instructions, with line and what is wrong", "[decode]") {
    // The parser finds names that nothing declares; a module may be made without it.
    Module module = parse_ptx(kernel("OUT:\nbra OUT;\nld.global.u32 %r1, [%d1];"));
    const auto changed = [&](std::size_t instruction, std::size_t operand) {
        Module copy = module;
        copy.functions[0].instructions.at(instruction).operands.at(operand).name = "unknown";
        try {
            (void)decode(copy, best_isa());
        } catch (const PtxError& error) {
            return std::to_string(error.place().ptx_line) + ": " + error.what();
        }
        return std::string("accepted");
    };
    CHECK(changed(0, 0) == "13: label unknown is not defined in bra");
    CHECK(changed(1, 0) == "14: register unknown is not declared in ld.global.u32");
    CHECK(changed(1, 1) == "14: unknown is not declared in ld.global.u32");
    CHECK(refused("bar.sync 0, 1, 2;") == "12: 3 operands, expected 1 to 2 in bar.sync");
    CHECK_THAT(refused("ld.global.v2.u32 {%r1, %r2, %r3}, [%d1];"),
               ContainsSubstring("3 destinations, expected 2"));
    CHECK_THAT(refused("ld.global.u64 %r1, [%d1];"), ContainsSubstring("register %r1"));
    CHECK_THAT(refused("shfl.sync.idx.b32 %r1, %r2, 1;"), ContainsSubstring("3 operands"));
    CHECK_THAT(refused("shfl.sync.idx.b32 %r1, %d2, 1, 31, -1;"),
               ContainsSubstring("register %d2 has 64 bits where at most 32 bits is wanted"));
    CHECK_THAT(refused("ld.param.u64 %d1, [n];"), ContainsSubstring("bytes 0 to 8 of n"));
    CHECK_THAT(refused("cp.async.ca.shared.global [%r1], [%d1], 5;"),
               ContainsSubstring("a copy of 5 bytes"));
    CHECK_THAT(refused("cp.async.wait_group %r1;"), ContainsSubstring("no constant"));
    CHECK_THAT(refused("atom.global.cas.b32 %r1, [%d1], %r2;"), ContainsSubstring("3 operands"));
    CHECK_THAT(refused(".shared .b8 s[300000];\nst.shared.u32 [s], 1;"),
               ContainsSubstring("at most 232448"));
    CHECK_THAT(refused(".local .b8 s[600000];\nst.local.u32 [s], 1;"),
               ContainsSubstring("at most 524288"));
    CHECK_THAT(refusal(head + ".visible .entry k(.param .b8 p[40000])" + registers + "ret;\n}\n"),
               ContainsSubstring("at most 32764"));
    CHECK_THAT(refusal(head + ".func f(.param .b32 x)\n" + registers +
                       "ret;\n}\n.visible .entry k()" + registers + "call.uni f, ();\n}\n"),
               ContainsSubstring("0 arguments of f, expected 1"));
}

TEST_CASE("decode survives PTX whose operands were exchanged", "[decode]") {
    const Module module = parse_ptx(random_kernel(5, 40));
    std::mt19937 random(7);
    int accepted = 0;
    for (int i = 0; i < 300; ++i) {
        Module changed = module;
        auto& instructions = changed.functions[0].instructions;
        Instruction& one = instructions[random() % instructions.size()];
        const Instruction& other = instructions[random() % instructions.size()];
        switch (random() % 4) {
            case 0:
                one.opcode = other.opcode;
                break;
            case 1:
                one.operands = other.operands;
                break;
            case 2:
                one.operands.resize(random() % 6);
                break;
            default:
                one.modifiers = other.modifiers;
        }
        try {
            (void)decode(changed, best_isa());
            ++accepted;
        } catch (const PtxError&) {
        }
    }
    CHECK(accepted < 300);
}

TEST_CASE("decode makes the predicate of explicit clusters from a row of 32 bits", "[decode]") {
    const Made code = lines("mov.pred %p1, %is_explicit_cluster;\n@%p1 st.global.u32 [%d1], 1;");
    const auto made = body(*code);
    REQUIRE(made.size() == 2);
    CHECK(made[0].kind == Kind::pure);
    REQUIRE(code->specials.size() == 1);
    CHECK(operands(*code, made[0]).at(1) == code->specials[0].second);
}

TEST_CASE("decode gives code without a source line that of the code before it", "[decode]") {
    const Made code = lines(
        "mov.u32 %r1, %clock;\n.loc 1 7 3\nld.global.u32 %r1, [%d1];\n.loc 1 0 0\n"
        "st.global.u32 [%d1], %r1;\n.loc 1 9 3\nst.global.u32 [%d1+4], %r1;\n.loc 1 0 0",
        ".file 1 \"candidate.cu\"");
    std::vector<int> found;
    for (const DecodedInstruction& each : code->instructions) {
        found.push_back(each.place.source_line);
    }
    CHECK(found == std::vector<int>{7, 7, 7, 9, 9});
    try {
        (void)lines(".loc 1 7 3\nret;\n.loc 1 0 0\nfrobnicate.b32 %r1, %r2;",
                    ".file 1 \"candidate.cu\"");
        FAIL("accepted");
    } catch (const PtxError& error) {
        CHECK(error.place().source_line == 7);
    }
}
