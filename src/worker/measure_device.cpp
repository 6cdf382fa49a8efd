// SPDX-License-Identifier: Apache-2.0
#include "worker/measure_device.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>

namespace kernelforge::worker {

namespace {

constexpr std::size_t printf_bytes = std::size_t{64} << 10;
constexpr std::size_t malloc_heap_bytes = std::size_t{64} << 10;
constexpr std::size_t least_flush_bytes = std::size_t{64} << 20;
constexpr int longest_name = 256;
constexpr std::size_t own_page_bytes = std::size_t{1} << 20;
constexpr std::size_t stamps_offset = 256;

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
}

std::string uuid_text(const CUuuid& uuid) {
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
    }
    return text;
}

DeviceInfo describe_device(const Driver& driver, int index) {
    CUdevice device = 0;
    driver.check(driver.cuDeviceGet(&device, index), "cuDeviceGet");
    const auto get = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
    DeviceInfo info;
    info.index = index;
    std::array<char, longest_name> name{};
    driver.check(driver.cuDeviceGetName(name.data(), longest_name, device), "cuDeviceGetName");
    info.name = name.data();
    CUuuid uuid{};
    driver.check(driver.cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
    info.uuid = uuid_text(uuid);
    const int major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    const int minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    // From 9.0 on the architecture's own instructions need the "a" target.
    info.arch = fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
    info.multiprocessors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info.warp_size = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    info.max_threads_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    info.max_threads_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    info.max_blocks_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    info.registers_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    info.shared_bytes_per_multiprocessor =
        get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    info.max_shared_bytes_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    info.reserved_shared_bytes_per_block =
        get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
    info.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    std::size_t memory = 0;
    driver.check(driver.cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
    info.memory_bytes = static_cast<std::int64_t>(memory);
    info.clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    info.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    driver.check(driver.cuDriverGetVersion(&info.driver_version), "cuDriverGetVersion");
    return info;
}

std::size_t flush_bytes(const DeviceInfo& info) {
    return std::max(static_cast<std::size_t>(info.l2_bytes) * 2, least_flush_bytes);
}

/// Without return type and parameters.
std::string source_name(const std::string& mangled) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> demangled(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
    if (demangled == nullptr) return mangled;
    std::string_view name = demangled.get();
    // From the end, because "(anonymous namespace)" may come first.
    int open = 0;
    for (std::size_t i = name.size(); i > 0 && name.back() == ')'; --i) {
        if (name[i - 1] == ')') ++open;
        if (name[i - 1] == '(' && --open == 0) name = name.substr(0, i - 1);
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] == '<' || name[i] == '(') ++open;
        if (name[i] == '>' || name[i] == ')') --open;
        if (name[i] == ' ' && open == 0) begin = i + 1;
    }
    return std::string(name.substr(begin));
}

}  // namespace

std::vector<DeviceInfo> list_devices(const Driver& driver) {
    const CUresult started = driver.cuInit(0);
    if (started == CUDA_ERROR_NO_DEVICE) return {};
    driver.check(started, "cuInit");
    int count = 0;
    driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    std::vector<DeviceInfo> devices;
    for (int index = 0; index < count; ++index) devices.push_back(describe_device(driver, index));
    return devices;
}

Device::Device(const Driver& driver, const DeviceInfo& info, CuptiRecorder* recorder,
               std::string no_recorder, emulator::EmulatedDevice* emulated)
    : driver_(driver),
      info_(info),
      recorder_(recorder),
      no_recorder_(std::move(no_recorder)),
      emulated_(emulated),
      pool_(driver, info.index) {
    driver_.check(driver_.cuDeviceGet(&device_, info_.index), "cuDeviceGet");
    std::array<char, 32> bus_id{};
    if (driver_.cuDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device_) ==
        CUDA_SUCCESS) {
        nvml_ = Nvml::open(bus_id.data());
    }
    // A process is listed from its first context on.
    if (nvml_ != nullptr) company_.before = nvml_->read().processes;
    make_context();
    if (nvml_ != nullptr) company_.after = nvml_->read().processes;
    if (emulated_ == nullptr) {
        flush_write_ = pool_.acquire(flush_bytes(info_));
        flush_read_ = pool_.acquire(flush_bytes(info_));
    }
    result_page_ = pool_.acquire(host_page_bytes);
    own_page_ = pool_.acquire(own_page_bytes);
    void* page = nullptr;
    driver_.check(driver_.cuMemHostAlloc(&page, host_page_bytes, 0), "cuMemHostAlloc");
    host_page_ = static_cast<std::byte*>(page);
    if (emulated_ == nullptr) {
        poison(flush_read_.region().base(), flush_read_.region().capacity());
    }
}

