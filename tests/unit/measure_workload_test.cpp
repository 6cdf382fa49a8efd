// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_workload.hpp"

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

TEST_CASE("times spread only as far as those of the same inputs do", "[measure]") {
    // Ten times as long on some data is no trouble.
    CHECK(spread_of({1.0, 1.0, 1.0, 10.0, 10.0, 10.0}, {0, 0, 0, 1, 1, 1}) == Approx(1.0));
    CHECK(spread_of({1.0, 3.0, 1.0, 3.0, 1.0, 3.0}, {0, 0, 0, 0, 0, 0}) == Approx(3.0));
    CHECK(spread_of({1.0, 5.0}, {0, 1}) == 1.0);
    CHECK(spread_of({}, {}) == 1.0);
}

TEST_CASE("globals beyond a few counters are refused with the way to do it", "[measure]") {
    CompiledCandidate candidate;
    CompileResult& build = candidate.builds.emplace_back();
    build.cubin = read_file(test::source_folder() / "tests/fuzz/corpus/cubin/sample_sm_90a.cubin");
    build.writable_globals = {{"counter", 40}, {"start", 4}};
    refuse_large_globals(candidate);
    // The size of `counter` in the symbol table: 40 becomes 65536.
    const std::string size("\x28\0\0\0\0\0\0\0", 8);
    for (std::size_t at = 0; (at = build.cubin.find(size, at)) != std::string::npos; ++at) {
        std::string patched = build.cubin;
        patched.replace(at, 8, std::string("\0\0\x1\0\0\0\0\0", 8));
        CompiledCandidate larger = candidate;
        larger.builds[0].cubin = patched;
        const auto refusal = test::error_of([&] { refuse_large_globals(larger); });
        if (!refusal) continue;
        CHECK_THAT(*refusal, ContainsSubstring("65540 bytes"));
        CHECK_THAT(*refusal, ContainsSubstring("init=zero"));
        return;
    }
    FAIL("no symbol of 40 bytes was found");
}

TEST_CASE("reports of the emulator name functions as the source does", "[measure]") {
    const auto said = [](const std::string& message) {
        emulator::Report report;
        report.message = message;
        return message_of(report);
    };
    CHECK(said("kernel _Z4geluPK6__halfS1_PS_i, line 3: thread (0, 0, 0)") ==
          "kernel gelu, line 3: thread (0, 0, 0)");
    CHECK(said("kernel _Z1kIfEvPT_") == "kernel k<float>");
    CHECK(said("kernel _ZN12_GLOBAL__N_11kEPf: x") == "kernel (anonymous namespace)::k: x");
    CHECK(said("kernel _ZN1a1kEPFviE ends") == "kernel a::k ends");
    CHECK(said("kernel i of __Zero, _Zx") == "kernel i of __Zero, _Zx");
    CHECK(said("").empty());
}
