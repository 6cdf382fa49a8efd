// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "llm_http/chat_format.hpp"

// The body of an HTTP answer: as a completion and as an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge;
    const std::string text(reinterpret_cast<const char*>(data), size);
    static_cast<void>(chat::one_line(text));
    try {
        const JsonDocument document(text, "answer");
        static_cast<void>(chat::server_error(document.root()));
        static_cast<void>(
            chat::decode_completion(document.root(), chat::Prices{.input_per_million = 1.0,
                                                                  .cached_input_per_million = 0.5,
                                                                  .output_per_million = 2.0}));
    } catch (const Error&) {
        // What a malformed answer should lead to.
    }
    return 0;
}
