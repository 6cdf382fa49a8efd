// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "plan/plan.hpp"

// The parts of measuring that need no device: arguments, spans, sample counts, pair order.

namespace kernelforge::worker {

/// One kernel or memset as CUPTI saw it; nanoseconds of one clock.
struct ActivityRecord {
    std::uint32_t correlation = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
};

/// Times of one call of a plan.
struct CallSpan {
    double total_s = 0.0;        ///< first start to last end
    std::vector<double> step_s;  ///< of each step alone, in order
};

/// Spans of calls from the records of a block. `calls` holds the correlation ids of each call's
/// steps. Records of other work are ignored; a step with no record, with two, with a zero or
/// reversed time is an error: a time is never made from what is left.
/// @throws Error device_unavailable naming call and step
[[nodiscard]] std::vector<CallSpan> assemble_spans(
    std::span<const ActivityRecord> records, std::span<const std::vector<std::uint32_t>> calls);

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

/// @throws Error internal when a buffer has no address
[[nodiscard]] PackedArguments pack_arguments(std::span<const plan::ResolvedArgument> arguments,
                                             const Addresses& addresses);

/// How many samples a workload gets.
struct SampleCount {
    int quads = 0;  ///< of four calls each; without an opponent, two calls of a quad are made
    bool reduced = false;  ///< fewer than the depth asks for
};

/// Quads at a depth: screen 10, promotion 40, check 0 (docs/measuring.md). Kernels over 50 ms a
/// call, and blocks that would take longer than `budget_s`, get fewer, never under 3. `call_s`:
/// wall time of one call with its flush, > 0. `calls_per_quad` is 4 with an opponent, else 2.
[[nodiscard]] SampleCount sample_count(EvaluationDepth depth, double call_s, int calls_per_quad,
                                       double budget_s);

/// Order of the four calls of each quad: true is the opponent. ABBA or BAAB, at random by `seed`.
[[nodiscard]] std::vector<std::array<bool, 4>> quad_order(std::uint64_t seed, int quads);

/// Where a tensor of `bytes` lies in a mapped range of `capacity` bytes: an offset that is a
/// multiple of 256. `step` 0 puts its end against the end of the range (up to 255 bytes of slack),
/// `step` 1 its start against the start, other values at a distance from the end that depends on
/// `step`, at most `spread` bytes.
[[nodiscard]] std::size_t place(std::size_t capacity, std::size_t bytes, std::uint64_t step,
                                std::size_t spread);

}  // namespace kernelforge::worker
