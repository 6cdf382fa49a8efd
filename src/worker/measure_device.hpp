// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/driver.hpp"
#include "kernelforge/evaluator.hpp"
#include "referee/device_code.hpp"
#include "worker/cupti_recorder.hpp"
#include "worker/driver.hpp"
#include "worker/library.hpp"
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

/// What clocks read around a call beyond its CUPTI span, seconds.
struct ClockOffsets {
    double events_s = 0.0;
    double globaltimer_s = 0.0;
};

/// Facts about every device of the driver, without making a context. Roofs stay empty.
/// @throws Error device_unavailable (the driver does not start, with its reason)
[[nodiscard]] std::vector<DeviceInfo> list_devices(const Driver& driver);

/// What an emulated device reports, with functions by their names in the source: "k<float>" for
/// _Z1kIfEvPT_. What does not demangle stays as it is.
[[nodiscard]] std::string message_of(const emulator::Report& report);

/// One device with its context, its stream, the referee's kernels and warm memory. The candidate's
/// printf buffer and malloc heap are as small as the driver allows. [device]
class Device {
  public:
    /// `driver` must outlive the device; `recorder` may be null, `no_recorder` then says why.
    /// `emulated`: whose driver it is, where it is one; outlives the device.
    /// @throws Error device_unavailable
    Device(const Driver& driver, const DeviceInfo& info, CuptiRecorder* recorder,
           std::string no_recorder, emulator::EmulatedDevice* emulated = nullptr);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
    [[nodiscard]] const DeviceInfo& info() const noexcept { return info_; }
    [[nodiscard]] CUstream stream() const noexcept { return stream_; }
    [[nodiscard]] MemoryPool& pool() noexcept { return pool_; }
    /// Null on hardware. On an emulated device nothing is timed, and nothing that an earlier kernel
    /// left needs clearing from multiprocessors and caches: `flush` and `scrub` do nothing.
    [[nodiscard]] emulator::EmulatedDevice* emulated() const noexcept { return emulated_; }
    /// What a driver's error was about, after which an emulated device works again.
    [[nodiscard]] std::string explain(const DriverError& error);
    /// Null when spans come from events.
    [[nodiscard]] CuptiRecorder* recorder() const noexcept { return recorder_; }
    [[nodiscard]] const std::string& no_recorder() const noexcept { return no_recorder_; }
    /// Empty where there is no NVML.
    [[nodiscard]] Nvml::Reading read_state() const;
    /// Compute processes on the device before and after the context was made.
    [[nodiscard]] const Company& company() const noexcept { return company_; }

    /// Enqueues one of the referee's kernels ("kf_fill", …); `parameters` is its struct, null for
    /// none.
    /// @throws DriverError
    void launch(const std::string& kernel, const referee::LaunchShape& shape, void* parameters);
    void poison(CUdeviceptr address, std::size_t bytes);
    /// Enqueues the clean flush: a write pass over one buffer, a read-only pass over another, each
    /// of twice the L2's size.
    void flush();
    /// Enqueues the overwriting, with 0xFF, of what an earlier kernel could have left on the
    /// multiprocessors: all shared memory that a block can have, and of every thread that can be
    /// resident a local-memory frame of at least `local_bytes` (the largest frame of a kernel that
    /// runs next; 0: none). The first use of a larger frame makes the driver enlarge its pool.
    /// @throws Error unsupported: `local_bytes` is more than referee::most_local_bytes; DriverError
    void scrub(int local_bytes);
    /// Puts L2 lines that earlier kernels marked as persisting back to normal. The device must be
    /// idle. (The context's carve-out for such lines is 0.)
    void reset_persisting_l2();

    /// Waits until all that was enqueued is done.
    /// @throws DeviceTimeout at `deadline`; DriverError with the fault of what ran
    void wait(Clock::time_point deadline);

    /// Page-locked memory of 64 KiB for results.
    [[nodiscard]] std::byte* host_page() const noexcept { return host_page_; }
    static constexpr std::size_t host_page_bytes = std::size_t{64} << 10;
    /// Device memory of 64 KiB for results; the first 64 bytes are the sink of read passes.
    [[nodiscard]] CUdeviceptr result_page() const { return result_page_.region().base(); }
    static constexpr std::size_t sink_bytes = 64;
    /// Of a thread, for what the compiler cannot count.
    static constexpr int stack_limit_bytes = 1024;

