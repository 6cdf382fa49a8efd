// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/error.hpp"

// What the plan has to know about the CUDA C++ text of a candidate: its words, its `//@` lines and
// the signatures of its kernels. This is no compiler: what cannot be read with certainty is said to
// be unknown, and the checks that need it are left to the compiler. Internal to the plan room.

namespace kernelforge::plan {

/// The position of byte `offset` of a text whose first byte is at `start`; `text` may hold
/// newlines.
[[nodiscard]] SourcePosition position_at(const SourcePosition& start, std::string_view text,
                                         std::size_t offset);

/// A text for messages: in single quotes, on one line, at most about 40 bytes; `end of line` when
/// empty.
[[nodiscard]] std::string quoted(std::string_view text);

/// `unknown` followed by ", did you mean 'x'" where a known name is near, and the known names.
[[nodiscard]] std::string known_names(std::string_view unknown,
                                      const std::vector<std::string>& known);

[[nodiscard]] bool is_identifier_start(char c) noexcept;
[[nodiscard]] bool is_identifier_part(char c) noexcept;
[[nodiscard]] bool is_space(char c) noexcept;
[[nodiscard]] bool is_digit(char c) noexcept;
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// A word of the source text. Views point into it. Comments are no tokens.
struct Token {
    enum class Kind { identifier, number, literal, punctuation };
    Kind kind = Kind::punctuation;
    std::string_view text;      ///< punctuation is one character, or `::`
    std::size_t offset = 0;     ///< byte in the source
    bool preprocessor = false;  ///< belongs to a `#` line
};

/// One `//@` line without its `//@`. Backslashes of continued lines and the comment signs in front
/// of continuation lines are blanks, newlines are kept, so that `position_at` is exact.
struct DirectiveText {
    std::string text;
    SourcePosition position;  ///< of the text's first byte
};

struct SourceText {
    std::vector<Token> tokens;
    std::vector<DirectiveText> directives;
};

/// Reads a source in one pass. Nothing is malformed here: an unterminated string or comment ends
/// where the line or the text ends.
[[nodiscard]] SourceText read_source(std::string_view source, const std::string& file);

/// One parameter of a kernel.
struct Parameter {
    std::string type;  ///< as written, without the name
    std::string name;  ///< may be empty
    bool pointer = false;
    bool constant = false;  ///< a pointer to const
    /// `i8 … f64` of the value, or of what a pointer points to; empty: unknown.
    std::string scalar;
    SourcePosition position;
};

/// A `__global__` function of the source.
struct Kernel {
    std::string name;            ///< without namespaces
    std::string qualified_name;  ///< with named namespaces
    bool is_template = false;
    std::vector<std::string> template_parameters;  ///< names
    bool readable = true;                          ///< whether `parameters` can be relied on
    std::vector<Parameter> parameters;
    /// Text and position of the parts of `__cluster_dims__(…)`; empty: none.
    std::vector<DirectiveText> cluster_dims;
    SourcePosition position;
};

struct KernelList {
    std::vector<Kernel> kernels;
    bool complete = true;  ///< false: macros make kernels, so an unknown name may be right
    std::vector<std::string> undefined;  ///< names of `#undef` lines

    /// By plain or qualified name. Nothing when there is none, or more than one.
    [[nodiscard]] const Kernel* find(std::string_view name) const;
    [[nodiscard]] std::vector<std::string> names() const;
};

[[nodiscard]] KernelList read_kernels(const SourceText& text, std::string_view source,
                                      const std::string& file);

/// `i8 … i64 u8 … u64 f16 bf16 f32 f64` for a type in any usual spelling (`int`, `float32`,
/// `__nv_bfloat16`, `std::int64_t`); empty when it is none of them.
[[nodiscard]] std::string scalar_type(std::string_view spelling);
/// Bytes of such a type; 0 for anything else.
[[nodiscard]] std::size_t scalar_bytes(std::string_view type) noexcept;
[[nodiscard]] bool is_floating_type(std::string_view type) noexcept;

}  // namespace kernelforge::plan
