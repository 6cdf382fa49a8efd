// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kernelforge {

/// The `kernelforge-worker` program: `configured` when that is not empty, else the one beside the
/// running program, else the one that was installed with this library, else the one of the build
/// tree.
/// @throws Error not_found, naming the places
[[nodiscard]] std::string find_worker(const std::string& configured);

}  // namespace kernelforge
