// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "archive.hpp"
#include "kernelforge/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    try {
        const ArchiveContents contents = parse_archive(text, "archive.jsonl");
        // A torn last line never makes the lines before it unreadable.
        if (text.empty()) return 0;
        const ArchiveContents shorter =
            parse_archive(text.substr(0, text.size() - 1), "archive.jsonl");
        if (shorter.records.size() > contents.records.size()) __builtin_trap();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::parse && error.code() != ErrorCode::unsupported) {
            __builtin_trap();
        }
        if (error.position().line == 0) __builtin_trap();
    }
    return 0;
}
