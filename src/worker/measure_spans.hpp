// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"

// The parts of measuring that need no device: arguments, spans, sample counts, pair order.

namespace kernelforge::worker {

/// One kernel, memset or copy as CUPTI saw it; nanoseconds of one clock.
struct ActivityRecord {
    std::uint32_t correlation = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
};

/// Whether correlation id `a` was given after `b`, modulo 2^32.
[[nodiscard]] constexpr bool is_later(std::uint32_t a, std::uint32_t b) noexcept {
    return a != b && a - b < 0x80000000U;
}

/// How many activity records a step makes.
enum class StepKind {
    one,   ///< a launch or a memset
    many,  ///< a library's call: at least one kernel, memset or copy
};

/// The ids of a range of work: after `after`, up to and with `last`.
struct CorrelationRange {
    std::uint32_t after = 0;
    std::uint32_t last = 0;
};

struct StepIds {
    StepKind kind = StepKind::one;
    CorrelationRange range;
};

/// Correlation ids around one timed call.
struct CallIds {
    std::uint32_t opened = 0;  ///< newest before what the timer itself enqueues before the call
    CorrelationRange range;    ///< of the call
    std::vector<StepIds> steps;
};

/// Times of one call of a plan, by the clocks that were read.
struct CallSpan {
    double total_s = 0.0;                 ///< first start to last end, by the primary clock
    std::vector<double> step_s;           ///< of each step alone, in order
    std::optional<double> events_s;       ///< between events, less their offset
    std::optional<double> globaltimer_s;  ///< between stamps of `%globaltimer`, less their offset
};

/// Spans of calls from the records of a block. A time is never made from what is left, and not
/// where something else ran: an error is a step with no record, a step of kind `one` with two, a
/// zero or reversed time, a record in the range of a call but of no step, one of a call that starts
/// before all work enqueued earlier (the flush is the last of it) has ended, and later work that
/// starts before a call has ended. What the timer itself enqueues before a call is not in its way.
/// @throws Error device_unavailable naming call and step
[[nodiscard]] std::vector<CallSpan> assemble_spans(std::span<const ActivityRecord> records,
                                                   std::span<const CallIds> calls);

/// Whether events and `%globaltimer` say the same as the primary clock: empty, or a sentence with
/// the numbers. A reading may differ by 3 us or 5 % of the call, whichever is more, and at most one
/// call of five may have one that differs more (so that the median difference is within the limit
/// too). Clocks that were not read say nothing. Source of the limits: what one launch gap and one
/// tick of the slower clocks can amount to (docs/measuring.md).
[[nodiscard]] std::string clocks_disagree(std::span<const CallSpan> spans);

/// Statistics of the calls of one side, with the medians of the other clocks where every call has
/// them. `clock` as `Timing::clock`.
/// @throws Error invalid_argument: no span
[[nodiscard]] Timing summarize_spans(std::span<const CallSpan> spans, std::string clock);

/// Values of a launch's parameters and pointers to them, as cuLaunchKernelEx wants them. The object
/// may be moved, not copied: the pointers are into `values`.
struct PackedArguments {
    std::vector<std::array<std::byte, 8>> values;
    std::vector<void*> pointers;

    PackedArguments() = default;
    PackedArguments(PackedArguments&&) noexcept = default;
    PackedArguments& operator=(PackedArguments&&) noexcept = default;
    PackedArguments(const PackedArguments&) = delete;
    PackedArguments& operator=(const PackedArguments&) = delete;
};

/// Device addresses of buffers by name.
using Addresses = std::map<std::string, std::uint64_t>;

/// Encoded tensor maps by name, 128 bytes each, in memory of the caller.
using EncodedMaps = std::map<std::string, const void*>;

/// Pointers of tensor maps are those of `maps`, which must stay until the launch.
/// @throws Error internal when a buffer has no address or a tensor map is not encoded
[[nodiscard]] PackedArguments pack_arguments(std::span<const plan::ResolvedArgument> arguments,
                                             const Addresses& addresses,
                                             const EncodedMaps& maps = {});

/// How many samples a workload gets.
struct SampleCount {
    int quads = 0;  ///< of four calls each; without an opponent, two calls of a quad are made
    bool reduced = false;  ///< fewer than the depth asks for
};

/// Quads at a depth (docs/measuring.md): screen and admission 10; promotion 40, and 120 where a
/// call takes less than 20 us by `span_s`, whose noise is larger; others 0. Kernels over 50 ms a
/// call, and blocks that would take longer than `budget_s`, get fewer, never under 3. `call_s`:
/// wall time of one call with all that comes before it, > 0. `calls_per_quad` is 4 with an
/// opponent, else 2.
[[nodiscard]] SampleCount sample_count(EvaluationDepth depth, double call_s, double span_s,
                                       int calls_per_quad, double budget_s);

/// Where a tensor of `bytes` lies in a mapped range of `capacity` bytes: an offset that is a
/// multiple of 256. `step` 0 puts its end against the end of the range (up to 255 bytes of slack),
/// `step` 1 its start against the start, other values anywhere.
[[nodiscard]] std::size_t place(std::size_t capacity, std::size_t bytes, std::uint64_t step);

/// The `step` of `place` for a tensor in a call, the same law for checks and timed calls: of four
/// calls from a multiple of four, one lies against either guard and two anywhere, in random order;
/// no two calls in a row against the same guard.
[[nodiscard]] std::uint64_t placement_step(std::uint64_t secret, std::uint64_t tensor,
                                           std::uint64_t call);

}  // namespace kernelforge::worker
