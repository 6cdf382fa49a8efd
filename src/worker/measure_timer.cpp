// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "referee/statistics.hpp"
#include "worker/measure_device.hpp"

namespace kernelforge::worker {

namespace {

constexpr double seconds_per_ms = 1e-3;
constexpr auto own_work_limit = std::chrono::seconds(30);

}  // namespace

CallTimer::CallTimer(Device& device) : device_(device) {}

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

void CallTimer::begin() {
    calls_.clear();
    used_events_ = 0;
    if (device_.recorder() != nullptr) {
        device_.recorder()->clear();
        (void)device_.recorder()->take_correlation();
    } else {
        (void)device_.event_offset_s();
    }
}

void CallTimer::before_call() {
    calls_.emplace_back();
    if (device_.recorder() != nullptr) return;
    device_.driver().check(device_.driver().cuEventRecord(event(used_events_++), device_.stream()),
                           "cuEventRecord");
}

void CallTimer::after_step() {
    if (device_.recorder() != nullptr) {
        calls_.back().push_back(device_.recorder()->take_correlation());
    }
}

void CallTimer::after_call() {
    if (device_.recorder() != nullptr) return;
    device_.driver().check(device_.driver().cuEventRecord(event(used_events_++), device_.stream()),
                           "cuEventRecord");
}

std::vector<CallSpan> CallTimer::finish(Clock::time_point deadline) {
    device_.wait(deadline);
    if (device_.recorder() != nullptr) {
        // CUPTI hands complete records out only once the context itself was synchronised.
        device_.driver().check(device_.driver().cuCtxSynchronize(), "cuCtxSynchronize");
        const std::vector<ActivityRecord> records = device_.recorder()->take_records();
        return assemble_spans(records, calls_);
    }
    std::vector<CallSpan> spans;
    for (std::size_t call = 0; call < calls_.size(); ++call) {
        float milliseconds = 0.0F;
        device_.driver().check(device_.driver().event_elapsed_time(&milliseconds, events_[2 * call],
                                                                   events_[2 * call + 1]),
                               "cuEventElapsedTime");
        const double seconds = milliseconds * seconds_per_ms - device_.event_offset_s();
        // An event ticks at 32 ns: what is left of nothing is not a time.
        spans.push_back({std::max(seconds, 32e-9), {}});
    }
    return spans;
}

std::string CallTimer::clock() const {
    return device_.recorder() != nullptr ? "cupti" : "events";
}

double Device::event_offset_s() {
    if (event_offset_s_) return *event_offset_s_;
    constexpr int repeats = 31;
    CUevent first = nullptr;
    CUevent last = nullptr;
    driver_.check(driver_.cuEventCreate(&first, CU_EVENT_DEFAULT), "cuEventCreate");
    driver_.check(driver_.cuEventCreate(&last, CU_EVENT_DEFAULT), "cuEventCreate");
    const auto median_of = [&](int kernels) {
        std::vector<double> seconds;
        for (int i = 0; i < repeats; ++i) {
            flush();  // keeps the stream fed, so that no launch gap is timed
            driver_.check(driver_.cuEventRecord(first, stream_), "cuEventRecord");
            for (int k = 0; k < kernels; ++k) launch("kf_empty", {1, 1, 0}, nullptr);
            driver_.check(driver_.cuEventRecord(last, stream_), "cuEventRecord");
            wait(Clock::now() + own_work_limit);
            float milliseconds = 0.0F;
            driver_.check(driver_.event_elapsed_time(&milliseconds, first, last),
                          "cuEventElapsedTime");
            seconds.push_back(milliseconds * seconds_per_ms);
        }
        return referee::median(seconds);
    };
    const double one = median_of(1);
    const double two = median_of(2);
    driver_.cuEventDestroy(first);
    driver_.cuEventDestroy(last);
    event_offset_s_ = std::max(2.0 * one - two, 0.0);
    return *event_offset_s_;
}

}  // namespace kernelforge::worker
