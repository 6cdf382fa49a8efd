// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_spans.hpp"

#include <array>
#include <cstring>
#include <set>

#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

/// A step that is the one call with this id.
StepIds one(std::uint32_t id) {
    return {StepKind::one, {id - 1, id}};
}

StepIds many(std::uint32_t after, std::uint32_t last) {
    return {StepKind::many, {after, last}};
}

/// A call before which the timer uses the id after `opened`.
CallIds call(std::uint32_t opened, std::vector<StepIds> steps) {
    CallIds ids;
    ids.opened = opened;
    ids.range.after = opened + 1;
    ids.range.last = steps.empty() ? opened + 1 : steps.back().range.last;
    ids.steps = std::move(steps);
    return ids;
}

/// Empty when there is none.
std::string refusal(const std::vector<ActivityRecord>& records, const std::vector<CallIds>& calls) {
    return test::error_of([&] { (void)assemble_spans(records, calls); }).value_or("");
}

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
    const std::vector<ActivityRecord> records{{3, 100, 900}, {7, 1'000, 3'000}, {8, 3'500, 4'000}};
    const std::vector<CallSpan> spans =
        assemble_spans(records, std::vector{call(5, {one(7), one(8)})});
    REQUIRE(spans.size() == 1);
    CHECK(spans[0].total_s == Approx(3e-6));
    REQUIRE(spans[0].step_s.size() == 2);
    CHECK(spans[0].step_s[0] == Approx(2e-6));
    CHECK(spans[0].step_s[1] == Approx(0.5e-6));
}

TEST_CASE("records may come in any order, and what the timer enqueues is not in the way",
          "[measure]") {
    // 1 flushes, 2 stamps, 3 and 4 are the first call, 5 stamps; 6 and 7 likewise.
    const std::vector<ActivityRecord> records{{8, 950, 960}, {7, 800, 900}, {4, 300, 400},
                                              {1, 10, 90},   {2, 95, 110},  {3, 100, 200},
                                              {5, 400, 410}, {6, 500, 510}};
    std::vector<CallIds> calls{call(1, {one(3), one(4)}), call(5, {one(7)})};
    const std::vector<CallSpan> spans = assemble_spans(records, calls);
    REQUIRE(spans.size() == 2);
    CHECK(spans[0].total_s == Approx(300e-9));
    CHECK(spans[1].total_s == Approx(100e-9));
}

TEST_CASE("a library's call may make several records, at least one", "[measure]") {
    const std::vector<ActivityRecord> records{{11, 100, 200}, {12, 150, 350}, {14, 400, 500}};
    const std::vector<CallSpan> spans =
        assemble_spans(records, std::vector{call(9, {many(10, 13), one(14)})});
    REQUIRE(spans.size() == 1);
    CHECK(spans[0].total_s == Approx(400e-9));
    CHECK(spans[0].step_s[0] == Approx(250e-9));
    CHECK(spans[0].step_s[1] == Approx(100e-9));
    const auto error = test::error_of([&] {
        (void)assemble_spans(records, std::vector{call(9, {many(10, 14), many(14, 20)})});
    });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("step 1 of timed call 0"));
    CHECK_THAT(*error, ContainsSubstring("found 0"));
}

TEST_CASE("correlation ids wrap around", "[measure]") {
    constexpr std::uint32_t top = UINT32_MAX;
    CHECK(is_later(2, top));
    CHECK_FALSE(is_later(top, 2));
    CHECK_FALSE(is_later(7, 7));
    const std::vector<ActivityRecord> records{{top - 3, 10, 90}, {1, 300, 400}, {top, 100, 200}};
    CallIds ids = call(top - 2, {one(top), many(top, 4)});
    const std::vector<CallSpan> spans = assemble_spans(records, std::vector{ids});
    REQUIRE(spans.size() == 1);
    CHECK(spans[0].total_s == Approx(300e-9));
}

TEST_CASE("no time is made from incomplete records", "[measure]") {
    SECTION("a missing record") {
        const std::string error = refusal({{3, 1, 2}}, {call(1, {one(3)}), call(4, {one(6)})});
        CHECK_THAT(error, ContainsSubstring("step 0 of timed call 1"));
        CHECK_THAT(error, ContainsSubstring("found 0"));
    }
    SECTION("two records of one step") {
        CHECK_THAT(refusal({{3, 1, 2}, {3, 3, 4}}, {call(1, {one(3)})}),
                   ContainsSubstring("found 2"));
    }
    SECTION("a start of zero") {
        CHECK_THAT(refusal({{3, 0, 2}}, {call(1, {one(3)})}), ContainsSubstring("no valid time"));
    }
    SECTION("an end that is not after the start") {
        CHECK_THAT(refusal({{3, 5, 5}}, {call(1, {one(3)})}), ContainsSubstring("no valid time"));
    }
    SECTION("a call without steps") {
        CHECK_THAT(refusal({}, {call(1, {})}), ContainsSubstring("no step"));
    }
}

