// SPDX-License-Identifier: Apache-2.0
#include "worker/driver.hpp"

#include <dlfcn.h>

namespace kernelforge::worker {

namespace {

#define KERNELFORGE_TEXT_OF(name) #name

template <class F>
void look_up(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    if (function == nullptr) {
        throw Error(ErrorCode::device_unavailable, std::string("libcuda.so.1 has no function ") +
                                                       name +
                                                       ": the driver is older than CUDA 12.0");
    }
}

}  // namespace

bool is_sticky(CUresult result) noexcept {
    switch (result) {
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_UNKNOWN:
            return true;
        default:
            return false;
    }
}

std::string Driver::describe(CUresult result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (cuGetErrorName(result, &name) != CUDA_SUCCESS) name = nullptr;
    if (cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
    std::string description = name != nullptr ? name : "unknown driver error";
    description += " (" + std::to_string(static_cast<int>(result)) + ")";
    if (text != nullptr) description += std::string(": ") + text;
    return description;
}

void Driver::check(CUresult result, std::string_view what) const {
    if (result == CUDA_SUCCESS) return;
    throw DriverError(result, std::string(what) + ": " + describe(result));
}

std::unique_ptr<const Driver> load_driver() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    auto driver = std::make_unique<Driver>();
#define KERNELFORGE_DRIVER_LOOK_UP(name) look_up(library, KERNELFORGE_TEXT_OF(name), driver->name);
    KERNELFORGE_DRIVER_FUNCTIONS(KERNELFORGE_DRIVER_LOOK_UP)
#undef KERNELFORGE_DRIVER_LOOK_UP
    look_up(library, "cuEventElapsedTime", driver->event_elapsed_time);
    driver->function_parameter = reinterpret_cast<decltype(driver->function_parameter)>(
        ::dlsym(library, "cuFuncGetParamInfo"));
    return driver;
}

}  // namespace kernelforge::worker
