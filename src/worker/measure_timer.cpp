// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "referee/statistics.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

namespace {

constexpr double seconds_per_ms = 1e-3;
constexpr double seconds_per_ns = 1e-9;
constexpr auto own_work_limit = std::chrono::seconds(30);
/// An event ticks at 32 ns: what is left of nothing is not a time.
constexpr double least_time_s = 32e-9;
constexpr std::uint64_t no_stamp = ~std::uint64_t{0};

}  // namespace

CallTimer::CallTimer(Device& device) : device_(device) {}

CallTimer::CallTimer(Device& device, const ClockOffsets& offsets)
    : device_(device), offsets_(offsets) {}

CallTimer::~CallTimer() {
    for (CUevent event : events_) device_.driver().cuEventDestroy(event);
}

CUevent CallTimer::event(std::size_t index) {
    while (events_.size() <= index) {
        CUevent created = nullptr;
        device_.driver().check(device_.driver().cuEventCreate(&created, CU_EVENT_DEFAULT),
                               "cuEventCreate");
        events_.push_back(created);
    }
    return events_[index];
}

std::uint32_t CallTimer::newest() const {
    return device_.recorder() != nullptr ? device_.recorder()->newest_correlation() : 0;
}

void CallTimer::record_event() {
    device_.driver().check(device_.driver().cuEventRecord(event(used_events_++), device_.stream()),
                           "cuEventRecord");
}

void CallTimer::stamp() {
    referee::StampParameters parameters{device_.stamp_slot(used_stamps_++)};
    device_.launch("kf_stamp", {1, 1, 0}, &parameters);
}

void CallTimer::begin() {
    if (!offsets_) offsets_ = device_.clock_offsets();
    calls_.clear();
    sides_.clear();
    used_events_ = 0;
    used_stamps_ = 0;
    if (device_.recorder() != nullptr) device_.recorder()->clear();
    device_.clear_stamps();
}

// The stamps are outside, so that the events, which without CUPTI are the time, are as near to the
// call as they can be.

void CallTimer::before_call(int side) {
    CallIds& call = calls_.emplace_back();
    sides_.push_back(side);
    call.opened = newest();
    stamp();
    record_event();
    call.range.after = newest();
}

void CallTimer::after_step(StepKind kind) {
    CallIds& call = calls_.back();
    const std::uint32_t after =
        call.steps.empty() ? call.range.after : call.steps.back().range.last;
    call.steps.push_back({kind, {after, newest()}});
}

void CallTimer::after_call() {
    calls_.back().range.last = newest();
    record_event();
    stamp();
}

void CallTimer::read_events(std::vector<CallSpan>& spans) {
    for (std::size_t call = 0; call < spans.size(); ++call) {
        float milliseconds = 0.0F;
        device_.driver().check(device_.driver().event_elapsed_time(&milliseconds, events_[2 * call],
                                                                   events_[2 * call + 1]),
                               "cuEventElapsedTime");
        spans[call].events_s = milliseconds * seconds_per_ms - offsets_->events_s;
    }
}

void CallTimer::read_stamps(std::vector<CallSpan>& spans, Clock::time_point deadline) {
    if (spans.empty()) return;
    std::vector<std::uint64_t> stamps(2 * spans.size());
    device_.driver().check(device_.driver().cuMemcpyDtoHAsync(
                               stamps.data(), device_.stamp_slot(0),
                               stamps.size() * sizeof(stamps.front()), device_.stream()),
                           "reading stamps");
    device_.wait(deadline);
    for (std::size_t call = 0; call < spans.size(); ++call) {
        const std::uint64_t first = stamps[2 * call];
        const std::uint64_t last = stamps[2 * call + 1];
        if (first == no_stamp || last == no_stamp || last < first) {
            throw Error(ErrorCode::device_unavailable,
                        "timed call " + std::to_string(call) + ": its stamps are " +
                            std::to_string(first) + " and " + std::to_string(last) + " ns");
        }
        spans[call].globaltimer_s =
            static_cast<double>(last - first) * seconds_per_ns - offsets_->globaltimer_s;
    }
}

std::vector<CallSpan> CallTimer::finish_unchecked(Clock::time_point deadline) {
    device_.wait(deadline);
    std::vector<CallSpan> spans(calls_.size());
    if (device_.recorder() != nullptr) {
        // CUPTI hands complete records out only once the context itself was synchronised.
        device_.driver().check(device_.driver().cuCtxSynchronize(), "cuCtxSynchronize");
        const std::vector<ActivityRecord> records = device_.recorder()->take_records();
        spans = assemble_spans(records, calls_);
    }
    read_events(spans);
    if (device_.recorder() == nullptr) {
        for (CallSpan& span : spans) span.total_s = std::max(*span.events_s, least_time_s);
    }
    read_stamps(spans, deadline);
    return spans;
}

std::vector<CallSpan> CallTimer::finish(Clock::time_point deadline) {
    std::vector<CallSpan> spans = finish_unchecked(deadline);
    std::map<int, std::vector<CallSpan>> by_side;
    for (std::size_t call = 0; call < spans.size(); ++call) {
        by_side[sides_[call]].push_back(spans[call]);
    }
    for (const auto& [side, calls] : by_side) {
        const std::string disagreement = clocks_disagree(calls);
        if (!disagreement.empty()) throw Error(ErrorCode::device_unavailable, disagreement);
    }
    return spans;
}

std::string CallTimer::clock() const {
    return device_.recorder() != nullptr ? "cupti" : "events";
}

namespace {

/// Calls of so many empty kernels each, by clocks without offsets.
std::vector<CallSpan> empty_calls(Device& device, int kernels) {
    constexpr int repeats = 31;
    CallTimer timer(device, {});
    timer.begin();
    for (int i = 0; i < repeats; ++i) {
        device.flush();  // keeps the stream fed, so that no launch gap is timed
        timer.before_call();
        for (int k = 0; k < kernels; ++k) {
            device.launch("kf_empty", {1, 1, 0}, nullptr);
            timer.after_step();
        }
        timer.after_call();
    }
    return timer.finish_unchecked(Clock::now() + own_work_limit);
}

template <class F>
double median_of(const std::vector<CallSpan>& spans, F&& reading) {
    std::vector<double> seconds;
    for (const CallSpan& span : spans) seconds.push_back(reading(span));
    return referee::median(seconds);
}

double events(const CallSpan& span) {
    return *span.events_s;
}

double globaltimer(const CallSpan& span) {
    return *span.globaltimer_s;
}

}  // namespace

const ClockOffsets& Device::clock_offsets() {
    if (clock_offsets_) return *clock_offsets_;
    const std::vector<CallSpan> one = empty_calls(*this, 1);
    ClockOffsets offsets;
    if (recorder_ != nullptr) {
        offsets.events_s =
            median_of(one, [](const CallSpan& span) { return *span.events_s - span.total_s; });
        offsets.globaltimer_s =
            median_of(one, [](const CallSpan& span) { return *span.globaltimer_s - span.total_s; });
    } else {
        const std::vector<CallSpan> two = empty_calls(*this, 2);
        offsets.events_s = std::max(2.0 * median_of(one, events) - median_of(two, events), 0.0);
        offsets.globaltimer_s =
            std::max(2.0 * median_of(one, globaltimer) - median_of(two, globaltimer), 0.0);
    }
    clock_offsets_ = offsets;
    return *clock_offsets_;
}

}  // namespace kernelforge::worker
