// SPDX-License-Identifier: Apache-2.0
#include "worker/library_tuning.hpp"

#include <algorithm>
#include <utility>

#include "worker/library/parameters.hpp"

namespace kernelforge::worker::library {

namespace {

constexpr std::size_t alignment = 256;

std::size_t aligned(std::size_t bytes) {
    return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

std::uint64_t repeat(std::uint64_t element, unsigned bits) {
    std::uint64_t result = 0;
    for (unsigned at = 0; at < 64; at += bits) result |= element << at;
    return result;
}

}  // namespace

Pattern finite_pattern(std::string_view dtype) {
    struct Known {
        std::string_view dtype;
        unsigned bits;
        std::uint64_t keep;  ///< sign and fraction
        std::uint64_t set;   ///< the exponent of 1/2
    };
    constexpr Known known[] = {
        {"f64", 64, 0x800fffffffffffff, 0x3fe0000000000000},
        {"f32", 32, 0x807fffff, 0x3f000000},
        {"f16", 16, 0x83ff, 0x3800},
        {"bf16", 16, 0x807f, 0x3f00},
        {"e4m3", 8, 0x87, 0x30},
        {"e5m2", 8, 0x83, 0x38},
    };
    for (const Known& each : known) {
        if (each.dtype == dtype) return {repeat(each.keep, each.bits), repeat(each.set, each.bits)};
    }
    throw Error(ErrorCode::unsupported,
                "library step: no scratch data of type " + std::string(dtype));
}

std::size_t scratch_sets(std::size_t set_bytes, std::int64_t l2_bytes, std::size_t most_bytes) {
    constexpr std::size_t most = 4096;
    const std::size_t bytes = std::max<std::size_t>(set_bytes, 1);
    const std::size_t wanted =
        2 * static_cast<std::size_t>(std::max<std::int64_t>(l2_bytes, 0)) / bytes + 1;
    return std::clamp<std::size_t>(std::min(wanted, most_bytes / bytes), 1, most);
}

Scratch::Scratch(const Driver& driver, const DeviceInfo& device, CUstream stream, Kernels& kernels,
                 const std::vector<ScratchOperand>& operands, std::size_t workspace_bytes)
    : driver_(driver) {
    constexpr std::size_t most = std::size_t{1} << 30;
    std::size_t set_bytes = 0;
    for (const ScratchOperand& operand : operands) set_bytes += aligned(operand.bytes);
    std::size_t free = 0;
    std::size_t total = 0;
    driver.check(driver.cuMemGetInfo(&free, &total), "library step: asking for free memory");
    sets_ = scratch_sets(set_bytes, device.l2_bytes, std::min(most, free / 4));
    driver.check(driver.cuMemAlloc(&memory_, set_bytes * sets_ + aligned(workspace_bytes)),
                 "library step: allocating scratch operands to choose an algorithm");
    CUdeviceptr at = memory_;
    for (const ScratchOperand& operand : operands) {
        placed_.push_back({at, aligned(operand.bytes)});
        at += placed_.back().stride * sets_;
    }
    workspace_ = at;
    try {
        for (std::size_t i = 0; i < operands.size(); ++i) {
            fill(kernels, stream, placed_[i], operands[i].dtype, i << 40);
        }
    } catch (...) {
        driver.cuMemFree(memory_);
        throw;
    }
}

void Scratch::fill(Kernels& kernels, CUstream stream, const Placed& placed, std::string_view dtype,
                   std::uint64_t seed) {
    const Pattern pattern = finite_pattern(dtype);
    PatternParameters parameters;
    parameters.out = placed.base;
    parameters.bytes = placed.stride * sets_;
    parameters.keep = pattern.keep;
    parameters.set = pattern.set;
    parameters.seed = seed;
    constexpr unsigned threads = 256;
    constexpr std::size_t most_blocks = 4096;
    const std::size_t blocks =
        std::min<std::size_t>(most_blocks, parameters.bytes / 8 / threads + 1);
    kernels.launch(kernels.find("common", "kf_library_fill"), {static_cast<unsigned>(blocks), 1},
                   threads, stream, parameters);
}

Scratch::~Scratch() {
    driver_.cuCtxSynchronize();
    driver_.cuMemFree(memory_);
}

CUdeviceptr Scratch::address(std::size_t operand, std::size_t set) const {
    const Placed& placed = placed_.at(operand);
    return placed.base + placed.stride * (set % sets_);
}

CallClock::CallClock(const Driver& driver, CUstream stream, Kernels& kernels)
    : driver_(driver),
      stream_(stream),
      delay_(kernels.find("common", "kf_library_delay")),
      kernels_(kernels) {
    driver.check(driver.cuEventCreate(&start_, CU_EVENT_DEFAULT), "library step: making an event");
    const CUresult second = driver.cuEventCreate(&stop_, CU_EVENT_DEFAULT);
    if (second != CUDA_SUCCESS) driver.cuEventDestroy(start_);
    driver.check(second, "library step: making an event");
}

CallClock::~CallClock() {
    driver_.cuEventDestroy(start_);
    driver_.cuEventDestroy(stop_);
}

double CallClock::seconds(int calls, const std::function<void()>& enqueue) {
    // Longer than the host takes to enqueue the calls: some microseconds each.
    DelayParameters delay;
    delay.ns = 20'000 + 8'000ULL * static_cast<unsigned>(calls);
    kernels_.launch(delay_, {}, 1, stream_, delay);
    driver_.check(driver_.cuEventRecord(start_, stream_), "library step: recording an event");
    for (int i = 0; i < calls; ++i) enqueue();
    driver_.check(driver_.cuEventRecord(stop_, stream_), "library step: recording an event");
    driver_.check(driver_.cuCtxSynchronize(), "library step: timing an algorithm");
    float milliseconds = 0.0F;
    driver_.check(driver_.event_elapsed_time(&milliseconds, start_, stop_),
                  "library step: reading a time");
    return static_cast<double>(milliseconds) * 1e-3 / calls;
}

SweepResult sweep(std::size_t count, double budget_s,
                  const std::function<double(std::size_t, int)>& time,
                  const std::function<double()>& now) {
    constexpr double close = 1.5;
    constexpr int second_calls = 3;
    constexpr int final_calls = 20;
    constexpr std::size_t finalists = 8;
    const auto faster = [](const Contender& a, const Contender& b) {
        return a.seconds < b.seconds;
    };
    SweepResult result;
    std::vector<Contender>& field = result.ranking;
    const double start = now();
    for (std::size_t i = 0; i < count && now() - start < budget_s; ++i) {
        const double seconds = time(i, 1);
        if (seconds < 0.0) continue;
        field.push_back({i, seconds});
    }
    result.tried = field.size();
    if (field.empty()) return result;
    const bool first_ran = field.front().index == 0;
    const double best = std::min_element(field.begin(), field.end(), faster)->seconds;
    std::erase_if(field, [&](const Contender& each) {
        return each.seconds > close * best && each.index != 0;
    });
    for (Contender& each : field) each.seconds = time(each.index, second_calls);
    std::stable_sort(field.begin(), field.end(), faster);
    for (std::size_t i = finalists; i < field.size();) {
        if (field[i].index == 0) {
            ++i;
        } else {
            field.erase(field.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    for (Contender& each : field) each.seconds = time(each.index, final_calls);
    for (Contender& each : field) {
        each.seconds = (each.seconds + time(each.index, final_calls)) / 2.0;
        if (first_ran && each.index == 0) result.first_s = each.seconds;
    }
    std::stable_sort(field.begin(), field.end(), faster);
    return result;
}

}  // namespace kernelforge::worker::library
