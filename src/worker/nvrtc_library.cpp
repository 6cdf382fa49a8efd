// SPDX-License-Identifier: Apache-2.0
#include "worker/nvrtc_library.hpp"

#include <dlfcn.h>

#include <vector>

#include "base/open_nvrtc.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge::compile {
namespace {

template <class F>
void load(void* library, const std::string& path, const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    if (function == nullptr) {
        throw Error(ErrorCode::unsupported,
                    path + ": function " + name + " is missing; CUDA 12.6 or newer is needed");
    }
}

}  // namespace

NvrtcLibrary::NvrtcLibrary(const std::string& path) {
    void* library = open_nvrtc(path);
    if (library == nullptr) {
        const char* cause = ::dlerror();
        throw Error(ErrorCode::unsupported,
                    "cannot load " + path + ": " + (cause != nullptr ? cause : "unknown cause"));
    }
    load(library, path, "nvrtcVersion", version);
    load(library, path, "nvrtcGetErrorString", error_string);
    load(library, path, "nvrtcGetNumSupportedArchs", architecture_count);
    load(library, path, "nvrtcGetSupportedArchs", architectures);
    load(library, path, "nvrtcCreateProgram", create_program);
    load(library, path, "nvrtcDestroyProgram", destroy_program);
    load(library, path, "nvrtcCompileProgram", compile_program);
    load(library, path, "nvrtcAddNameExpression", add_name_expression);
    load(library, path, "nvrtcGetLoweredName", lowered_name);
    load(library, path, "nvrtcGetProgramLogSize", log_size);
    load(library, path, "nvrtcGetProgramLog", log);
    load(library, path, "nvrtcGetPTXSize", ptx_size);
    load(library, path, "nvrtcGetPTX", ptx);
    load(library, path, "nvrtcGetCUBINSize", cubin_size);
    load(library, path, "nvrtcGetCUBIN", cubin);
    set_precompiled_heap_size =
        reinterpret_cast<nvrtcResult (*)(std::size_t)>(::dlsym(library, "nvrtcSetPCHHeapSize"));
    int major = 0;
    int minor = 0;
    if (version(&major, &minor) != NVRTC_SUCCESS || major * 100 + minor < 1206) {
        throw Error(ErrorCode::unsupported, path + ": NVRTC " + std::to_string(major) + "." +
                                                std::to_string(minor) +
                                                " is too old, 12.6 or newer is needed");
    }
    description = "NVRTC " + std::to_string(major) + "." + std::to_string(minor) + " (" +
                  path.substr(path.rfind('/') + 1) + ")";
}

std::string NvrtcLibrary::architecture_list() const {
    int count = 0;
    if (architecture_count(&count) != NVRTC_SUCCESS || count <= 0) return "unknown";
    std::vector<int> list(static_cast<std::size_t>(count));
    if (architectures(list.data()) != NVRTC_SUCCESS) return "unknown";
    std::string text;
    for (const int one : list) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(one);
    return text;
}

}  // namespace kernelforge::compile
