// SPDX-License-Identifier: Apache-2.0
#include "worker/library_device.hpp"

#include <utility>

namespace kernelforge::worker::library {

std::string_view module_ptx(std::string_view name) {
    using Ptx = std::string_view (*)();
    static constexpr std::pair<std::string_view, Ptx> modules[] = {
        {"common", common_ptx},
#ifdef KERNELFORGE_HAS_CUB
        {"reduce_f32", reduce_f32_ptx},   {"sort_f32", sort_f32_ptx},
        {"reduce_f64", reduce_f64_ptx},   {"sort_f64", sort_f64_ptx},
        {"reduce_f16", reduce_f16_ptx},   {"sort_f16", sort_f16_ptx},
        {"reduce_bf16", reduce_bf16_ptx}, {"sort_bf16", sort_bf16_ptx},
        {"reduce_i32", reduce_i32_ptx},   {"sort_i32", sort_i32_ptx},
        {"reduce_i64", reduce_i64_ptx},   {"sort_i64", sort_i64_ptx},
#endif
    };
    for (const auto& [known, ptx] : modules) {
        if (known == name) return ptx();
    }
#ifdef KERNELFORGE_HAS_CUB
    throw Error(ErrorCode::unsupported,
                "CUB: there is no kernel module '" + std::string(name) + "' in this build");
#else
    throw Error(ErrorCode::unsupported,
                "CUB: this build was made without its headers, so it has no module '" +
                    std::string(name) + "'");
#endif
}

Kernels::~Kernels() {
    for (const auto& [name, module] : modules_) driver_.cuModuleUnload(module);
}

CUfunction Kernels::find(const std::string& module, const std::string& kernel) {
    auto at = modules_.find(module);
    if (at == modules_.end()) {
        CUmodule loaded = nullptr;
        driver_.check(driver_.cuModuleLoadData(&loaded, module_ptx(module).data()),
                      "loading the library steps' module " + module);
        at = modules_.emplace(module, loaded).first;
    }
    CUfunction function = nullptr;
    driver_.check(driver_.cuModuleGetFunction(&function, at->second, kernel.c_str()),
                  "looking up " + kernel);
    return function;
}

}  // namespace kernelforge::worker::library
