// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_spans.hpp"

#include <cstring>

#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

using Calls = std::vector<std::vector<std::uint32_t>>;

plan::ResolvedArgument scalar(std::initializer_list<int> bytes) {
    plan::ResolvedArgument argument;
    argument.kind = plan::Argument::Kind::integer;
    argument.size = bytes.size();
    std::size_t i = 0;
    for (const int byte : bytes) argument.value[i++] = static_cast<std::byte>(byte);
    return argument;
}

plan::ResolvedArgument buffer(const std::string& name) {
    plan::ResolvedArgument argument;
    argument.kind = plan::Argument::Kind::buffer;
    argument.name = name;
    return argument;
}

}  // namespace

TEST_CASE("a call's span is from its first start to its last end", "[measure]") {
    const std::vector<ActivityRecord> records{{7, 1'000, 3'000}, {8, 3'500, 4'000}, {9, 0, 1}};
    const std::vector<CallSpan> spans = assemble_spans(records, Calls{{7, 8}});
    REQUIRE(spans.size() == 1);
    CHECK(spans[0].total_s == Approx(3e-6));
    REQUIRE(spans[0].step_s.size() == 2);
    CHECK(spans[0].step_s[0] == Approx(2e-6));
    CHECK(spans[0].step_s[1] == Approx(0.5e-6));
}

TEST_CASE("records may come in any order and other work is ignored", "[measure]") {
    const std::vector<ActivityRecord> records{
        {4, 500, 600}, {3, 50'000, 90'000}, {2, 300, 400}, {1, 100, 200}};
    const std::vector<CallSpan> spans = assemble_spans(records, Calls{{1, 2}, {4}});
    REQUIRE(spans.size() == 2);
    CHECK(spans[0].total_s == Approx(300e-9));
    CHECK(spans[1].total_s == Approx(100e-9));
}

TEST_CASE("no time is made from incomplete records", "[measure]") {
    using test::error_of;
    SECTION("a missing record") {
        const auto error = error_of([] {
            (void)assemble_spans(std::vector<ActivityRecord>{{1, 1, 2}}, Calls{{1}, {1, 5}});
        });
        REQUIRE(error);
        CHECK_THAT(*error, ContainsSubstring("step 1 of timed call 1"));
        CHECK_THAT(*error, ContainsSubstring("found 0"));
    }
    SECTION("two records of one step") {
        CHECK(error_of([] {
            (void)assemble_spans(std::vector<ActivityRecord>{{1, 1, 2}, {1, 3, 4}}, Calls{{1}});
        }));
    }
    SECTION("a start of zero") {
        CHECK(error_of([] {
            (void)assemble_spans(std::vector<ActivityRecord>{{1, 0, 2}}, Calls{{1}});
        }));
    }
    SECTION("an end that is not after the start") {
        CHECK(error_of([] {
            (void)assemble_spans(std::vector<ActivityRecord>{{1, 5, 5}}, Calls{{1}});
        }));
    }
    SECTION("a call without steps") {
        CHECK(error_of([] { (void)assemble_spans({}, Calls{{}}); }));
    }
}

TEST_CASE("arguments are packed in order, little-endian, pointers at their values", "[measure]") {
    const std::vector<plan::ResolvedArgument> arguments{buffer("x"), scalar({1, 2, 3, 4}),
                                                        buffer("y")};
    PackedArguments packed =
        pack_arguments(arguments, {{"x", 0x1122334455667788ULL}, {"y", 0x100ULL}});
    const PackedArguments moved = std::move(packed);
    REQUIRE(moved.pointers.size() == 3);
    std::uint64_t x = 0;
    std::uint32_t n = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, moved.pointers[0], sizeof(x));
    std::memcpy(&n, moved.pointers[1], sizeof(n));
    std::memcpy(&y, moved.pointers[2], sizeof(y));
    CHECK(x == 0x1122334455667788ULL);
    CHECK(n == 0x04030201U);
    CHECK(y == 0x100ULL);
}

TEST_CASE("an argument without an address is an error that names it", "[measure]") {
    const std::vector<plan::ResolvedArgument> arguments{buffer("ghost")};
    const auto error = test::error_of([&] { (void)pack_arguments(arguments, {}); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("ghost"));
}

TEST_CASE("sample counts follow the depth and shrink for long kernels", "[measure]") {
    CHECK(sample_count(EvaluationDepth::check, 1e-4, 2, 1.0).quads == 0);
    CHECK(sample_count(EvaluationDepth::screen, 1e-4, 2, 1.0).quads == 10);
    CHECK(sample_count(EvaluationDepth::promotion, 1e-4, 4, 10.0).quads == 40);
    CHECK_FALSE(sample_count(EvaluationDepth::promotion, 1e-4, 4, 10.0).reduced);
    // Ten quads of four 60 ms calls would fit, but a call over 50 ms needs fewer.
    CHECK(sample_count(EvaluationDepth::screen, 0.06, 4, 10.0).quads == 3);
    CHECK(sample_count(EvaluationDepth::promotion, 0.06, 4, 100.0).quads == 13);
    // The budget allows five quads.
    CHECK(sample_count(EvaluationDepth::screen, 0.01, 4, 0.2).quads == 5);
    CHECK(sample_count(EvaluationDepth::screen, 0.01, 4, 0.2).reduced);
    // Never fewer than three, also when nothing is left.
    CHECK(sample_count(EvaluationDepth::screen, 1.0, 4, 0.1).quads == 3);
    CHECK(sample_count(EvaluationDepth::screen, 1.0, 4, -5.0).quads == 3);
}

TEST_CASE("tensors lie against either guard or near the end, on multiples of 256", "[measure]") {
    constexpr std::size_t capacity = 2 << 20;
    CHECK(place(capacity, 1000, 0, 65536) == capacity - 1024);
    CHECK(place(capacity, 1000, 1, 65536) == 0);
    CHECK(place(capacity, capacity, 0, 65536) == 0);
    for (std::uint64_t step = 2; step < 2000; step += 7) {
        const std::size_t offset = place(capacity, 1000, step, 65536);
        CHECK(offset % 256 == 0);
        CHECK(offset + 1024 <= capacity);
        CHECK(offset >= capacity - 1024 - 65536);
    }
    CHECK(place(capacity, capacity - 256, 12345, 65536) <= 256);
}
