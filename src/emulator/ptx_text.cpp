// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_text.hpp"

#include <bit>
#include <charconv>
#include <system_error>

namespace kernelforge::emulator::ptx {
namespace {

constexpr int most_expression_depth = 64;

constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
constexpr bool is_hex_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
constexpr bool is_word_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
constexpr bool is_word(char c) {
    return (is_word_start(c) && c != '%') || is_digit(c);
}

/// Wraps as 64-bit arithmetic of the assembler does.
std::uint64_t apply(char op, const Number& a, const Number& b) {
    const bool is_unsigned = a.is_unsigned || b.is_unsigned;
    const auto sa = static_cast<std::int64_t>(a.bits);
    const auto sb = static_cast<std::int64_t>(b.bits);
    switch (op) {
        case '|':
            return a.bits | b.bits;
        case '^':
            return a.bits ^ b.bits;
        case '&':
            return a.bits & b.bits;
        case '<':
            return b.bits < 64 ? a.bits << b.bits : 0;
        case '>':
            if (a.is_unsigned) return b.bits < 64 ? a.bits >> b.bits : 0;
            return static_cast<std::uint64_t>(sa >> (b.bits < 64 ? b.bits : 63));
        case '+':
            return a.bits + b.bits;
        case '-':
            return a.bits - b.bits;
        case '*':
            return a.bits * b.bits;
        case '/':
            if (is_unsigned) return a.bits / b.bits;
            return sb == -1 ? 0 - a.bits : static_cast<std::uint64_t>(sa / sb);
        default:
            if (is_unsigned) return a.bits % b.bits;
            return sb == -1 ? 0 : static_cast<std::uint64_t>(sa % sb);
    }
}

}  // namespace

std::string quote(std::string_view text) {
    constexpr std::size_t most = 60;
    std::string result = "\"";
    for (const char c : text.substr(0, most)) result += c >= ' ' && c < 127 ? c : '?';
    return result + (text.size() > most ? "…\"" : "\"");
}

void Text::malformed(const std::string& message) const {
    throw PtxError(PtxError::Kind::malformed, place(), message);
}

void Text::not_emulated(const std::string& message) const {
    throw PtxError(PtxError::Kind::not_emulated, place(), message);
}

void Text::expected(std::string_view what) {
    const std::string next = found();
    malformed("expected " + std::string(what) + ", found " + next);
}

std::string Text::found() {
    if (at_end()) return "the end of the text";
    std::size_t end = at_ + 1;
    if (is_word_start(text_[at_]) || is_digit(text_[at_])) {
        while (end < text_.size() && is_word(text_[end])) ++end;
    }
    return quote(text_.substr(at_, end - at_));
}

void Text::skip_space() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n') {
            ++line_;
            ++at_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            ++at_;
        } else if (c == '/' && at_ + 1 < text_.size() &&
                   (text_[at_ + 1] == '/' || text_[at_ + 1] == '*')) {
            skip_comment();
        } else {
            return;
        }
    }
}

void Text::skip_comment() {
    if (text_[at_ + 1] == '/') {
        skip_line();
        return;
    }
    const std::size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) malformed("a comment does not end");
    for (; at_ < end; ++at_) {
        if (text_[at_] == '\n') ++line_;
    }
    at_ = end + 2;
}

void Text::skip_line() {
    const std::size_t end = text_.find('\n', at_);
    at_ = end == std::string_view::npos ? text_.size() : end;
}

char Text::peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool Text::at_end() {
    skip_space();
    return at_ >= text_.size();
}

bool Text::at_word() {
    return is_word_start(peek());
}

bool Text::at_number() {
    const char c = peek();
    return is_digit(c) || c == '-' || c == '+' || c == '~' || c == '(';
}

bool Text::take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
}

bool Text::take_adjacent(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
}

void Text::expect(char c) {
    if (!take(c)) expected(quote(std::string(1, c)));
}

std::string_view Text::word() {
    if (!at_word()) expected("a name");
    const std::size_t begin = at_++;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
}

std::string_view Text::dotted() {
    expect('.');
    const std::size_t begin = at_;
    while (at_ < text_.size()) {
        const bool colons = text_.substr(at_, 2) == "::";
        if (!colons && !is_word(text_[at_])) break;
        at_ += colons ? 2 : 1;
    }
    if (at_ == begin) expected("a word after the dot");
    return text_.substr(begin, at_ - begin);
}

std::string_view Text::quoted() {
    expect('"');
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
        at_ += text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n' ? 2 : 1;
    }
    if (at_ >= text_.size() || text_[at_] != '"') malformed("a string does not end on its line");
    return text_.substr(begin, at_++ - begin);
}

std::string_view Text::version() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) ++at_;
    if (at_ == begin) expected("a version");
    return text_.substr(begin, at_ - begin);
}

void Text::skip_braces() {
    skip_to_close('{', '}');
}

void Text::skip_parentheses() {
    skip_to_close('(', ')');
}

void Text::skip_to_close(char open, char close) {
    const int opened_at = line_;
    for (int depth = 1; depth > 0;) {
        if (at_end()) {
            malformed("the " + quote(std::string(1, open)) + " of line " +
                      std::to_string(opened_at) + " is not closed");
        }
        if (text_[at_] == '"') {
            (void)quoted();
            continue;
        }
        if (text_[at_] == open) ++depth;
        if (text_[at_] == close) --depth;
        ++at_;
    }
}

