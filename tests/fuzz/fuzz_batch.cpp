// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "llm_batch/answers.hpp"

// An output file of a batch. A line that cannot be used is counted, never thrown.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto answers = kernelforge::parse_answers(text, "output.jsonl", std::nullopt);
    for (const auto& [id, answer] : answers.by_id) {
        if (!answer.reply && answer.error.empty()) std::abort();
    }
    return 0;
}
