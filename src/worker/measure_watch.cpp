// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace kernelforge::worker {

namespace {

constexpr std::size_t copied_bytes = std::size_t{64} << 20;
/// 2048 threads a multiprocessor do 128 multiply-adds each an iteration: 2048 clocks of 128 lanes.
constexpr std::uint32_t compute_iterations = 96;
constexpr std::size_t rounds = 7;
/// Calibrations before a block at most, about 2 ms each, and how near two must be.
constexpr int most_settling = 12;
constexpr double settled_share = 0.005;
constexpr auto own_work_limit = std::chrono::seconds(30);
constexpr double most_drift = 0.015;
constexpr double us_per_s = 1e6;
constexpr std::uint64_t software_power_cap = 0x4;

struct Slowdown {
    std::uint64_t bit;
    const char* name;
};
constexpr std::array<Slowdown, 4> slowdowns{{{0x8, "a hardware slowdown"},
                                             {0x20, "a thermal slowdown by software"},
                                             {0x40, "a thermal slowdown by hardware"},
                                             {0x80, "a power brake"}}};

std::string drift(const char* what, double before_s, double after_s) {
    if (before_s > 0.0 && std::abs(after_s / before_s - 1.0) <= most_drift) return "";
    return fmt::format(
        "the device changed during the block: its calibration {} took {:.2f} us before and {:.2f} "
        "us after",
        what, before_s * us_per_s, after_s * us_per_s);
}

std::uint64_t throttle_reasons(const BlockFacts& facts) {
    return facts.before.throttle_reasons.value_or(0) | facts.after.throttle_reasons.value_or(0);
}

std::string arithmetic_drift(const BlockFacts& facts) {
    const double before_s = facts.calibration_before.compute_s;
    const double after_s = facts.calibration_after.compute_s;
    // The clock is lower after a block at the cap, until the device's power has fallen.
    const bool capped = (throttle_reasons(facts) & software_power_cap) != 0;
    if (capped && before_s > 0.0 && after_s > before_s) return "";
    return drift("arithmetic", before_s, after_s);
}

std::string slowdown(const BlockFacts& facts) {
    const std::uint64_t reasons = throttle_reasons(facts);
    for (const Slowdown& one : slowdowns) {
        if ((reasons & one.bit) != 0) {
            return fmt::format("the driver reports {} (clock event reasons {:#x})", one.name,
                               reasons);
        }
    }
    return "";
}

bool contains(const std::vector<std::uint32_t>& ids, std::uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Processes at either end of the block that were not there when the context was made.
std::vector<std::uint32_t> newcomers(const BlockFacts& facts) {
    std::vector<std::uint32_t> found;
    if (!facts.company.after) return found;
    for (const Nvml::Reading* reading : {&facts.before, &facts.after}) {
        if (!reading->processes) continue;
        for (const std::uint32_t id : *reading->processes) {
            if (!contains(*facts.company.after, id) && !contains(found, id)) found.push_back(id);
        }
    }
    return found;
}

std::string foreigner(const BlockFacts& facts) {
    const bool ids_are_ours = own_process(facts.company) == facts.process_id;
    for (const std::uint32_t id : newcomers(facts)) {
        if (ids_are_ours) {
            if (contains(facts.siblings, id)) continue;
            return fmt::format(
                "process {} uses the device, it was not there when the worker started", id);
        }
        if (!facts.before.processes || !facts.after.processes) continue;
        if (contains(*facts.before.processes, id) != contains(*facts.after.processes, id)) {
            return fmt::format("process {} came to or left the device during the block", id);
        }
    }
    return "";
}

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The same program with the same parent.
/// A worker of the same parent, or that parent: a host that uses the device itself knows of it, and
/// the calibration sees whether it did.
bool is_sibling(std::uint32_t id) {
    if (id == static_cast<std::uint32_t>(::getppid())) return true;
    const std::filesystem::path folder = "/proc/" + std::to_string(id);
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink(folder / "exe", error);
    if (error || program != std::filesystem::read_symlink("/proc/self/exe", error)) return false;
    return parent_in_stat(text_of(folder / "stat")) == static_cast<std::uint32_t>(::getppid());
}

bool is_near(double a, double b) {
    return std::abs(a - b) <= settled_share * std::max(a, b);
}

}  // namespace

std::uint32_t parent_in_stat(const std::string& stat) {
    // "PID (NAME) STATE PARENT …", where the name may hold anything.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream rest(stat.substr(name_end + 1));
    char state = 0;
    std::uint32_t parent = 0;
    rest >> state >> parent;
    return rest ? parent : 0;
}

std::string reason_to_reject(const BlockFacts& facts) {
    std::string reason = slowdown(facts);
    if (reason.empty()) reason = foreigner(facts);
    if (reason.empty()) {
        reason = drift("copy", facts.calibration_before.copy_s, facts.calibration_after.copy_s);
    }
    if (reason.empty()) reason = arithmetic_drift(facts);
    return reason;
}

DeviceState merge(const DeviceState& first, const DeviceState& second) {
    const auto either = [](const auto& preferred, const auto& other) {
        return preferred ? preferred : other;
    };
    DeviceState state;
    state.sm_clock_mhz_before = either(first.sm_clock_mhz_before, second.sm_clock_mhz_before);
    state.sm_clock_mhz_after = either(second.sm_clock_mhz_after, first.sm_clock_mhz_after);
    state.memory_clock_mhz = either(second.memory_clock_mhz, first.memory_clock_mhz);
    state.temperature_c = either(second.temperature_c, first.temperature_c);
    if (first.throttle_reasons || second.throttle_reasons) {
        state.throttle_reasons =
            first.throttle_reasons.value_or(0) | second.throttle_reasons.value_or(0);
    }
    if (first.other_processes || second.other_processes) {
        state.other_processes =
            std::max(first.other_processes.value_or(0), second.other_processes.value_or(0));
    }
    state.calibration_before_s = either(first.calibration_before_s, second.calibration_before_s);
    state.calibration_after_s = either(second.calibration_after_s, first.calibration_after_s);
    return state;
}

BlockWatch::BlockWatch(Device& device)
    : device_(device),
      from_(device.pool().acquire(copied_bytes)),
      to_(device.pool().acquire(copied_bytes)) {
    device_.poison(from_.region().base(), copied_bytes);
    facts_.company = device.company();
    facts_.process_id = static_cast<std::uint32_t>(::getpid());
}

Calibration BlockWatch::calibrate() {
    const int multiprocessors = device_.info().multiprocessors;
    referee::StreamParameters copy;
    copy.data = to_.region().base();
    copy.source = from_.region().base();
    copy.bytes = copied_bytes;
    referee::ComputeParameters compute;
    compute.sink = device_.result_page();
    compute.iterations = compute_iterations;
    CallTimer timer(device_);
    timer.begin();
    // One round more than counts: an idle device first raises its clocks.
    for (std::size_t round = 0; round <= rounds; ++round) {
        device_.flush();
        timer.before_call();
        device_.launch("kf_roof_copy", referee::stream_shape(copy, multiprocessors), &copy);
        timer.after_step();
        timer.after_call();
        timer.before_call();
        device_.launch("kf_roof_fma", referee::fma_shape(multiprocessors), &compute);
        timer.after_step();
        timer.after_call();
    }
    // Like is compared with like, so the primary clock will do; the first launch of a kernel may
    // wait for its code, which other clocks would count.
    const std::vector<CallSpan> spans = timer.finish_unchecked(Clock::now() + own_work_limit);
    Calibration best{spans[2].total_s, spans[3].total_s};
    for (std::size_t round = 2; round <= rounds; ++round) {
        best.copy_s = std::min(best.copy_s, spans[2 * round].total_s);
        best.compute_s = std::min(best.compute_s, spans[2 * round + 1].total_s);
    }
    return best;
}

std::string BlockWatch::try_calibrate(Calibration& calibration) {
    try {
        calibration = calibrate();
    } catch (const DriverError&) {
        throw;
    } catch (const DeviceTimeout&) {
        throw;
    } catch (const Error& error) {
        return fmt::format("the calibration has no time: {}", error.what());
    }
    return "";
}

void BlockWatch::before() {
    // What ran before may have left the clocks low: wait until two calibrations agree.
    Calibration last;
    for (int attempt = 0; attempt < most_settling; ++attempt) {
        trouble_ = try_calibrate(facts_.calibration_before);
        const Calibration now = facts_.calibration_before;
        if (!trouble_.empty() || (attempt > 0 && is_near(last.copy_s, now.copy_s) &&
                                  is_near(last.compute_s, now.compute_s))) {
            break;
        }
        last = now;
    }
    // Read after the calibration: an idle device has other clocks.
    facts_.before = device_.read_state();
}

std::string BlockWatch::after() {
    facts_.after = device_.read_state();
    const std::string trouble = try_calibrate(facts_.calibration_after);
    facts_.siblings.clear();
    for (const std::uint32_t id : newcomers(facts_)) {
        if (is_sibling(id)) facts_.siblings.push_back(id);
    }
    if (!trouble_.empty()) return trouble_;
    return trouble.empty() ? reason_to_reject(facts_) : trouble;
}

DeviceState BlockWatch::state() const {
    DeviceState state = device_state(facts_.before, facts_.after);
    state.calibration_before_s =
        facts_.calibration_before.copy_s + facts_.calibration_before.compute_s;
    state.calibration_after_s =
        facts_.calibration_after.copy_s + facts_.calibration_after.compute_s;
    return state;
}

}  // namespace kernelforge::worker
