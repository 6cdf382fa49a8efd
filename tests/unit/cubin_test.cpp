// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_cubin.hpp"

#include <random>
#include <string>

#include "base/files.hpp"
#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::compile;

namespace {

/// `extern "C" __global__ __launch_bounds__(128) void sample(float* x, int n, double q)` with 100
/// floats of shared memory and the globals `counter` (int[10]) and `start` (int = 5), for sm_90a by
/// CUDA 13.0.
std::string sample() {
    return read_file(test::source_folder() / "tests/fuzz/corpus/cubin/sample_sm_90a.cubin");
}

}  // namespace

TEST_CASE("a cubin tells registers, shared memory, bounds, parameters and globals", "[compiler]") {
    const CubinFacts facts = read_cubin(sample());
    REQUIRE(facts.kernels.count("sample") == 1);
    const CubinKernel& kernel = facts.kernels.at("sample");
    CHECK(kernel.registers.value_or(0) > 8);
    CHECK(kernel.stack_bytes == 0);
    CHECK(kernel.static_shared_bytes == 400);
    CHECK(kernel.max_threads_per_block == 128);
    CHECK(kernel.parameter_bytes == std::vector<int>{8, 4, 8});
    CHECK(kernel.opcode_counts.at("barrier") == 1);
    CHECK(kernel.opcode_counts.at("st.shared") == 1);
    CHECK(kernel.opcode_counts.at("st.global") >= 1);
    CHECK(facts.writable_globals ==
          std::vector<std::pair<std::string, std::uint64_t>>{{"counter", 40}, {"start", 4}});
    CHECK(facts.global_bytes == 44);
}

TEST_CASE("anything that is not a cubin is refused with a sentence", "[compiler]") {
    CHECK_THAT(test::error_of([] { (void)read_cubin(""); }).value_or(""),
               ContainsSubstring("not a 64-bit"));
    std::string other = sample();
    other[18] = 62;  // e_machine
    other[19] = 0;
    CHECK_THAT(test::error_of([&] { (void)read_cubin(other); }).value_or(""),
               ContainsSubstring("not for a CUDA device"));
}

TEST_CASE("a cubin cut off anywhere is read or refused, never more", "[compiler]") {
    const std::string whole = sample();
    int refused = 0;
    for (std::size_t length = 0; length < whole.size(); length += 7) {
        if (test::error_of([&] { (void)read_cubin(whole.substr(0, length)); })) ++refused;
    }
    CHECK(refused > 0);
}

TEST_CASE("a damaged cubin does no harm", "[compiler]") {
    const std::string whole = sample();
    std::mt19937 random(7);
    int read = 0;
    for (int round = 0; round < 2000; ++round) {
        std::string damaged = whole;
        for (int i = 0; i < 8; ++i) {
            damaged[random() % damaged.size()] = static_cast<char>(random());
        }
        if (!test::error_of([&] { (void)read_cubin(damaged); })) ++read;
    }
    CHECK(read > 0);
}
