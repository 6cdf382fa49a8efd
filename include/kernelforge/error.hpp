// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kernelforge {

/// What kind of thing went wrong. The message says the rest.
enum class ErrorCode {
    invalid_argument,    ///< a caller passed a value outside its documented range
    parse,               ///< text in one of our formats is malformed; `Error::position` is set
    not_found,           ///< a name, file or plugin does not exist
    io,                  ///< reading or writing failed (permission, full disk, …)
    unsupported,         ///< well-formed, but this version or this machine cannot do it
    plugin,              ///< a plugin was refused
    device_unavailable,  ///< no usable GPU or driver
    worker_failed,       ///< a worker process died or broke its protocol
    backend_failed,      ///< an LLM backend gave no usable answer after its retries
    cancelled,           ///< a stop was requested
    internal,            ///< a bug in KernelForge
};

[[nodiscard]] constexpr std::string_view to_string(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::invalid_argument:
            return "invalid_argument";
        case ErrorCode::parse:
            return "parse";
        case ErrorCode::not_found:
            return "not_found";
        case ErrorCode::io:
            return "io";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::plugin:
            return "plugin";
        case ErrorCode::device_unavailable:
            return "device_unavailable";
        case ErrorCode::worker_failed:
            return "worker_failed";
        case ErrorCode::backend_failed:
            return "backend_failed";
        case ErrorCode::cancelled:
            return "cancelled";
        case ErrorCode::internal:
            return "internal";
    }
    return "unknown";
}

/// A place in a text. Line and column count from 1, columns in bytes; 0 means unknown.
struct SourcePosition {
    std::string file;
    std::size_t line = 0;
    std::size_t column = 0;

    friend bool operator==(const SourcePosition&, const SourcePosition&) = default;
};

/// `file:line:column`, leaving out what is unknown.
[[nodiscard]] inline std::string to_string(const SourcePosition& position) {
    std::string text = position.file;
    if (position.line != 0) {
        text += ":" + std::to_string(position.line);
        if (position.column != 0) text += ":" + std::to_string(position.column);
    }
    return text;
}

/// The one exception that KernelForge throws. A candidate's failure is never an exception: it is an
/// `Evaluation` with a status. The message says what failed, on what, what was expected and what
/// was found; lower case, no full stop. Header-only, so that it can cross a plugin boundary.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

    /// The message becomes `file:line:column: message`.
    Error(ErrorCode code, SourcePosition position, const std::string& message)
        : std::runtime_error(to_string(position) + ": " + message),
          code_(code),
          position_(std::move(position)) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }
    /// Empty unless the error is about a place in a text.
    [[nodiscard]] const SourcePosition& position() const noexcept { return position_; }

  private:
    ErrorCode code_;
    SourcePosition position_;
};

}  // namespace kernelforge