TEST_CASE("a call during which something else ran has no time", "[measure]") {
    SECTION("work that belongs to no step") {
        CallIds ids = call(1, {one(3)});
        ids.range.last = 5;
        CHECK_THAT(refusal({{3, 100, 200}, {4, 300, 400}}, {ids}),
                   ContainsSubstring("2 activity records, of which 1 belong to its steps"));
    }
    SECTION("a start before the flush has ended") {
        CHECK_THAT(refusal({{1, 50, 1'150}, {3, 1'000, 2'000}}, {call(1, {one(3)})}),
                   ContainsSubstring("150 ns before the work ahead of it has ended"));
    }
    SECTION("later work that starts before the end") {
        CHECK_THAT(refusal({{3, 1'000, 2'000}, {9, 1'500, 1'600}}, {call(1, {one(3)})}),
                   ContainsSubstring("later work starts 500 ns before its end"));
    }
    SECTION("two ticks of the clock are no overlap") {
        CHECK(refusal({{1, 50, 1'064}, {3, 1'000, 2'000}, {9, 1'936, 2'600}}, {call(1, {one(3)})})
                  .empty());
    }
}

TEST_CASE("clocks agree within 3 us or 5 percent in four calls of five", "[measure]") {
    CHECK(clocks_disagree({}).empty());
    std::vector<CallSpan> spans(10);
    for (CallSpan& span : spans) span.total_s = 10e-6;
    CHECK(clocks_disagree(spans).empty());  // one clock alone
    for (CallSpan& span : spans) {
        span.events_s = 12.9e-6;
        span.globaltimer_s = 7.1e-6;
    }
    CHECK(clocks_disagree(spans).empty());
    spans[0].events_s = 20e-6;
    spans[1].events_s = -5e-6;
    CHECK(clocks_disagree(spans).empty());
    spans[2].events_s = 13.2e-6;
    CHECK_THAT(clocks_disagree(spans), ContainsSubstring("events") &&
                                           ContainsSubstring("3 us and 5 %") &&
                                           ContainsSubstring("3 of 10 timed calls"));
    for (CallSpan& span : spans) {
        span.events_s.reset();
        span.globaltimer_s = 1e-6;
    }
    CHECK_THAT(clocks_disagree(spans), ContainsSubstring("global timer") &&
                                           ContainsSubstring("10 of 10") &&
                                           ContainsSubstring("by 9.00 us in the median"));
}

TEST_CASE("long calls may differ by five percent between clocks", "[measure]") {
    std::vector<CallSpan> spans(5);
    for (CallSpan& span : spans) {
        span.total_s = 1e-3;
        span.events_s = 1.049e-3;
    }
    CHECK(clocks_disagree(spans).empty());
    for (CallSpan& span : spans) span.events_s = 1.051e-3;
    CHECK_FALSE(clocks_disagree(spans).empty());
}

TEST_CASE("a summary has the medians of the clocks that were read in every call", "[measure]") {
    std::vector<CallSpan> spans(3);
    for (std::size_t i = 0; i < spans.size(); ++i) {
        spans[i].total_s = static_cast<double>(i + 1) * 1e-6;
        spans[i].events_s = static_cast<double>(i + 1) * 2e-6;
        if (i != 0) spans[i].globaltimer_s = 1e-6;
    }
    const Timing timing = summarize_spans(spans, "cupti");
    CHECK(timing.median_s == Approx(2e-6));
    CHECK(timing.samples == 3);
    CHECK(timing.clock == "cupti");
    REQUIRE(timing.events_median_s);
    CHECK(*timing.events_median_s == Approx(4e-6));
    CHECK_FALSE(timing.globaltimer_median_s);
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

TEST_CASE("a tensor map is passed where it is encoded, beside other arguments", "[measure]") {
    plan::ResolvedArgument map;
    map.kind = plan::Argument::Kind::tensor_map;
    map.name = "m";
    map.size = 128;
    const std::vector<plan::ResolvedArgument> arguments{buffer("x"), map, scalar({9})};
    const std::array<std::byte, 128> encoded{};
    const PackedArguments packed =
        pack_arguments(arguments, {{"x", 0x100ULL}}, {{"m", encoded.data()}});
    REQUIRE(packed.pointers.size() == 3);
    CHECK(packed.pointers[1] == encoded.data());
    CHECK(*static_cast<const std::byte*>(packed.pointers[2]) == std::byte{9});
    const auto error = test::error_of([&] { (void)pack_arguments(arguments, {{"x", 0x100ULL}}); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("tensor map m is not encoded"));
}

TEST_CASE("an argument without an address is an error that names it", "[measure]") {
    const std::vector<plan::ResolvedArgument> arguments{buffer("ghost")};
    const auto error = test::error_of([&] { (void)pack_arguments(arguments, {}); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("ghost"));
}

TEST_CASE("sample counts follow the depth and shrink for long kernels", "[measure]") {
    CHECK(sample_count(EvaluationDepth::check, 1e-4, 1e-4, 2, 1.0).quads == 0);
    CHECK(sample_count(EvaluationDepth::screen, 1e-4, 1e-4, 2, 1.0).quads == 10);
    CHECK(sample_count(EvaluationDepth::promotion, 1e-4, 1e-4, 4, 10.0).quads == 40);
    CHECK_FALSE(sample_count(EvaluationDepth::promotion, 1e-4, 1e-4, 4, 10.0).reduced);
    // Short kernels are noisier.
    CHECK(sample_count(EvaluationDepth::promotion, 1e-4, 5e-6, 4, 10.0).quads == 120);
    CHECK(sample_count(EvaluationDepth::screen, 1e-4, 5e-6, 4, 10.0).quads == 10);
    // Ten quads of four 60 ms calls would fit, but a call over 50 ms needs fewer.
    CHECK(sample_count(EvaluationDepth::screen, 0.06, 1e-4, 4, 10.0).quads == 3);
    CHECK(sample_count(EvaluationDepth::promotion, 0.06, 1e-4, 4, 100.0).quads == 13);
    // The budget allows five quads.
    CHECK(sample_count(EvaluationDepth::screen, 0.01, 1e-4, 4, 0.2).quads == 5);
    CHECK(sample_count(EvaluationDepth::screen, 0.01, 1e-4, 4, 0.2).reduced);
    // Never fewer than three, also when nothing is left.
    CHECK(sample_count(EvaluationDepth::screen, 1.0, 1e-4, 4, 0.1).quads == 3);
    CHECK(sample_count(EvaluationDepth::screen, 1.0, 1e-4, 4, -5.0).quads == 3);
}

TEST_CASE("tensors lie against either guard or anywhere, on multiples of 256", "[measure]") {
    constexpr std::size_t capacity = 2 << 20;
    CHECK(place(capacity, 1000, 0) == capacity - 1024);
    CHECK(place(capacity, 1000, 1) == 0);
    CHECK(place(capacity, capacity, 0) == 0);
    for (std::uint64_t step = 2; step < 2000; step += 7) {
        const std::size_t offset = place(capacity, 1000, step);
        CHECK(offset % 256 == 0);
        CHECK(offset + 1024 <= capacity);
    }
    CHECK(place(capacity, capacity - 256, 12345) <= 256);
}

TEST_CASE("any four calls see both guards and no guard twice in a row", "[measure]") {
    std::set<std::uint64_t> starts;
    for (std::uint64_t secret = 1; secret <= 50; ++secret) {
        for (std::uint64_t tensor = 0; tensor < 3; ++tensor) {
            std::uint64_t before = 2;
            for (std::uint64_t block = 0; block < 40; block += 4) {
                int ends = 0;
                int begins = 0;
                for (std::uint64_t call = block; call < block + 4; ++call) {
                    const std::uint64_t step = placement_step(secret, tensor, call);
                    ends += step == 0 ? 1 : 0;
                    begins += step == 1 ? 1 : 0;
                    CHECK((step >= 2 || step != before));
                    before = step;
                    starts.insert(place(64 << 20, 4096, step));
                }
                CHECK(ends == 1);
                CHECK(begins == 1);
            }
        }
    }
    // 3000 places anywhere among 262,128: hardly any twice.
    CHECK(starts.size() > 2950);
    // Tensors move independently of each other.
    int together = 0;
    for (std::uint64_t call = 0; call < 1000; ++call) {
        const bool same = placement_step(7, 0, call) == 0 && placement_step(7, 1, call) == 0;
        together += same ? 1 : 0;
    }
    CHECK(together > 20);
    CHECK(together < 130);
}
