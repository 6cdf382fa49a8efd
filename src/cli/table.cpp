// SPDX-License-Identifier: Apache-2.0
#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernelforge::cli {

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        std::string line;
        for (std::size_t i = 0; i < rows[r].size(); ++i) {
            line += i == 0 ? fmt::format("{:<{}}", rows[r][i], widths[i])
                           : fmt::format("  {:>{}}", rows[r][i], widths[i]);
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        if (r == 0) {
            for (std::size_t i = 0; i < widths.size(); ++i) {
                text += (i == 0 ? "" : "  ") + std::string(widths[i], '-');
            }
            text += "\n";
        }
    }
    return text;
}

}  // namespace kernelforge::cli
