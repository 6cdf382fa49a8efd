// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernelforge/error.hpp"
#include "kernelforge/recording.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const std::string_view text(reinterpret_cast<const char*>(data), size);
        static_cast<void>(kernelforge::parse_recording(text, "recording"));
    } catch (const kernelforge::Error&) {
        // What a malformed recording should lead to.
    }
    return 0;
}
