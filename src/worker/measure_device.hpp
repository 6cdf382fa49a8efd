// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernelforge/evaluator.hpp"
#include "referee/device_code.hpp"
#include "worker/cupti_recorder.hpp"
#include "worker/driver.hpp"
#include "worker/measure_memory.hpp"
#include "worker/nvml.hpp"

namespace kernelforge::worker {

using Clock = std::chrono::steady_clock;

/// The stream did not become idle in time: something on the device does not end.
class DeviceTimeout final : public Error {
  public:
    explicit DeviceTimeout(const std::string& message)
        : Error(ErrorCode::device_unavailable, message) {}
};

/// Facts about every device of the driver, without making a context. Roofs stay empty.
/// @throws Error device_unavailable (the driver does not start, with its reason)
[[nodiscard]] std::vector<DeviceInfo> list_devices(const Driver& driver);

/// One device with its context, its stream, the referee's kernels and warm memory. The candidate's
/// printf buffer and malloc heap are as small as the driver allows. [device]
class Device {
  public:
    /// `driver` must outlive the device; `recorder` may be null, `no_recorder` then says why.
    /// @throws Error device_unavailable
    Device(const Driver& driver, const DeviceInfo& info, CuptiRecorder* recorder,
           std::string no_recorder);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
    [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
    [[nodiscard]] CUstream stream() const noexcept { return stream_; }
    [[nodiscard]] MemoryPool& pool() noexcept { return pool_; }
    /// Null when spans come from events.
    [[nodiscard]] CuptiRecorder* recorder() const noexcept { return recorder_; }
    [[nodiscard]] const std::string& no_recorder() const noexcept { return no_recorder_; }
    /// Empty where there is no NVML.
    [[nodiscard]] Nvml::Reading read_state() const;

    /// Enqueues one of the referee's kernels ("kf_fill", …); `parameters` is its struct, null for
    /// none.
    /// @throws DriverError
    void launch(const std::string& kernel, const referee::LaunchShape& shape, void* parameters);
    void poison(CUdeviceptr address, std::size_t bytes);
    /// Enqueues the clean flush: a write pass over one buffer, a read-only pass over another, each
    /// of twice the L2's size.
    void flush();

    /// Waits until all that was enqueued is done.
    /// @throws DeviceTimeout at `deadline`; DriverError with the fault of what ran
    void wait(Clock::time_point deadline);

    /// Page-locked memory of 64 KiB for results.
    [[nodiscard]] std::byte* host_page() const noexcept { return host_page_; }
    static constexpr std::size_t host_page_bytes = std::size_t{64} << 10;
    /// Device memory of 64 KiB for results; the first 64 bytes are the sink of read passes.
    [[nodiscard]] CUdeviceptr result_page() const { return result_page_.region().base(); }
    static constexpr std::size_t sink_bytes = 64;

    /// What events read around nothing of ours, seconds: their time around one empty kernel less
    /// the time that a second one adds. Measured at the first call.
    [[nodiscard]] double event_offset_s();
    [[nodiscard]] CUfunction referee_kernel(const std::string& name);

  private:
    void make_context();
    void set_limits();

    const Driver& driver_;
    DeviceInfo info_;
    CuptiRecorder* recorder_;
    std::string no_recorder_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    CUmodule module_ = nullptr;
    CUmodule hopper_module_ = nullptr;
    std::map<std::string, CUfunction> kernels_;
    MemoryPool pool_;
    MemoryPool::Lease flush_write_;
    MemoryPool::Lease flush_read_;
    MemoryPool::Lease result_page_;
    std::byte* host_page_ = nullptr;
    std::unique_ptr<Nvml> nvml_;
    std::uint32_t flush_pattern_ = 1;
    std::optional<double> event_offset_s_;
};

/// Measures the ceilings of a device: the best of several launches each, by the spans of CUPTI or,
/// where it is missing, events. Takes about 100 ms and 2 GB of device memory. [device]
/// @throws Error device_unavailable
[[nodiscard]] Roofs measure_roofs(Device& device);

/// Spans of calls on the device's stream, by CUPTI or by events less their offset. A block is:
/// `begin`, any number of calls (`before_call`, `after_step` for every step, `after_call`),
/// `finish`. [device]
class CallTimer {
  public:
    explicit CallTimer(Device& device);
    ~CallTimer();
    CallTimer(const CallTimer&) = delete;
    CallTimer& operator=(const CallTimer&) = delete;

    /// The device must be idle.
    void begin();
    void before_call();
    void after_step();
    void after_call();
    /// Waits for the device and gives the span of every call. With events, steps have no span of
    /// their own: `step_s` is empty.
    /// @throws Error device_unavailable when a record is missing; DeviceTimeout, DriverError
    [[nodiscard]] std::vector<CallSpan> finish(Clock::time_point deadline);
    /// "cupti" or "events"
    [[nodiscard]] std::string clock() const;

  private:
    [[nodiscard]] CUevent event(std::size_t index);

    Device& device_;
    std::vector<std::vector<std::uint32_t>> calls_;
    std::vector<CUevent> events_;
    std::size_t used_events_ = 0;
};

}  // namespace kernelforge::worker
