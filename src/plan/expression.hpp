// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/error.hpp"

namespace kernelforge::plan {

/// What the names and functions in an expression mean. Missing entries of a function are errors of
/// evaluation ("align(x): x is not a tensor").
struct Names {
    std::function<bool(const std::string& name, std::int64_t& value)> integer;
    /// `align(x)`, `numel(x)`, `stride(x, i)`, `OCC(k)`, `CLUSTERS(k)`: first argument a name.
    std::function<std::int64_t(const std::string& function, const std::string& argument,
                               const std::vector<std::int64_t>& rest)>
        query;
};

/// An integer expression, compiled to checked int64 stack code. Grammar: docs/candidate_format.md.
/// Operators: ?: || && | ^ & == != < <= > >= << >> + - * / % unary - ! ~, parentheses;
/// functions cdiv(a,b) min(a,b,…) max(a,b,…) and the queries above. Division truncates; `/ 0`, `%
/// 0`, overflow and shifts outside 0 to 63 are errors. Both sides of ?: && || are compiled, only
/// the needed one is evaluated. At most 64 nested levels and 4096 instructions.
class Expression {
  public:
    Expression() = default;

    /// @throws Error parse with position (`start` is the position of the text's first byte)
    static Expression parse(std::string_view text, SourcePosition start);
    static Expression constant(std::int64_t value);

    /// @throws Error invalid_argument with position: unknown name, overflow, division by zero
    [[nodiscard]] std::int64_t evaluate(const Names& names) const;

    /// Names that it mentions, each once, in order: plain ones, and first arguments of queries as
    /// `OCC(g)` would give "g" in `queried`.
    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& queried() const noexcept {
        return queried_;  ///< (function, name)
    }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] const SourcePosition& position() const noexcept { return position_; }
    [[nodiscard]] bool empty() const noexcept { return code_.empty(); }

  private:
    friend class ExpressionParser;
    friend class ExpressionMachine;
    enum class Op : std::uint8_t {
        push,
        load,
        query,
        negate,
        logical_not,
        bit_not,
        add,
        subtract,
        multiply,
        divide,
        modulo,
        shift_left,
        shift_right,
        less,
        less_equal,
        greater,
        greater_equal,
        equal,
        not_equal,
        bit_and,
        bit_xor,
        bit_or,
        cdiv,
        min,
        max,
        to_bool,
        jump,
        jump_if_zero,
        jump_if_nonzero
    };
    struct Instruction {
        Op op = Op::push;
        std::int64_t operand = 0;  ///< constant, index into names_ or queried_, target, or count
        std::uint32_t offset = 0;  ///< byte in text_, for messages
        std::uint32_t count = 0;   ///< arguments of a query
    };
    std::string text_;
    SourcePosition position_;
    std::vector<Instruction> code_;
    std::vector<std::string> names_;
    std::vector<std::pair<std::string, std::string>> queried_;
};

/// A floating-point expression for scalar kernel arguments: + - * / unary -, parentheses, sqrt
/// rsqrt exp log log2 pow min max, numbers, names (axes, lets and scalar inputs, converted to
/// double).
class FloatExpression {
  public:
    FloatExpression() = default;
    /// @throws Error parse with position
    static FloatExpression parse(std::string_view text, SourcePosition start);
    /// `number` gives names their values. @throws Error invalid_argument: unknown name, result not
    /// finite
    [[nodiscard]] double evaluate(
        const std::function<bool(const std::string& name, double& value)>& number) const;
    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }
    [[nodiscard]] const SourcePosition& position() const noexcept { return position_; }

  private:
    friend class FloatExpressionParser;
    enum class Op : std::uint8_t {
        push,
        load,
        negate,
        add,
        subtract,
        multiply,
        divide,
        sqrt,
        rsqrt,
        exp,
        log,
        log2,
        pow,
        min,
        max
    };
    struct Instruction {
        Op op = Op::push;
        double constant = 0.0;
        std::size_t name = 0;
    };
    std::string text_;
    SourcePosition position_;
    std::vector<Instruction> code_;
    std::vector<std::string> names_;
};

}  // namespace kernelforge::plan
