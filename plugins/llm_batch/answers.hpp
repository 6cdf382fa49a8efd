// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "chat_format.hpp"
#include "kernelforge/llm_backend.hpp"

// Reading of batch output files. Include from .cpp files only.

namespace kernelforge {

/// What an output file says about one request: a reply, or the service's error.
struct BatchAnswer {
    std::optional<ChatReply> reply;
    std::string error;  ///< one sentence with file and line, when there is no reply
};

/// All of one output file.
struct BatchAnswers {
    std::map<std::string, BatchAnswer> by_id;  ///< by custom_id
    std::size_t bad_lines = 0;
    std::vector<std::string> problems;  ///< of the first bad lines, each with file, line and column
};

/// Reads JSON lines: what a batch service writes (`response`, `error`) and plain lines
/// (`custom_id`, `content`). Request lines are passed over. A line that cannot be used is counted
/// and the rest is read. Where an id comes twice, the first reply counts, and a reply counts more
/// than an error.
/// @throws Error cancelled
[[nodiscard]] BatchAnswers parse_answers(std::string_view text, const std::string& file,
                                         const std::optional<chat::Prices>& prices,
                                         std::stop_token stop = {});

}  // namespace kernelforge
