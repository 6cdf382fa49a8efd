// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "kernelforge/evaluator.hpp"

namespace kernelforge::cuda {

/// Where the roofs of a device are kept: `roofs/<uuid>+<driver>.json` in the cache folder. Empty
/// when there is no cache folder or the device has no uuid.
[[nodiscard]] std::string roofs_path(const std::string& cache_folder, const DeviceInfo& device);

/// What is kept there; nothing when there is no such file.
/// @throws Error parse, io (a damaged or unreadable file)
[[nodiscard]] std::optional<Roofs> read_roofs(const std::string& path);

/// Writes `{"version": 1, "device", "uuid", "driver_version", "measured", "roofs"}`; `measured` is
/// the UTC date and time. @throws Error io
void write_roofs(const std::string& path, const DeviceInfo& device, const Roofs& roofs);

}  // namespace kernelforge::cuda
