// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/compile_source.hpp"

/// What the scanner hands on must pass the scanner again, with the same includes: one reading is
/// left.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kernelforge::compile;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const ScannedSource first = scan_source(text, "candidate.cu", {"cute"});
    if (!first.refusals.empty()) return 0;
    const AssembledSource assembled = assemble_source(first, {{"N", 1}});
    const ScannedSource second =
        scan_source(assembled.include_block + first.body, "candidate.cu", {"cute"});
    if (!second.refusals.empty() || second.includes != first.includes) std::abort();
    return 0;
}
