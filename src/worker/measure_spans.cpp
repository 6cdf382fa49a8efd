// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_spans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>
#include <utility>

#include "kernelforge/error.hpp"
#include "referee/statistics.hpp"

namespace kernelforge::worker {

namespace {

constexpr double seconds_per_ns = 1e-9;
/// Two ticks of CUPTI's clock on an H200.
constexpr std::uint64_t slack_ns = 64;
constexpr double least_clock_limit_s = 3e-6;
constexpr double clock_limit = 0.05;
constexpr double far_share = 0.2;
constexpr int least_quads = 3;
constexpr double long_call_s = 0.05;
/// Below this a call's place in memory and code decides over percents of its time.
constexpr double short_span_s = 20e-6;
constexpr std::size_t tensor_alignment = 256;

/// Bijection of 64 bits (the finaliser of splitmix64).
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

/// A random order of against the end (0), against the start (1), and twice anywhere (2, 3).
std::array<std::uint8_t, 4> kinds_of(std::uint64_t random) {
    std::array<std::uint8_t, 4> kinds = {0, 1, 2, 3};
    for (std::size_t i = 3; i > 0; --i) {
        std::swap(kinds[i], kinds[random % (i + 1)]);
        random /= 4;
    }
    return kinds;
}

[[noreturn]] void fail(std::size_t call, std::size_t step, const std::string& what) {
    throw Error(ErrorCode::device_unavailable, "step " + std::to_string(step) + " of timed call " +
                                                   std::to_string(call) + ": " + what);
}

[[noreturn]] void fail(std::size_t call, const std::string& what) {
    throw Error(ErrorCode::device_unavailable, "timed call " + std::to_string(call) + ": " + what);
}

double seconds_between(std::uint64_t first_ns, std::uint64_t last_ns) {
    return static_cast<double>(last_ns - first_ns) * seconds_per_ns;
}

/// The records of a block in the order in which their work was enqueued.
class SortedRecords {
  public:
    /// `origin`: an id that is not after any of them that matters.
    SortedRecords(std::span<const ActivityRecord> records, std::uint32_t origin)
        : origin_(origin), records_(records.begin(), records.end()) {
        // Ids wrap around: what counts is how long before or after the origin they were given.
        std::sort(records_.begin(), records_.end(),
                  [&](const ActivityRecord& a, const ActivityRecord& b) {
                      return position(a.correlation) < position(b.correlation);
                  });
        latest_end_.reserve(records_.size() + 1);
        latest_end_.push_back(0);
        for (const ActivityRecord& record : records_) {
            latest_end_.push_back(std::max(latest_end_.back(), record.end_ns));
        }
        earliest_start_.assign(records_.size() + 1, UINT64_MAX);
        for (std::size_t i = records_.size(); i-- > 0;) {
            earliest_start_[i] = std::min(earliest_start_[i + 1], records_[i].start_ns);
        }
    }

    [[nodiscard]] std::span<const ActivityRecord> in(const CorrelationRange& range) const {
        const std::size_t begin = index_after(range.after);
        const std::size_t end = std::max(begin, index_after(range.last));
        return std::span(records_).subspan(begin, end - begin);
    }
    /// Of all that was enqueued up to `id`; 0 for nothing.
    [[nodiscard]] std::uint64_t latest_end_until(std::uint32_t id) const {
        return latest_end_[index_after(id)];
    }
    /// Of all that was enqueued after `id`; the largest number for nothing.
    [[nodiscard]] std::uint64_t earliest_start_after(std::uint32_t id) const {
        return earliest_start_[index_after(id)];
    }

  private:
    [[nodiscard]] std::int64_t position(std::uint32_t id) const {
        return is_later(origin_, id) ? -static_cast<std::int64_t>(origin_ - id)
                                     : static_cast<std::int64_t>(id - origin_);
    }
    /// Of the first record after `id`.
    [[nodiscard]] std::size_t index_after(std::uint32_t id) const {
        const auto found = std::upper_bound(records_.begin(), records_.end(), position(id),
                                            [&](std::int64_t at, const ActivityRecord& record) {
                                                return at < position(record.correlation);
                                            });
        return static_cast<std::size_t>(found - records_.begin());
    }

