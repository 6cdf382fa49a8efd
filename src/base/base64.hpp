// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace kernelforge {

/// RFC 4648, with padding.
[[nodiscard]] std::string base64_encode(std::string_view bytes);

/// @throws Error parse on anything that `base64_encode` cannot have made
[[nodiscard]] std::string base64_decode(std::string_view text);

}  // namespace kernelforge
