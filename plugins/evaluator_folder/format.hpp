// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/json_text.hpp"

// The first two members of every JSON file of a job folder. Include from .cpp files only.

namespace kernelforge::folder {

/// `{"format": FORMAT, "version": format_version}`
[[nodiscard]] Json header(std::string_view format);

/// @throws Error parse (another format), unsupported (another version)
void check_header(const JsonNode& root, std::string_view format);

/// The name of a blob. @throws Error parse unless it is 64 lower-case hexadecimal digits
[[nodiscard]] std::string blob_name(const JsonNode& node);

}  // namespace kernelforge::folder
