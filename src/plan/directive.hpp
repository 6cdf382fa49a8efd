// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "plan/source_text.hpp"

// Pieces of directives, with positions, and the names that a plan may use. Internal to the plan
// room.

namespace kernelforge::plan {

/// A part of a directive's text that knows where it stands.
struct Piece {
    const DirectiveText* directive = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;

    [[nodiscard]] std::string_view text() const {
        return std::string_view(directive->text).substr(begin, end - begin);
    }
    [[nodiscard]] SourcePosition position(std::size_t offset = 0) const {
        return position_at(directive->position, directive->text, begin + offset);
    }
    /// Without blanks at both ends.
    [[nodiscard]] Piece trimmed() const;
    [[nodiscard]] Piece sub(std::size_t offset, std::size_t length = std::string_view::npos) const;
    [[nodiscard]] bool blank() const { return trimmed().begin == trimmed().end; }

    /// @throws Error parse at `offset`
    [[noreturn]] void fail(const std::string& message, std::size_t offset = 0) const;
    /// "expected WHAT, found TEXT"
    [[noreturn]] void expected(const std::string& what) const;
};

/// Parts between the commas that are in no brackets. One blank part for a blank piece.
[[nodiscard]] std::vector<Piece> split_commas(const Piece& piece);
/// Words between blanks.
[[nodiscard]] std::vector<Piece> split_words(const Piece& piece);
/// Offset of the bracket that closes the one at `open`; nothing when there is none. `<` and `>` do
/// not count.
[[nodiscard]] std::optional<std::size_t> closing_bracket(std::string_view text, std::size_t open);
/// What is inside, when a pair of parentheses encloses the whole piece.
[[nodiscard]] std::optional<Piece> inside_parentheses(const Piece& piece);

/// Takes an identifier off the front of `piece`. @throws Error "expected WHAT, found …"
[[nodiscard]] Piece take_identifier(Piece& piece, const std::string& what);
/// Takes `sign` off the front, blanks skipped. @returns whether it was there
bool take_sign(Piece& piece, std::string_view sign);
void expect_sign(Piece& piece, std::string_view sign);
/// Takes the word off the front when it is the next one.
bool take_word(Piece& piece, std::string_view word);
/// @throws Error "expected the end of the line, found …"
void expect_end(const Piece& piece);
/// An integer literal that is the whole piece. @throws Error
[[nodiscard]] std::int64_t integer_literal(const Piece& piece, const std::string& what,
                                           std::int64_t low, std::int64_t high);

/// Names that the definition and the plan give meaning to.
class Scope {
  public:
    explicit Scope(const Definition& definition, const Plan& plan)
        : definition_(definition), plan_(plan) {}

    [[nodiscard]] const Axis* axis(std::string_view name) const;
    [[nodiscard]] const TensorSpec* tensor(std::string_view name) const;  ///< no scalars
    [[nodiscard]] const TensorSpec* scalar(std::string_view name) const;
    [[nodiscard]] bool is_input(std::string_view name) const;
    [[nodiscard]] const Workspace* workspace(std::string_view name) const;
    [[nodiscard]] const TensorMap* tensor_map(std::string_view name) const;
    [[nodiscard]] bool is_integer(
        std::string_view name) const;  ///< axis, tunable, let, device fact
    [[nodiscard]] bool is_buffer(std::string_view name) const;
    [[nodiscard]] bool is_macro(std::string_view name) const;  ///< what the candidate's code sees
    [[nodiscard]] std::vector<std::string> integers() const;
    [[nodiscard]] std::vector<std::string> buffers() const;
    [[nodiscard]] std::vector<std::string> scalars() const;

    /// Whether the expression asks OCC or CLUSTERS, itself or through a let.
    [[nodiscard]] bool asks_occupancy(const Expression& expression) const;

    /// Parses an integer expression and checks its names. Queries about kernels are checked by the
    /// caller when all launches are known.
    [[nodiscard]] Expression integer(const Piece& piece) const;
    [[nodiscard]] FloatExpression floating(const Piece& piece) const;
    /// Checks the names of an expression; lets at `lets_known` and later count as unknown.
    void check_names(const Expression& expression, std::size_t lets_known) const;
    /// @throws Error when the name cannot be given to something new
    void check_new(const Piece& name, const std::string& what) const;

  private:
    const Definition& definition_;
    const Plan& plan_;
};

/// Offset of a whole word in a text.
[[nodiscard]] std::optional<std::size_t> find_word(std::string_view text, std::string_view word);

/// `f32` for `float32`, …; empty for types that are no scalars of the plan (8-bit floats and less).
[[nodiscard]] std::string scalar_type(DType dtype);

/// The compiler options of one `//@option` line, in the spelling in which they are passed on. What
/// was given by an earlier line is in `given`. @throws Error parse
[[nodiscard]] std::vector<std::string> parse_options(const Piece& piece,
                                                     const std::vector<std::string>& given);

/// The kernel that a name expression (`gemm<THREADS, 64>`) or a plain name means; nothing when the
/// source's macros may define it. @throws Error parse when the source does not define it, when
/// several do, or when a template is named without its arguments
[[nodiscard]] const Kernel* named_kernel(const Piece& piece, const KernelList& kernels,
                                         const std::vector<Symbol>& symbols);

/// A launch as written. Adds to `plan.symbols` when the kernel is a template instance in place.
/// @throws Error parse
[[nodiscard]] Launch parse_launch(const Piece& piece, Plan& plan, const Scope& scope,
                                  const KernelList& kernels);

/// What follows the name in a `//@tensormap` line; `map` has its name and position already.
/// @throws Error parse
void parse_tensor_map(const Piece& piece, const Scope& scope, TensorMap& map);

/// A library step as written. @throws Error parse
[[nodiscard]] Call parse_call(const Piece& piece, const Scope& scope);

}  // namespace kernelforge::plan