Number Text::float_bits(std::size_t digits, Number::Kind kind) {
    const std::string_view hex = text_.substr(at_ + 2, digits);
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
    if (error != std::errc() || end != hex.data() + digits) {
        malformed("a floating-point number needs " + std::to_string(digits) +
                  " hexadecimal digits, found " + quote(text_.substr(at_, digits + 2)));
    }
    at_ += 2 + digits;
    return {kind, bits, false};
}

Number Text::integer_digits() {
    int base = 10;
    std::size_t begin = at_;
    const char second = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (text_[at_] == '0' && (second == 'x' || second == 'X')) {
        base = 16;
        begin += 2;
    } else if (text_[at_] == '0' && (second == 'b' || second == 'B')) {
        base = 2;
        begin += 2;
    } else if (text_[at_] == '0' && is_digit(second)) {
        base = 8;
        begin += 1;
    }
    Number result;
    const char* const first = text_.data() + begin;
    const auto [end, error] =
        std::from_chars(first, text_.data() + text_.size(), result.bits, base);
    std::size_t after = begin + static_cast<std::size_t>(end - first);
    if (error == std::errc::result_out_of_range) {
        malformed("the number " + quote(text_.substr(at_, after - at_)) + " is over 64 bits");
    }
    result.is_unsigned = result.bits >> 63 != 0;
    if (after < text_.size() && (text_[after] == 'U' || text_[after] == 'u')) {
        result.is_unsigned = true;
        ++after;
    }
    if (error != std::errc() || (after < text_.size() && is_word(text_[after]))) {
        while (after < text_.size() && is_word(text_[after])) ++after;
        malformed("expected a number, found " + quote(text_.substr(at_, after - at_)));
    }
    at_ = after;
    return result;
}

bool Text::at_decimal_float() const {
    std::size_t end = at_;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    if (end >= text_.size()) return false;
    if (text_[end] == '.') return end + 1 < text_.size() && is_digit(text_[end + 1]);
    return text_[end] == 'e' || text_[end] == 'E';
}

Number Text::decimal_float() {
    double value = 0;
    const char* const first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    const auto length = static_cast<std::size_t>(end - first);
    if (error != std::errc()) {
        malformed("the number " + quote(text_.substr(at_, length)) + " is out of range");
    }
    at_ += length;
    if (at_ < text_.size() && is_word(text_[at_])) {
        malformed("a letter follows the number " + quote(text_.substr(at_ - length, length)));
    }
    return {Number::Kind::f64, std::bit_cast<std::uint64_t>(value), false};
}

Number Text::literal() {
    if (!is_digit(peek())) expected("a number");
    const char second = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (text_[at_] == '0' && (second == 'f' || second == 'F')) {
        return float_bits(8, Number::Kind::f32);
    }
    if (text_[at_] == '0' && (second == 'd' || second == 'D')) {
        return float_bits(16, Number::Kind::f64);
    }
    return at_decimal_float() ? decimal_float() : integer_digits();
}

Number Text::unary(int depth) {
    if (depth > most_expression_depth) malformed("an expression is nested too deeply");
    if (take('(')) {
        const Number result = expression(1, depth + 1);
        expect(')');
        return result;
    }
    if (take('+')) return unary(depth + 1);
    if (take('-')) {
        Number result = unary(depth + 1);
        if (result.kind == Number::Kind::integer) {
            result.bits = 0 - result.bits;
            result.is_unsigned = false;
        } else {
            result.bits ^= result.kind == Number::Kind::f32 ? 1ULL << 31 : 1ULL << 63;
        }
        return result;
    }
    if (take('~')) {
        Number result = unary(depth + 1);
        if (result.kind != Number::Kind::integer) malformed("expected an integer after \"~\"");
        result.bits = ~result.bits;
        return result;
    }
    return literal();
}

/// Binding strength of the operator at the current place, 0 for none.
int Text::operator_level(std::string_view& text) const {
    const std::string_view two = text_.substr(at_, 2);
    if (two == "<<" || two == ">>") {
        text = two;
        return 4;
    }
    text = text_.substr(at_, 1);
    if (text.empty()) return 0;
    switch (text.front()) {
        case '|':
            return 1;
        case '^':
            return 2;
        case '&':
            return 3;
        case '+':
        case '-':
            return 5;
        case '*':
        case '/':
        case '%':
            return 6;
        default:
            return 0;
    }
}

Number Text::expression(int least, int depth) {
    Number left = unary(depth);
    while (true) {
        skip_space();
        std::string_view op;
        const int level = operator_level(op);
        if (level == 0 || level < least) return left;
        at_ += op.size();
        const Number right = expression(level + 1, depth + 1);
        if (left.kind != Number::Kind::integer || right.kind != Number::Kind::integer) {
            malformed("expected integers around " + quote(op));
        }
        if ((op == "/" || op == "%") && right.bits == 0) malformed("a division by zero");
        left.bits = apply(op.front(), left, right);
        left.is_unsigned = left.is_unsigned || (right.is_unsigned && level != 4);
    }
}

Number Text::number() {
    return expression(1, 0);
}

std::int64_t Text::integer() {
    const Number result = number();
    if (result.kind != Number::Kind::integer) malformed("expected an integer");
    return static_cast<std::int64_t>(result.bits);
}

std::uint64_t Text::count(std::uint64_t most, std::string_view what) {
    const Number result = number();
    if (result.kind != Number::Kind::integer || result.bits > most) {
        malformed(std::string(what) + " is not from 0 to " + std::to_string(most));
    }
    return result.bits;
}

}  // namespace kernelforge::emulator::ptx
