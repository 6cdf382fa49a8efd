// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/definition.hpp"
#include "kernelforge/profiler_tool.hpp"

// What a model answered (docs/reply_format.md).

namespace kernelforge {

/// The kinds of change that a reply may name, `other` last.
[[nodiscard]] std::span<const std::string_view> change_classes() noexcept;

/// A reply taken apart. Every member but `code` has a fallback that depends on the text only.
struct ModelReply {
    std::string plan;          ///< what was changed and why; falls back to the first line of prose
    std::string change_class;  ///< one of `change_classes()`; falls back to `other`
    std::vector<ExpectedChange> expect;  ///< metrics that should move; `factor` is never set
    std::string lesson_of_parent;
    /// The candidate's text, lines ending in a line feed. Absent when there is no usable code.
    std::optional<std::string> code;
    std::string why_no_code;         ///< one sentence, empty when there is code
    bool code_was_cut_off = false;   ///< the code block was not closed: the code may be incomplete
    std::vector<std::string> notes;  ///< what was tolerated or ignored, a sentence each
};

/// Takes a model's answer apart, tolerant of how models answer. Whatever the text is, this returns;
/// its work is proportional to the text's length. [any]
/// @throws nothing but std::bad_alloc
[[nodiscard]] ModelReply parse_reply(std::string_view text, const Definition& definition);

}  // namespace kernelforge