    std::uint32_t origin_;
    std::vector<ActivityRecord> records_;
    std::vector<std::uint64_t> latest_end_;      // before each position
    std::vector<std::uint64_t> earliest_start_;  // from each position on
};

/// First start and last end of one step.
std::pair<std::uint64_t, std::uint64_t> step_times(const SortedRecords& sorted, std::size_t call,
                                                   std::size_t step, const StepIds& ids) {
    const std::span<const ActivityRecord> found = sorted.in(ids.range);
    if (found.empty() || (ids.kind == StepKind::one && found.size() != 1)) {
        fail(call, step,
             (ids.kind == StepKind::one ? "expected one activity record, found "
                                        : "expected activity records, found ") +
                 std::to_string(found.size()));
    }
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    for (const ActivityRecord& record : found) {
        if (record.start_ns == 0 || record.end_ns <= record.start_ns) {
            fail(call, step, "its activity record has no valid time");
        }
        first = std::min(first, record.start_ns);
        last = std::max(last, record.end_ns);
    }
    return {first, last};
}

void check_alone(const SortedRecords& sorted, std::size_t call, const CallIds& ids,
                 std::uint64_t first, std::uint64_t last) {
    const std::uint64_t flushed = sorted.latest_end_until(ids.opened);
    if (first + slack_ns < flushed) {
        fail(call, "it starts " + std::to_string(flushed - first) +
                       " ns before the work ahead of it has ended");
    }
    const std::uint64_t next = sorted.earliest_start_after(ids.range.last);
    if (next != UINT64_MAX && next + slack_ns < last) {
        fail(call, "later work starts " + std::to_string(last - next) + " ns before its end");
    }
}

CallSpan assemble_call(const SortedRecords& sorted, std::size_t call, const CallIds& ids) {
    if (ids.steps.empty()) fail(call, 0, "no step was recorded");
    CallSpan span;
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    std::size_t records = 0;
    for (std::size_t step = 0; step < ids.steps.size(); ++step) {
        const auto [start, end] = step_times(sorted, call, step, ids.steps[step]);
        records += sorted.in(ids.steps[step].range).size();
        span.step_s.push_back(seconds_between(start, end));
        first = std::min(first, start);
        last = std::max(last, end);
    }
    const std::size_t all = sorted.in(ids.range).size();
    if (all != records) {
        fail(call, std::to_string(all) + " activity records, of which " + std::to_string(records) +
                       " belong to its steps");
    }
    check_alone(sorted, call, ids, first, last);
    span.total_s = seconds_between(first, last);
    return span;
}

using Reading = std::optional<double> CallSpan::*;

std::string clock_disagrees(const char* clock, std::span<const CallSpan> spans, Reading reading) {
    std::vector<double> differences;
    std::size_t far = 0;
    for (const CallSpan& span : spans) {
        if (!(span.*reading)) continue;
        const double difference = std::abs(*(span.*reading) - span.total_s);
        differences.push_back(difference);
        if (!(difference <= std::max(least_clock_limit_s, clock_limit * span.total_s))) ++far;
    }
    if (static_cast<double>(far) <= far_share * static_cast<double>(differences.size())) return "";
    return fmt::format(
        "{} and the primary clock differ by more than {:.0f} us and {:.0f} % in {} of {} timed "
        "calls, by {:.2f} us in the median",
        clock, least_clock_limit_s * 1e6, clock_limit * 100, far, differences.size(),
        referee::median(differences) * 1e6);
}

/// Absent unless every call was read.
std::optional<double> median_of(std::span<const CallSpan> spans, Reading reading) {
    std::vector<double> seconds;
    for (const CallSpan& span : spans) {
        if (!(span.*reading)) return std::nullopt;
        seconds.push_back(*(span.*reading));
    }
    return referee::median(seconds);
}

}  // namespace

std::vector<CallSpan> assemble_spans(std::span<const ActivityRecord> records,
                                     std::span<const CallIds> calls) {
    if (calls.empty()) return {};
    const SortedRecords sorted(records, calls.front().opened);
    std::vector<CallSpan> spans;
    spans.reserve(calls.size());
    for (std::size_t call = 0; call < calls.size(); ++call) {
        spans.push_back(assemble_call(sorted, call, calls[call]));
    }
    return spans;
}

std::string clocks_disagree(std::span<const CallSpan> spans) {
    std::string text = clock_disagrees("events", spans, &CallSpan::events_s);
    return !text.empty()
               ? text
               : clock_disagrees("the device's global timer", spans, &CallSpan::globaltimer_s);
}

Timing summarize_spans(std::span<const CallSpan> spans, std::string clock) {
    std::vector<double> seconds;
    seconds.reserve(spans.size());
    for (const CallSpan& span : spans) seconds.push_back(span.total_s);
    Timing timing = referee::summarize(seconds, std::move(clock));
    timing.events_median_s = median_of(spans, &CallSpan::events_s);
    timing.globaltimer_median_s = median_of(spans, &CallSpan::globaltimer_s);
    return timing;
}

PackedArguments pack_arguments(std::span<const plan::ResolvedArgument> arguments,
                               const Addresses& addresses, const EncodedMaps& maps) {
    PackedArguments packed;
    packed.values.resize(arguments.size());
    packed.pointers.resize(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const plan::ResolvedArgument& argument = arguments[i];
        if (argument.kind == plan::Argument::Kind::tensor_map) {
            const auto found = maps.find(argument.name);
            if (found == maps.end()) {
                throw Error(ErrorCode::internal, "tensor map " + argument.name + " is not encoded");
            }
            // The driver only reads parameters; its interface has no const.
            packed.pointers[i] = const_cast<void*>(found->second);
            continue;
        }
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

SampleCount sample_count(EvaluationDepth depth, double call_s, double span_s, int calls_per_quad,
                         double budget_s) {
    const bool screened = depth == EvaluationDepth::screen || depth == EvaluationDepth::admission;
    const int promoted = span_s < short_span_s ? 120 : 40;
    const int wanted = depth == EvaluationDepth::promotion ? promoted : screened ? 10 : 0;
    if (wanted == 0) return {};
    const double quad_s = call_s * calls_per_quad;
    const double affordable = budget_s / std::max(quad_s, 1e-9);
    int quads = affordable >= wanted ? wanted : static_cast<int>(std::max(affordable, 0.0));
    // Noise of a long kernel is far below a percent, so a third of the samples says as much.
    if (call_s > long_call_s) quads = std::min(quads, wanted / 3);
    quads = std::max(quads, least_quads);
    return {quads, quads < wanted};
}

std::size_t place(std::size_t capacity, std::size_t bytes, std::uint64_t step) {
    const std::size_t needed = (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
    const std::size_t room = capacity - needed;
    if (step == 0) return room;
    if (step == 1) return 0;
    return step % (room / tensor_alignment + 1) * tensor_alignment;
}

std::uint64_t placement_step(std::uint64_t secret, std::uint64_t tensor, std::uint64_t call) {
    const std::uint64_t stream = mixed(secret ^ mixed(tensor));
    const std::uint64_t block = call / 4;
    std::array<std::uint8_t, 4> kinds = kinds_of(mixed(stream ^ block));
    // The last of a block is never swapped, so the one before is known without going further back.
    if (block > 0 && kinds[0] == kinds_of(mixed(stream ^ (block - 1)))[3]) {
        std::swap(kinds[0], kinds[1]);
    }
    const std::uint8_t kind = kinds[call % 4];
    if (kind < 2) return kind;
    return std::max<std::uint64_t>(mixed(stream + call), 2);
}

}  // namespace kernelforge::worker
