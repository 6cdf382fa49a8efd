// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "worker/measure_device.hpp"

namespace kernelforge::worker {

namespace {

constexpr std::size_t stream_bytes = std::size_t{1} << 30;
constexpr int repeats = 7;
constexpr auto own_work_limit = std::chrono::seconds(30);

/// Spans of `repeats` calls of what is enqueued, each after a flush. By the primary clock alone: a
/// ceiling is an aid, and a device is not without one because its clocks disagree for a moment.
std::vector<CallSpan> spans_of(Device& device, const std::function<void()>& enqueue) {
    CallTimer timer(device);
    timer.begin();
    for (int i = 0; i < repeats; ++i) {
        device.flush();
        timer.before_call();
        enqueue();
        timer.after_step(StepKind::many);
        timer.after_call();
    }
    return timer.finish_unchecked(Clock::now() + own_work_limit);
}

bool is_shorter(const CallSpan& a, const CallSpan& b) {
    return a.total_s < b.total_s;
}

/// Median would include the first, cold launches: a ceiling is the best that was seen.
double best_span_s(Device& device, const std::function<void()>& enqueue) {
    const std::vector<CallSpan> spans = spans_of(device, enqueue);
    return std::min_element(spans.begin(), spans.end(), is_shorter)->total_s;
}

void measure_bandwidth(Device& device, Roofs& roofs) {
    const MemoryPool::Lease to = device.pool().acquire(stream_bytes);
    const MemoryPool::Lease from = device.pool().acquire(stream_bytes);
    device.poison(from.region().base(), stream_bytes);
    referee::StreamParameters parameters;
    parameters.data = to.region().base();
    parameters.source = from.region().base();
    parameters.bytes = stream_bytes;
    parameters.sink = device.result_page();
    // What reaches the most differs between read, copy and write, and between chips: a resident
    // grid with several accesses in flight a thread, or as many threads as 16-byte accesses, or a
    // quarter of that.
    const referee::LaunchShape resident =
        referee::stream_shape(parameters, device.info().multiprocessors);
    const auto one_each = static_cast<std::uint32_t>(stream_bytes / 16 / resident.threads);
    const auto best_of_shapes = [&](const char* kernel) {
        double best_s = 1e9;
        for (const std::uint32_t blocks : {resident.blocks, one_each / 4, one_each}) {
            const referee::LaunchShape shape{blocks, resident.threads, 0};
            best_s = std::min(
                best_s, best_span_s(device, [&] { device.launch(kernel, shape, &parameters); }));
        }
        return best_s;
    };
    const Driver& driver = device.driver();
    const double driver_copy_s = best_span_s(device, [&] {
        driver.check(driver.cuMemcpyDtoDAsync(to.region().base(), from.region().base(),
                                              stream_bytes, device.stream()),
                     "cuMemcpyDtoDAsync");
    });
    const auto bytes = static_cast<double>(stream_bytes);
    roofs.write_bytes_per_s = bytes / best_of_shapes("kf_roof_write");
    roofs.read_bytes_per_s = bytes / best_of_shapes("kf_roof_read");
    roofs.copy_bytes_per_s = 2.0 * bytes / std::min(driver_copy_s, best_of_shapes("kf_roof_copy"));
}

/// Iterations that keep the kernel busy for about 5 ms, found by a short run; then its rate.
double flop_per_s(Device& device, const char* kernel, const referee::LaunchShape& shape,
                  double (*operations)(const referee::ComputeParameters&,
                                       const referee::LaunchShape&)) {
    constexpr double wanted_s = 5e-3;
    referee::ComputeParameters parameters;
    parameters.sink = device.result_page();
    parameters.iterations = 256;
    const auto enqueue = [&] { device.launch(kernel, shape, &parameters); };
    const double short_s = best_span_s(device, enqueue);
    parameters.iterations =
        static_cast<std::uint32_t>(std::clamp(256.0 * wanted_s / short_s, 256.0, 4.0e6));
    return operations(parameters, shape) / best_span_s(device, enqueue);
}

/// Span of a kernel that does nothing, as candidates are timed.
double empty_span_s(Device& device) {
    std::vector<CallSpan> spans = spans_of(device, [&] {
        device.launch("kf_empty", {1, 1, 0}, nullptr);
    });
    std::nth_element(spans.begin(), spans.begin() + repeats / 2, spans.end(), is_shorter);
    return spans[repeats / 2].total_s;
}

}  // namespace

Roofs measure_roofs(Device& device) {
    Roofs roofs;
    measure_bandwidth(device, roofs);
    const int multiprocessors = device.info().multiprocessors;
    roofs.fp32_flop_per_s = flop_per_s(device, "kf_roof_fma", referee::fma_shape(multiprocessors),
                                       referee::fma_operations);
    if (device.info().arch == "sm_90a") {
        roofs.bf16_flop_per_s =
            flop_per_s(device, "kf_roof_wgmma_bf16", referee::wgmma_shape(multiprocessors),
                       referee::wgmma_operations);
    } else {
        roofs.bf16_flop_per_s =
            flop_per_s(device, "kf_roof_mma_bf16", referee::mma_shape(multiprocessors),
                       referee::mma_operations);
    }
    roofs.empty_kernel_s = empty_span_s(device);
    return roofs;
}

}  // namespace kernelforge::worker
