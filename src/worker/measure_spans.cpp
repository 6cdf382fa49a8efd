// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_spans.hpp"

#include <algorithm>
#include <random>
#include <unordered_map>

#include "kernelforge/error.hpp"

namespace kernelforge::worker {

namespace {

constexpr double seconds_per_ns = 1e-9;
constexpr int least_quads = 3;
constexpr double long_call_s = 0.05;
constexpr std::size_t tensor_alignment = 256;

[[noreturn]] void fail(std::size_t call, std::size_t step, const std::string& what) {
    throw Error(ErrorCode::device_unavailable, "step " + std::to_string(step) + " of timed call " +
                                                   std::to_string(call) + ": " + what);
}

}  // namespace

std::vector<CallSpan> assemble_spans(std::span<const ActivityRecord> records,
                                     std::span<const std::vector<std::uint32_t>> calls) {
    std::unordered_map<std::uint32_t, std::vector<const ActivityRecord*>> by_correlation;
    for (const std::vector<std::uint32_t>& call : calls) {
        for (const std::uint32_t correlation : call) by_correlation[correlation];
    }
    for (const ActivityRecord& record : records) {
        const auto found = by_correlation.find(record.correlation);
        if (found != by_correlation.end()) found->second.push_back(&record);
    }
    std::vector<CallSpan> spans;
    spans.reserve(calls.size());
    for (std::size_t call = 0; call < calls.size(); ++call) {
        if (calls[call].empty()) fail(call, 0, "no step was recorded");
        CallSpan span;
        std::uint64_t first = UINT64_MAX;
        std::uint64_t last = 0;
        for (std::size_t step = 0; step < calls[call].size(); ++step) {
            const auto& found = by_correlation.at(calls[call][step]);
            if (found.size() != 1) {
                fail(call, step,
                     "expected one activity record, found " + std::to_string(found.size()));
            }
            const ActivityRecord& record = *found.front();
            if (record.start_ns == 0 || record.end_ns <= record.start_ns) {
                fail(call, step, "its activity record has no valid time");
            }
            span.step_s.push_back(static_cast<double>(record.end_ns - record.start_ns) *
                                  seconds_per_ns);
            first = std::min(first, record.start_ns);
            last = std::max(last, record.end_ns);
        }
        span.total_s = static_cast<double>(last - first) * seconds_per_ns;
        spans.push_back(std::move(span));
    }
    return spans;
}

PackedArguments pack_arguments(std::span<const plan::ResolvedArgument> arguments,
                               const Addresses& addresses) {
    PackedArguments packed;
    packed.values.resize(arguments.size());
    packed.pointers.resize(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const plan::ResolvedArgument& argument = arguments[i];
        if (argument.kind == plan::Argument::Kind::buffer) {
            const auto found = addresses.find(argument.name);
            if (found == addresses.end()) {
                throw Error(ErrorCode::internal, "buffer " + argument.name + " has no address");
            }
            std::uint64_t address = found->second;
            for (std::byte& byte : packed.values[i]) {
                byte = static_cast<std::byte>(address & 0xFFU);
                address >>= 8U;
            }
        } else {
            packed.values[i] = argument.value;
        }
        packed.pointers[i] = packed.values[i].data();
    }
    return packed;
}

SampleCount sample_count(EvaluationDepth depth, double call_s, int calls_per_quad,
                         double budget_s) {
    const int wanted = depth == EvaluationDepth::promotion ? 40
                       : depth == EvaluationDepth::screen  ? 10
                                                           : 0;
    if (wanted == 0) return {};
    const double quad_s = call_s * calls_per_quad;
    const double affordable = budget_s / std::max(quad_s, 1e-9);
    int quads = affordable >= wanted ? wanted : static_cast<int>(std::max(affordable, 0.0));
    // Noise of a long kernel is far below a percent, so a third of the samples says as much.
    if (call_s > long_call_s) quads = std::min(quads, wanted / 3);
    quads = std::max(quads, least_quads);
    return {quads, quads < wanted};
}

std::vector<std::array<bool, 4>> quad_order(std::uint64_t seed, int quads) {
    std::mt19937_64 generator(seed);
    std::vector<std::array<bool, 4>> order(static_cast<std::size_t>(std::max(quads, 0)));
    for (std::array<bool, 4>& quad : order) {
        const bool first = (generator() & 1U) != 0;
        quad = {first, !first, !first, first};
    }
    return order;
}

std::size_t place(std::size_t capacity, std::size_t bytes, std::uint64_t step, std::size_t spread) {
    const std::size_t needed = (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
    const std::size_t room = capacity - needed;
    if (step == 0) return room;
    if (step == 1) return 0;
    const std::size_t positions = std::min(room, spread) / tensor_alignment + 1;
    return room - (step % positions) * tensor_alignment;
}

}  // namespace kernelforge::worker
