// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

namespace kernelforge {

enum class LogLevel { debug, info, warning, error };

[[nodiscard]] constexpr std::string_view to_string(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::debug:
            return "debug";
        case LogLevel::info:
            return "info";
        case LogLevel::warning:
            return "warning";
        case LogLevel::error:
            return "error";
    }
    return "unknown";
}

/// Receives one line without newline; called from any thread, one call at a time is not promised.
/// May be empty: then nothing is logged. The library itself never prints.
using LogSink = std::function<void(LogLevel, std::string_view)>;

}  // namespace kernelforge