    /// What the clocks of `CallTimer` read beyond a call. Measured at the first call of this
    /// function, when the device must be idle: medians of 31 calls of an empty kernel, each after
    /// a flush, less its CUPTI span; without CUPTI twice the reading around one empty kernel less
    /// the reading around two.
    /// @throws Error device_unavailable
    [[nodiscard]] const ClockOffsets& clock_offsets();
    /// Device memory of the timer: where its stamp `index` goes, one u64.
    /// @throws Error internal: more stamps than fit (over 100,000)
    [[nodiscard]] CUdeviceptr stamp_slot(std::size_t index) const;
    /// Enqueues the overwriting of all stamps with ~0.
    void clear_stamps();
    [[nodiscard]] CUfunction referee_kernel(const std::string& name);

    /// From the first use on. Before that: what library steps keep, and where libraries are.
    void set_library_options(LibraryOptions options) { library_options_ = std::move(options); }
    [[nodiscard]] Libraries& libraries();

  private:
    void make_context();
    /// With all blocks resident at once.
    void launch_cooperative(const std::string& kernel, const referee::LaunchShape& shape,
                            void* parameters);
    void allow_shared(CUfunction function, const std::string& kernel, std::uint32_t bytes) const;
    void set_limits();

    const Driver& driver_;
    DeviceInfo info_;
    CuptiRecorder* recorder_;
    std::string no_recorder_;
    emulator::EmulatedDevice* emulated_;
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
    MemoryPool::Lease own_page_;  // arrivals of scrub kernels, then stamps
    std::byte* host_page_ = nullptr;
    std::unique_ptr<Nvml> nvml_;
    LibraryOptions library_options_;
    std::unique_ptr<Libraries> libraries_;
    std::uint32_t flush_pattern_ = 1;
    std::optional<ClockOffsets> clock_offsets_;
    Company company_;
};

/// Measures the ceilings of a device: the best of several launches each, by the spans of CUPTI or,
/// where it is missing, events. Takes about 100 ms and 2 GB of device memory. [device]
/// @throws Error device_unavailable
[[nodiscard]] Roofs measure_roofs(Device& device);

/// Spans of calls on the device's stream, by CUPTI or, without it, by events less their offset. In
/// every call two more clocks run: events (without CUPTI they are the primary clock) and stamps of
/// `%globaltimer` by a kernel before and one after. A block is: `begin`, any number of calls
/// (`before_call`, `after_step` for every step, `after_call`), `finish`. Only one block at a time
/// on a device. [device]
class CallTimer {
  public:
    explicit CallTimer(Device& device);
    /// With these offsets instead of the device's.
    CallTimer(Device& device, const ClockOffsets& offsets);
    ~CallTimer();
    CallTimer(const CallTimer&) = delete;
    CallTimer& operator=(const CallTimer&) = delete;

    /// The device must be idle.
    void begin();
    /// The flush comes before. Nothing else may be enqueued between here and `after_call`. The
    /// clocks are compared over all calls with the same `side`.
    void before_call(int side = 0);
    void after_step(StepKind kind = StepKind::one);
    void after_call();
    /// Waits for the device and gives the span of every call. With events, steps have no span of
    /// their own: `step_s` is empty.
    /// @throws Error device_unavailable when the block is no measurement: a record is missing,
    /// something else ran (`assemble_spans`), or the clocks disagree on a side (`clocks_disagree`);
    /// DeviceTimeout, DriverError
    [[nodiscard]] std::vector<CallSpan> finish(Clock::time_point deadline);
    /// The same, whatever the other clocks say.
    [[nodiscard]] std::vector<CallSpan> finish_unchecked(Clock::time_point deadline);
    /// "cupti" or "events"
    [[nodiscard]] std::string clock() const;

  private:
    [[nodiscard]] CUevent event(std::size_t index);
    /// 0 without CUPTI.
    [[nodiscard]] std::uint32_t newest() const;
    void record_event();
    void stamp();
    void read_events(std::vector<CallSpan>& spans);
    void read_stamps(std::vector<CallSpan>& spans, Clock::time_point deadline);

    Device& device_;
    std::optional<ClockOffsets> offsets_;
    std::vector<CallIds> calls_;
    std::vector<int> sides_;  // of each call
    std::vector<CUevent> events_;
    std::size_t used_events_ = 0;
    std::size_t used_stamps_ = 0;
};

}  // namespace kernelforge::worker
