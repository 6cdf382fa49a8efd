// SPDX-License-Identifier: Apache-2.0
#include "emulator/driver.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <thread>

#include "emulator/driver_state.hpp"

namespace kernelforge::emulator {

namespace {

constexpr std::size_t most_memory_bytes = std::size_t{8} << 30;

DriverState* the_state = nullptr;

/// A host keeps half of its memory; of what this process may write, half is for the checker's
/// shadows, registers and the program itself.
std::size_t memory_for_device() {
    std::size_t bytes = most_memory_bytes;
    rlimit limit{};
    if (::getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        bytes = std::min<std::size_t>(bytes, limit.rlim_cur / 2);
    }
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page <= 0) return bytes;
    return std::min(bytes, static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / 2);
}

}  // namespace

DriverState* driver_state() noexcept {
    return the_state;
}

DriverState::DriverState(DriverOptions given) : options(given), memory_bytes(memory_for_device()) {
    make_machine();
    if (options.check) checker.emplace(memory);
}

void DriverState::make_machine() {
    const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    machine = std::make_unique<Machine>(memory, limits,
                                        options.threads > 0 ? options.threads : processors);
}

std::size_t DriverState::used_bytes() {
    std::erase_if(blocks_, [](const auto& block) { return block.first.expired(); });
    std::size_t bytes = 0;
    for (const auto& [block, size] : blocks_) bytes += size;
    return bytes;
}

std::shared_ptr<Block> DriverState::make_block(std::size_t bytes) {
    if (bytes > memory_bytes - std::min(memory_bytes, used_bytes())) return nullptr;
    try {
        // Shared by the handle and the mappings of it.
        auto block = std::make_shared<Block>(bytes);
        blocks_.emplace_back(block, bytes);
        return block;
    } catch (const Error&) {
        return nullptr;  // the host has less than it seemed
    }
}

std::uint64_t DriverState::allocate(std::size_t bytes) {
    std::shared_ptr<Block> block = make_block(bytes);
    if (block == nullptr) return 0;
    const std::uint64_t address = memory.reserve(bytes);
    if (address != 0) memory.map(address, bytes, std::move(block), 0, true);
    return address;
}

void DriverState::free(std::uint64_t address, std::size_t bytes) {
    static_cast<void>(memory.unmap(address, bytes));
    memory.release(address);
}

CUresult DriverState::note_written(std::uint64_t address, std::size_t bytes) {
    if (!checked || bytes == 0) return CUDA_SUCCESS;
    try {
        checker->written(address, bytes);
        return CUDA_SUCCESS;
    } catch (const std::bad_alloc&) {
        return keep_no_memory("the checker");
    }
}

CUresult DriverState::keep_no_memory(const std::string& who) {
    if (checker) checker->memory_ran_out();
    Report found;
    found.kind = Report::Kind::limit;
    found.message = who + " needs more memory than the emulator may use (option memory_limit_mib)";
    return keep_fault(CUDA_ERROR_OUT_OF_MEMORY, std::move(found));
}

CUresult DriverState::keep_fault(CUresult result, Report found) {
    fault = result;
    report = std::move(found);
    return result;
}

struct EmulatedDevice::State {
    explicit State(DriverOptions options) : driver(options) {
        add_device_functions(table);
        add_memory_functions(table);
        add_module_functions(table);
        add_launch_functions(table);
        add_tensor_map_functions(table);
    }
    DriverState driver;
    worker::Driver table;
};

EmulatedDevice::EmulatedDevice(DriverOptions options) {
    if (the_state != nullptr) {
        throw Error(ErrorCode::invalid_argument,
                    "there is an emulated device in this process already");
    }
    state_ = std::make_unique<State>(options);
    the_state = &state_->driver;
}

EmulatedDevice::~EmulatedDevice() {
    the_state = nullptr;
}

const worker::Driver& EmulatedDevice::driver() const noexcept {
    return state_->table;
}

DeviceInfo EmulatedDevice::info() const {
    const MachineLimits& limits = state_->driver.limits;
    DeviceInfo info;
    info.name = device_name;
    info.arch = "sm_90a";
    info.wants_ptx = true;
    info.emulated = true;
    info.multiprocessors = static_cast<int>(limits.multiprocessors);
    info.warp_size = h200::warp_size;
    info.max_threads_per_block = h200::threads_per_block;
    info.max_threads_per_multiprocessor = static_cast<int>(limits.threads_per_multiprocessor);
    info.max_blocks_per_multiprocessor = static_cast<int>(limits.blocks_per_multiprocessor);
    info.registers_per_multiprocessor = h200::registers;
    info.shared_bytes_per_multiprocessor = limits.shared_bytes_per_multiprocessor;
    info.max_shared_bytes_per_block = limits.max_shared_bytes_per_block;
    info.reserved_shared_bytes_per_block = limits.reserved_shared_bytes;
    info.l2_bytes = h200::l2_bytes;
    info.memory_bytes = static_cast<std::int64_t>(state_->driver.memory_bytes);
    info.clock_khz = h200::clock_khz;
    info.memory_clock_khz = h200::memory_clock_khz;
    info.driver_version = h200::driver_version;
    return info;
}

void EmulatedDevice::begin_checked(std::vector<View> views) {
    DriverState& driver = state_->driver;
    if (!driver.checker) return;
    try {
        driver.checker->begin(std::move(views));
    } catch (const std::bad_alloc&) {
        // The plan's first step will tell.
        static_cast<void>(driver.keep_no_memory("the checker"));
        return;
    }
    driver.machine->set_observer(&*driver.checker);
    driver.checked = true;
}

void EmulatedDevice::end_checked() {
    DriverState& driver = state_->driver;
    if (!driver.checked) return;
    driver.checked = false;
    driver.machine->set_observer(nullptr);
    driver.checker->end();
}

std::vector<View> EmulatedDevice::variables(CUmodule module) const {
    std::vector<View> views;
    const auto found = state_->driver.modules.find(reinterpret_cast<DriverModule*>(module));
    if (found == state_->driver.modules.end()) return views;
    const LoadedCode& loaded = found->second->loaded;
    for (std::size_t i = 0; i < loaded.code->globals.size(); ++i) {
        const Variable& variable = loaded.code->globals[i];
        if (variable.bytes == 0) continue;
        View view;
        view.address = loaded.global_addresses[i];
        view.bytes = variable.bytes;
        view.name = "variable " + variable.name;
        view.writable = variable.space != Space::constant;
        views.push_back(std::move(view));
    }
    return views;
}

void EmulatedDevice::set_registers(CUfunction function, int registers) {
    reinterpret_cast<DriverFunction*>(function)->registers =
        static_cast<std::uint32_t>(std::max(registers, 0));
}

std::optional<Report> EmulatedDevice::take_report() {
    state_->driver.fault = CUDA_SUCCESS;
    return std::exchange(state_->driver.report, std::nullopt);
}

std::string EmulatedDevice::take_refusal() {
    return std::exchange(state_->driver.refusal, {});
}

void EmulatedDevice::set_deadline(std::chrono::steady_clock::time_point deadline) {
    state_->driver.deadline = deadline;
}

std::uint64_t EmulatedDevice::thread_instructions() const noexcept {
    return state_->driver.thread_instructions;
}

}  // namespace kernelforge::emulator
