// SPDX-License-Identifier: Apache-2.0
#include "worker/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace kernelforge::worker {

namespace {

// NVML's C interface with versioned names, as far as it is used. Results are ints, 0 is success.
constexpr int success = 0;
constexpr unsigned clock_sm = 1;
constexpr unsigned clock_memory = 2;
constexpr unsigned sensor_gpu = 0;
constexpr unsigned most_processes = 256;

/// nvmlProcessInfo_t of the `_v3` functions.
struct ProcessInfo {
    unsigned pid = 0;
    unsigned long long used_memory = 0;
    unsigned gpu_instance = 0;
    unsigned compute_instance = 0;
};

}  // namespace

struct Nvml::Table {
    int (*init)() = nullptr;
    int (*device_by_bus_id)(const char*, void**) = nullptr;
    int (*clock)(void*, unsigned, unsigned*) = nullptr;
    int (*temperature)(void*, unsigned, unsigned*) = nullptr;
    int (*reasons)(void*, unsigned long long*) = nullptr;
    int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
};

std::unique_ptr<Nvml> Nvml::open(const std::string& pci_bus_id) {
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    const auto find = [&](auto& function, const char* name) {
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
        return function != nullptr;
    };
    auto table = std::make_shared<Table>();
    if (!find(table->init, "nvmlInit_v2") ||
        !find(table->device_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2")) {
        return nullptr;
    }
    find(table->clock, "nvmlDeviceGetClockInfo");
    find(table->temperature, "nvmlDeviceGetTemperature");
    if (!find(table->reasons, "nvmlDeviceGetCurrentClocksEventReasons")) {
        find(table->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
    find(table->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    void* device = nullptr;
    if (table->init() != success ||
        table->device_by_bus_id(pci_bus_id.c_str(), &device) != success) {
        return nullptr;
    }
    std::unique_ptr<Nvml> nvml(new Nvml);
    nvml->table_ = std::move(table);
    nvml->device_ = device;
    return nvml;
}

Nvml::Reading Nvml::read() const {
    Reading reading;
    const auto read_clock = [&](unsigned which, std::optional<int>& value) {
        unsigned mhz = 0;
        if (table_->clock != nullptr && table_->clock(device_, which, &mhz) == success) {
            value = static_cast<int>(mhz);
        }
    };
    read_clock(clock_sm, reading.sm_clock_mhz);
    read_clock(clock_memory, reading.memory_clock_mhz);
    unsigned degrees = 0;
    if (table_->temperature != nullptr &&
        table_->temperature(device_, sensor_gpu, &degrees) == success) {
        reading.temperature_c = static_cast<int>(degrees);
    }
    unsigned long long reasons = 0;
    if (table_->reasons != nullptr && table_->reasons(device_, &reasons) == success) {
        reading.throttle_reasons = reasons;
    }
    std::vector<ProcessInfo> processes(most_processes);
    unsigned count = most_processes;
    if (table_->processes != nullptr) {
        const int result = table_->processes(device_, &count, processes.data());
        if (result == success) {
            reading.processes.emplace();
            for (unsigned i = 0; i < std::min(count, most_processes); ++i) {
                reading.processes->push_back(processes[i].pid);
            }
        }
    }
    return reading;
}

std::optional<std::uint32_t> own_process(const Company& company) {
    if (!company.before || !company.after) return std::nullopt;
    std::optional<std::uint32_t> own;
    for (const std::uint32_t id : *company.after) {
        if (std::count(company.before->begin(), company.before->end(), id) != 0) continue;
        if (own && *own != id) return std::nullopt;
        own = id;
    }
    return own;
}

std::optional<int> other_processes(const Company& company,
                                   const std::optional<std::vector<std::uint32_t>>& processes) {
    const std::optional<std::uint32_t> own = own_process(company);
    if (!own || !processes) return std::nullopt;
    const auto ours = std::count(processes->begin(), processes->end(), *own);
    if (ours == 0) return std::nullopt;
    return static_cast<int>(static_cast<std::ptrdiff_t>(processes->size()) - ours);
}

DeviceState device_state(const Nvml::Reading& before, const Nvml::Reading& after) {
    DeviceState state;
    state.sm_clock_mhz_before = before.sm_clock_mhz;
    state.sm_clock_mhz_after = after.sm_clock_mhz;
    state.memory_clock_mhz = after.memory_clock_mhz;
    state.temperature_c = after.temperature_c;
    if (before.throttle_reasons || after.throttle_reasons) {
        state.throttle_reasons =
            before.throttle_reasons.value_or(0) | after.throttle_reasons.value_or(0);
    }
    if (before.other_processes || after.other_processes) {
        state.other_processes =
            std::max(before.other_processes.value_or(0), after.other_processes.value_or(0));
    }
    return state;
}

}  // namespace kernelforge::worker