void Device::make_context() {
    driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, device_),
                  "cuDevicePrimaryCtxRetain on " + info_.name);
    driver_.check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent");
    set_limits();
    driver_.check(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    driver_.check(driver_.cuModuleLoadData(&module_, referee::device_ptx().data()),
                  "cuModuleLoadData of the referee's kernels");
    // Roofs alone need them.
    if (info_.arch == "sm_90a" && emulated_ == nullptr) {
        driver_.check(driver_.cuModuleLoadData(&hopper_module_, referee::hopper_ptx().data()),
                      "cuModuleLoadData of the referee's Hopper kernels");
    }
}

void Device::set_limits() {
    driver_.check(driver_.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, printf_bytes),
                  "cuCtxSetLimit(printf buffer)");
    driver_.check(driver_.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, malloc_heap_bytes),
                  "cuCtxSetLimit(malloc heap)");
    driver_.check(driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack_limit_bytes),
                  "cuCtxSetLimit(stack)");
    // No candidate may keep lines for its next call. A device that has no such carve-out is fine.
    const CUresult carve_out = driver_.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0);
    if (carve_out != CUDA_ERROR_UNSUPPORTED_LIMIT) {
        driver_.check(carve_out, "cuCtxSetLimit(persisting L2)");
    }
}

std::string message_of(const emulator::Report& report) {
    constexpr std::string_view word =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const std::string& message = report.message;
    std::string text;
    for (std::size_t at = 0; at < message.size();) {
        const std::size_t end = std::min(message.find_first_not_of(word, at), message.size());
        const std::string part = message.substr(at, std::max<std::size_t>(end - at, 1));
        text += part.starts_with("_Z") ? source_name(part) : part;
        at += part.size();
    }
    return text;
}

Device::~Device() {
    // Leases first, while the context lives; then what the context owns goes with it.
    flush_write_ = {};
    flush_read_ = {};
    result_page_ = {};
    own_page_ = {};
    if (host_page_ != nullptr) driver_.cuMemFreeHost(host_page_);
    if (module_ != nullptr) driver_.cuModuleUnload(module_);
    if (hopper_module_ != nullptr) driver_.cuModuleUnload(hopper_module_);
    if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
}

Nvml::Reading Device::read_state() const {
    if (nvml_ == nullptr) return {};
    Nvml::Reading reading = nvml_->read();
    reading.other_processes = other_processes(company_, reading.processes);
    return reading;
}

std::string Device::explain(const DriverError& error) {
    if (emulated_ == nullptr) return error.what();
    const std::optional<emulator::Report> report = emulated_->take_report();
    return report ? message_of(*report) : error.what();
}

CUfunction Device::referee_kernel(const std::string& name) {
    const auto found = kernels_.find(name);
    if (found != kernels_.end()) return found->second;
    CUfunction function = nullptr;
    CUmodule module = name == "kf_roof_wgmma_bf16" ? hopper_module_ : module_;
    driver_.check(driver_.cuModuleGetFunction(&function, module, name.c_str()),
                  "cuModuleGetFunction(" + name + ")");
    kernels_.emplace(name, function);
    return function;
}

void Device::launch(const std::string& kernel, const referee::LaunchShape& shape,
                    void* parameters) {
    CUfunction function = referee_kernel(kernel);
    allow_shared(function, kernel, shape.dynamic_shared_bytes);
    std::array<void*, 1> pointers{parameters};
    driver_.check(driver_.cuLaunchKernel(
                      function, shape.blocks, 1, 1, shape.threads, 1, 1, shape.dynamic_shared_bytes,
                      stream_, parameters != nullptr ? pointers.data() : nullptr, nullptr),
                  "cuLaunchKernel(" + kernel + ")");
}

void Device::allow_shared(CUfunction function, const std::string& kernel,
                          std::uint32_t bytes) const {
    constexpr std::uint32_t default_shared_limit = 48U << 10U;
    if (bytes <= default_shared_limit) return;
    driver_.check(
        driver_.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                   static_cast<int>(bytes)),
        "cuFuncSetAttribute(" + kernel + ")");
}

