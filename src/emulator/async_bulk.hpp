// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

// What the asynchronous copies demand of their operands (PTX ISA 9.0, "Data Movement and Conversion
// Instructions: Asynchronous copy").

namespace kernelforge::emulator {

/// cp.async of `bytes` (4, 8, 16), of which `source_bytes` are read and the rest becomes zero.
/// @returns what is wrong, as the rest of a sentence about the copy; nothing: it may run [any]
[[nodiscard]] std::optional<std::string> copy_fault(std::uint64_t destination, std::uint64_t source,
                                                    int bytes, std::uint64_t source_bytes);

/// cp.async.bulk, cp.reduce.async.bulk and cp.async.bulk.prefetch (which has no destination: 0):
/// multiples of 16 bytes at multiples of 16. `transactions`: an mbarrier counts the bytes.
enum class BulkCompletion : std::uint8_t { group, transactions };
[[nodiscard]] std::optional<std::string> bulk_fault(std::uint64_t destination, std::uint64_t source,
                                                    std::uint64_t bytes, BulkCompletion completion);

}  // namespace kernelforge::emulator
