// SPDX-License-Identifier: Apache-2.0
#include "nvrtc_compiler.hpp"

#include "kernelforge/plugin.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::Compiler> compilers[] = {
    {"nvrtc", "compiles with NVRTC in worker processes that can be killed; needs no GPU",
     &kernelforge::make_nvrtc_compiler},
};

}  // namespace

KERNELFORGE_PLUGIN(compiler_nvrtc) = {KERNELFORGE_PLUGIN_HEAD("compiler_nvrtc", "0.1.0"),
                                      .compilers = compilers};