void Device::launch_cooperative(const std::string& kernel, const referee::LaunchShape& shape,
                                void* parameters) {
    CUfunction function = referee_kernel(kernel);
    allow_shared(function, kernel, shape.dynamic_shared_bytes);
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config{};
    config.gridDimX = shape.blocks;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = shape.threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shape.dynamic_shared_bytes;
    config.hStream = stream_;
    config.attrs = &attribute;
    config.numAttrs = 1;
    std::array<void*, 1> pointers{parameters};
    driver_.check(driver_.cuLaunchKernelEx(&config, function, pointers.data(), nullptr),
                  "cuLaunchKernelEx(" + kernel + ")");
}

void Device::poison(CUdeviceptr address, std::size_t bytes) {
    if (bytes == 0) return;
    if (emulated_ != nullptr) {
        // What the kernel writes, without executing it.
        driver_.check(driver_.cuMemsetD8Async(address, 0xFF, bytes, stream_), "poisoning");
        return;
    }
    referee::PoisonParameters parameters{address, bytes};
    launch("kf_poison", referee::bytes_shape(bytes, info_.multiprocessors), &parameters);
}

void Device::scrub(int local_bytes) {
    if (emulated_ != nullptr) return;
    const std::string local(referee::scrub_local_kernel(local_bytes));
    const CUdeviceptr arrivals = own_page_.region().base();
    // Not left to the kernels: a candidate that finds the counters must not stop the next scrub.
    driver_.check(driver_.cuMemsetD8Async(arrivals, 0, 2 * sizeof(std::uint32_t), stream_),
                  "clearing the scrub's counters");
    const referee::LaunchShape shared =
        referee::scrub_shared_shape(info_.multiprocessors, info_.max_shared_bytes_per_block);
    referee::ScrubParameters parameters{arrivals, shared.dynamic_shared_bytes, 0};
    launch_cooperative("kf_scrub_shared", shared, &parameters);
    if (local.empty()) return;
    parameters.arrivals += sizeof(std::uint32_t);
    launch_cooperative(
        local,
        referee::scrub_local_shape(info_.multiprocessors, info_.max_threads_per_multiprocessor),
        &parameters);
}

CUdeviceptr Device::stamp_slot(std::size_t index) const {
    const std::size_t offset = stamps_offset + index * sizeof(std::uint64_t);
    if (offset + sizeof(std::uint64_t) > own_page_bytes) {
        throw Error(ErrorCode::internal, fmt::format("no room for stamp {} of a block", index));
    }
    return own_page_.region().base() + offset;
}

void Device::clear_stamps() {
    poison(stamp_slot(0), own_page_bytes - stamps_offset);
}

Libraries& Device::libraries() {
    if (libraries_ == nullptr) {
        libraries_ = open_libraries(driver_, info_, stream_, library_options_);
    }
    return *libraries_;
}

void Device::reset_persisting_l2() {
    driver_.check(driver_.cuCtxResetPersistingL2Cache(), "cuCtxResetPersistingL2Cache");
}

void Device::flush() {
    if (emulated_ != nullptr) return;
    referee::StreamParameters write;
    write.data = flush_write_.region().base();
    write.bytes = flush_bytes(info_) / 16 * 16;
    write.pattern = flush_pattern_++;
    launch("kf_flush_write", referee::stream_shape(write, info_.multiprocessors), &write);
    referee::StreamParameters read;
    read.data = flush_read_.region().base();
    read.bytes = write.bytes;
    read.sink = result_page();
    launch("kf_flush_read", referee::stream_shape(read, info_.multiprocessors), &read);
}

void Device::wait(Clock::time_point deadline) {
    constexpr auto spin = std::chrono::milliseconds(2);
    constexpr auto pause = std::chrono::microseconds(50);
    const Clock::time_point started = Clock::now();
    for (;;) {
        const CUresult state = driver_.cuStreamQuery(stream_);
        if (state == CUDA_SUCCESS) return;
        if (state != CUDA_ERROR_NOT_READY) driver_.check(state, "the device");
        const Clock::time_point now = Clock::now();
        if (now >= deadline) throw DeviceTimeout("the device did not finish in time");
        if (now - started > spin) {
            std::this_thread::sleep_for(pause);
        } else {
            std::this_thread::yield();
        }
    }
}

}  // namespace kernelforge::worker
