// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/ptx_module.hpp"

// The characters of a PTX text: white space, words, numbers, and where they stand.

namespace kernelforge::emulator::ptx {

/// A number as written, or what an expression of constants gives.
struct Number {
    enum class Kind : std::uint8_t { integer, f32, f64 };
    Kind kind = Kind::integer;
    std::uint64_t bits = 0;
    bool is_unsigned = false;
};

/// Reads forward through a text that must outlive it; views that it gives are into that text.
/// Every reader skips white space and comments first. State with an invariant: `line_` is the line
/// of `at_`.
class Text {
  public:
    explicit Text(std::string_view text) : text_(text) {}

    /// The next character that counts; NUL at the end.
    [[nodiscard]] char peek();
    [[nodiscard]] bool at_end();
    [[nodiscard]] bool at_word();
    [[nodiscard]] bool at_number();
    [[nodiscard]] bool take(char c);
    void expect(char c);
    /// Whether the next character is `c` with no space before it, and takes it.
    [[nodiscard]] bool take_adjacent(char c);
    /// An identifier.
    [[nodiscard]] std::string_view word();
    /// A dot and what follows it up to the next dot, without the first: "shared::cta".
    [[nodiscard]] std::string_view dotted();
    /// A word in quotes, without them.
    [[nodiscard]] std::string_view quoted();
    /// Digits and dots, as of `.version`.
    [[nodiscard]] std::string_view version();
    /// A literal, or an expression of integer constants.
    [[nodiscard]] Number number();
    [[nodiscard]] std::int64_t integer();
    /// An integer from 0 to `most`.
    [[nodiscard]] std::uint64_t count(std::uint64_t most, std::string_view what);
    /// One literal without operators around it.
    [[nodiscard]] Number literal();
    /// After an opening brace: up to and with its closing one.
    void skip_braces();
    /// Up to and with the closing parenthesis of one that was opened.
    void skip_parentheses();
    /// The rest of the line.
    void skip_line();

    [[nodiscard]] Place place() const { return {line_, source_line_}; }
    void set_source_line(int line) { source_line_ = line; }
    [[nodiscard]] std::string found();
    [[noreturn]] void malformed(const std::string& message) const;
    [[noreturn]] void expected(std::string_view what);
    [[noreturn]] void not_emulated(const std::string& message) const;

  private:
    void skip_space();
    void skip_comment();
    void skip_to_close(char open, char close);
    [[nodiscard]] Number expression(int least, int depth);
    [[nodiscard]] Number unary(int depth);
    [[nodiscard]] Number float_bits(std::size_t digits, Number::Kind kind);
    [[nodiscard]] Number integer_digits();
    [[nodiscard]] bool at_decimal_float() const;
    [[nodiscard]] Number decimal_float();
    [[nodiscard]] int operator_level(std::string_view& text) const;

    std::string_view text_;
    std::size_t at_ = 0;
    int line_ = 1;
    int source_line_ = 0;
};

/// `text` shortened to 60 characters, what cannot be printed as `?`, in quotes.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace kernelforge::emulator::ptx
