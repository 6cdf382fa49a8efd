// SPDX-License-Identifier: Apache-2.0
#include "emulator/async_bulk.hpp"

#include <fmt/format.h>

#include "emulator/async_barrier.hpp"

namespace kernelforge::emulator {

std::optional<std::string> copy_fault(std::uint64_t destination, std::uint64_t source, int bytes,
                                      std::uint64_t source_bytes) {
    const auto size = static_cast<std::uint64_t>(bytes);
    if (destination % size != 0) {
        return fmt::format("writes {} bytes at {:#x}, which is no multiple of {}", size,
                           destination, size);
    }
    if (source_bytes > size) {
        return fmt::format("reads {} bytes of a copy of {}", source_bytes, size);
    }
    if (source_bytes != 0 && source % size != 0) {
        return fmt::format("reads {} bytes at {:#x}, which is no multiple of {}", size, source,
                           size);
    }
    return std::nullopt;
}

std::optional<std::string> bulk_fault(std::uint64_t destination, std::uint64_t source,
                                      std::uint64_t bytes, BulkCompletion completion) {
    if (bytes % 16 != 0) {
        return fmt::format("has a size of {} bytes, which is no multiple of 16", bytes);
    }
    if (destination % 16 != 0) {
        return fmt::format("writes at {:#x}, which is no multiple of 16", destination);
    }
    if (source % 16 != 0) {
        return fmt::format("reads at {:#x}, which is no multiple of 16", source);
    }
    if (completion == BulkCompletion::transactions && bytes > most_barrier_count) {
        return fmt::format("has a size of {} bytes, more than an mbarrier counts ({})", bytes,
                           most_barrier_count);
    }
    return std::nullopt;
}

}  // namespace kernelforge::emulator
