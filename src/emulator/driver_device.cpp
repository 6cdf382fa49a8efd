// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "emulator/driver_state.hpp"

// Errors, the device, its context, streams and events.

namespace kernelforge::emulator {

namespace {

struct ErrorText {
    CUresult result;
    const char* name;
    const char* text;
};

/// Every code that a function here can return.
constexpr std::array error_texts = {
    ErrorText{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    ErrorText{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    ErrorText{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    ErrorText{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    ErrorText{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    ErrorText{CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE",
              "device kernel image is invalid"},
    ErrorText{CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    ErrorText{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    ErrorText{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    ErrorText{CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    ErrorText{CUDA_ERROR_UNSUPPORTED_LIMIT, "CUDA_ERROR_UNSUPPORTED_LIMIT",
              "limit is not supported on this architecture"},
    ErrorText{CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
              "an illegal memory access was encountered"},
    ErrorText{CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
              "too many resources requested for launch"},
    ErrorText{CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT",
              "the launch timed out and was terminated"},
    ErrorText{CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    ErrorText{CUDA_ERROR_HARDWARE_STACK_ERROR, "CUDA_ERROR_HARDWARE_STACK_ERROR",
              "hardware stack error"},
    ErrorText{CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
              "an illegal instruction was encountered"},
    ErrorText{CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    ErrorText{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    ErrorText{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
              "too many blocks in cooperative launch"},
    ErrorText{CUDA_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
              "a cluster has a size that the device cannot launch"},
    ErrorText{CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"}};

const ErrorText* find_error(CUresult result) {
    const auto found = std::find_if(error_texts.begin(), error_texts.end(),
                                    [&](const ErrorText& each) { return each.result == result; });
    return found != error_texts.end() ? &*found : nullptr;
}

CUresult CUDAAPI get_error_name(CUresult error, const char** name) {
    const ErrorText* found = find_error(error);
    *name = found != nullptr ? found->name : nullptr;
    return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI get_error_string(CUresult error, const char** text) {
    const ErrorText* found = find_error(error);
    *text = found != nullptr ? found->text : nullptr;
    return found != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI init(unsigned flags) {
    if (driver_state() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI get_version(int* version) {
    *version = h200::driver_version;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI get_device_count(int* count) {
    return on_device([&](DriverState&) {
        *count = 1;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI get_device(CUdevice* device, int ordinal) {
    return on_device([&](DriverState&) {
        if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
        *device = 0;
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI get_device_name(char* name, int bytes, CUdevice device) {
    return on_device([&](DriverState&) {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
        const std::string_view text = device_name;
        const std::size_t length = std::min(text.size(), static_cast<std::size_t>(bytes) - 1);
        std::memcpy(name, text.data(), length);
        name[length] = '\0';
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI get_device_uuid(CUuuid* uuid, CUdevice device) {
    return on_device([&](DriverState&) {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        *uuid = {};
        return CUDA_SUCCESS;
    });
}

/// What this device has no bus for.
CUresult CUDAAPI get_bus_id(char*, int, CUdevice) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI get_total_memory(std::size_t* bytes, CUdevice device) {
    return on_device([&](DriverState& state) {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        *bytes = state.memory_bytes;
        return CUDA_SUCCESS;
    });
}

int attribute_of(const MachineLimits& limits, CUdevice_attribute which) {
    constexpr int widest_grid = 65535;
    constexpr int deepest_block = 64;
    constexpr int constant_bytes = 65536;
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            return h200::threads_per_block;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            return deepest_block;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            return INT32_MAX;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            return widest_grid;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            return h200::default_shared_bytes;
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
            return constant_bytes;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            return h200::warp_size;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            return h200::registers;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
            return h200::clock_khz;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            return h200::memory_clock_khz;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return static_cast<int>(limits.multiprocessors);
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            return h200::l2_bytes;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            return static_cast<int>(limits.threads_per_multiprocessor);
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            return static_cast<int>(limits.blocks_per_multiprocessor);
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            return h200::major;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            return h200::minor;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return static_cast<int>(limits.shared_bytes_per_multiprocessor);
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            return static_cast<int>(limits.max_shared_bytes_per_block);
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
            return static_cast<int>(limits.reserved_shared_bytes);
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
            return 1;
        default:
            return 0;  // it is not there
    }
}

CUresult CUDAAPI get_attribute(int* value, CUdevice_attribute which, CUdevice device) {
    return on_device([&](DriverState& state) {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        if (value == nullptr || which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        *value = attribute_of(state.limits, which);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI retain_context(CUcontext* context, CUdevice device) {
    return on_device([&](DriverState& state) {
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
        *context = reinterpret_cast<CUcontext>(&state);
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI release_context(CUdevice device) {
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI set_current(CUcontext context) {
    return on_device([&](DriverState& state) {
        const bool known = context == nullptr || context == reinterpret_cast<CUcontext>(&state);
        return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    });
}

CUresult CUDAAPI set_limit(CUlimit limit, std::size_t value) {
    return on_device([&](DriverState& state) {
        switch (limit) {
            case CU_LIMIT_STACK_SIZE:
                if (value > state.limits.most_local_bytes) return CUDA_ERROR_INVALID_VALUE;
                if (value != state.limits.stack_bytes) {
                    state.limits.stack_bytes = static_cast<std::uint32_t>(value);
                    state.make_machine();
                }
                return CUDA_SUCCESS;
            // What a launch prints is limited by MachineLimits; lines of L2 are not modelled.
            case CU_LIMIT_PRINTF_FIFO_SIZE:
            case CU_LIMIT_MALLOC_HEAP_SIZE:
            case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
                return CUDA_SUCCESS;
            default:
                return CUDA_ERROR_UNSUPPORTED_LIMIT;
        }
    });
}

/// Everything is done when its call returns.
CUresult CUDAAPI synchronize() {
    return on_device([](DriverState&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI create_stream(CUstream* stream, unsigned) {
    return on_device([&](DriverState& state) {
        auto made = std::make_unique<char>();
        *stream = reinterpret_cast<CUstream>(made.get());
        state.streams.emplace(made.get(), std::move(made));
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI destroy_stream(CUstream stream) {
    return giving_back([&](DriverState& state) {
        return state.streams.erase(stream) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    });
}

CUresult CUDAAPI query_stream(CUstream stream) {
    return on_device([&](DriverState& state) {
        const bool known = stream == nullptr || state.streams.count(stream) != 0;
        return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    });
}

CUresult CUDAAPI create_event(CUevent* event, unsigned) {
    return on_device([&](DriverState& state) {
        auto made = std::make_unique<DriverEvent>();
        *event = reinterpret_cast<CUevent>(made.get());
        state.events.emplace(made.get(), std::move(made));
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI destroy_event(CUevent event) {
    return giving_back([&](DriverState& state) {
        const auto key = reinterpret_cast<DriverEvent*>(event);
        return state.events.erase(key) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    });
}

DriverEvent* find_event(DriverState& state, CUevent event) {
    const auto found = state.events.find(reinterpret_cast<DriverEvent*>(event));
    return found != state.events.end() ? found->second.get() : nullptr;
}

CUresult CUDAAPI record_event(CUevent event, CUstream) {
    return on_device([&](DriverState& state) {
        DriverEvent* found = find_event(state, event);
        if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
        found->recorded = std::chrono::steady_clock::now();
        return CUDA_SUCCESS;
    });
}

CUresult CUDAAPI elapsed_time(float* milliseconds, CUevent first, CUevent last) {
    return on_device([&](DriverState& state) {
        const DriverEvent* from = find_event(state, first);
        const DriverEvent* to = find_event(state, last);
        if (from == nullptr || to == nullptr || !from->recorded || !to->recorded) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        *milliseconds =
            std::chrono::duration<float, std::milli>(*to->recorded - *from->recorded).count();
        return CUDA_SUCCESS;
    });
}

}  // namespace

void add_device_functions(worker::Driver& table) {
    table.cuInit = init;
    table.cuDriverGetVersion = get_version;
    table.cuGetErrorName = get_error_name;
    table.cuGetErrorString = get_error_string;
    table.cuDeviceGetCount = get_device_count;
    table.cuDeviceGet = get_device;
    table.cuDeviceGetName = get_device_name;
    table.cuDeviceGetUuid = get_device_uuid;
    table.cuDeviceGetAttribute = get_attribute;
    table.cuDeviceGetPCIBusId = get_bus_id;
    table.cuDeviceTotalMem = get_total_memory;
    table.cuDevicePrimaryCtxRetain = retain_context;
    table.cuDevicePrimaryCtxRelease = release_context;
    table.cuCtxSetCurrent = set_current;
    table.cuCtxSetLimit = set_limit;
    table.cuCtxSynchronize = synchronize;
    table.cuCtxResetPersistingL2Cache = synchronize;
    table.cuStreamCreate = create_stream;
    table.cuStreamDestroy = destroy_stream;
    table.cuStreamQuery = query_stream;
    table.cuEventCreate = create_event;
    table.cuEventDestroy = destroy_event;
    table.cuEventRecord = record_event;
    table.event_elapsed_time = elapsed_time;
}

}  // namespace kernelforge::emulator
