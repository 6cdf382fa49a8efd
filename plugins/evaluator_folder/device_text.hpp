// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json_text.hpp"
#include "kernelforge/evaluator.hpp"

// Devices that a person or a file describes. Include from .cpp files only.

namespace kernelforge::folder {

/// A whole device of devices.json. @throws Error parse (position; the member and its value when it
/// is outside what a device can have, such as no threads a warp)
[[nodiscard]] DeviceInfo read_device(const JsonNode& node);

/// The device of an option: members that are left out are those of an H200 class device when `arch`
/// (default sm_90a) begins with sm_90; of any other architecture the members that limit a launch
/// must be given. @throws Error parse as `read_device`
[[nodiscard]] DeviceInfo read_assumed_device(const JsonNode& node);

}  // namespace kernelforge::folder
