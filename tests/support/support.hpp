// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernelforge/error.hpp"

namespace kernelforge::test {

/// The message of the `Error` that `f` throws; nothing when it returns.
template <class F>
[[nodiscard]] std::optional<std::string> error_of(F&& f) {
    try {
        f();
    } catch (const Error& error) {
        return std::string(error.what());
    }
    return std::nullopt;
}

/// Root of the source tree and of the build tree.
[[nodiscard]] std::filesystem::path source_folder();
[[nodiscard]] std::filesystem::path binary_folder();

/// `kernelforge-worker` of this build.
[[nodiscard]] std::string worker_path();

}  // namespace kernelforge::test
