// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernelforge/error.hpp"
#include "worker/compile_cubin.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        (void)kernelforge::compile::read_cubin({reinterpret_cast<const char*>(data), size});
    } catch (const kernelforge::Error&) {
        // A refusal is a good answer.
    }
    return 0;
}
