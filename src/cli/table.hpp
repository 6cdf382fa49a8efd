// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kernelforge::cli {

/// Rows of text in aligned columns; the first row is the heading. The first column is aligned left,
/// the others right.
[[nodiscard]] std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace kernelforge::cli
