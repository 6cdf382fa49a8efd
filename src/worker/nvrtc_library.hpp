// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvrtc.h>

#include <cstddef>
#include <string>

namespace kernelforge::compile {

/// NVRTC, loaded at run time; never unloaded, since its threads and exit functions outlive any
/// owner.
struct NvrtcLibrary {
    decltype(&::nvrtcVersion) version = nullptr;
    decltype(&::nvrtcGetErrorString) error_string = nullptr;
    decltype(&::nvrtcGetNumSupportedArchs) architecture_count = nullptr;
    decltype(&::nvrtcGetSupportedArchs) architectures = nullptr;
    decltype(&::nvrtcCreateProgram) create_program = nullptr;
    decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;
    decltype(&::nvrtcCompileProgram) compile_program = nullptr;
    decltype(&::nvrtcAddNameExpression) add_name_expression = nullptr;
    decltype(&::nvrtcGetLoweredName) lowered_name = nullptr;
    decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
    decltype(&::nvrtcGetProgramLog) log = nullptr;
    decltype(&::nvrtcGetPTXSize) ptx_size = nullptr;
    decltype(&::nvrtcGetPTX) ptx = nullptr;
    decltype(&::nvrtcGetCUBINSize) cubin_size = nullptr;
    decltype(&::nvrtcGetCUBIN) cubin = nullptr;
    /// Since CUDA 12.8; null before.
    nvrtcResult (*set_precompiled_heap_size)(std::size_t) = nullptr;

    /// @throws Error unsupported (cannot be loaded, lacks a function, or is too old)
    explicit NvrtcLibrary(const std::string& path);

    /// "NVRTC 13.0 (libnvrtc.so.13)"
    std::string description;
    /// "80 86 90 …", as the library lists them.
    [[nodiscard]] std::string architecture_list() const;
};

}  // namespace kernelforge::compile
