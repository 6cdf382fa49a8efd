// SPDX-License-Identifier: Apache-2.0
#include "plan/source_text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kernelforge::plan {

bool is_identifier_start(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

bool is_identifier_part(char c) noexcept {
    return is_identifier_start(c) || is_digit(c);
}

bool is_space(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

std::string_view trimmed(std::string_view text) noexcept {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

SourcePosition position_at(const SourcePosition& start, std::string_view text, std::size_t offset) {
    SourcePosition position = start;
    const std::string_view before = text.substr(0, std::min(offset, text.size()));
    const std::size_t newline = before.rfind('\n');
    if (newline == std::string_view::npos) {
        position.column += before.size();
        return position;
    }
    position.line += static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    position.column = before.size() - newline;
    return position;
}

std::string quoted(std::string_view text) {
    text = trimmed(text);
    if (text.empty()) return "end of line";
    std::string shown = "'";
    for (const char c : text) {
        if (shown.size() > 40) return shown + "…'";
        const bool printable = (c >= ' ' && c <= '~') || (static_cast<unsigned char>(c) >= 0x80);
        if (!printable && !is_space(c)) {
            shown += '?';
        } else if (!is_space(c) || shown.back() != ' ') {
            shown += is_space(c) ? ' ' : c;
        }
    }
    return shown + "'";
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row.back();
}

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return lower;
}

}  // namespace

std::string known_names(std::string_view unknown, const std::vector<std::string>& known) {
    constexpr std::size_t shown_names = 24;
    constexpr std::size_t longest = 64;
    if (known.empty()) return "; there are none";
    const std::string wanted = lower_case(unknown.substr(0, longest));
    const std::string* nearest = nullptr;
    std::size_t least = wanted.size() <= 3 ? 2 : std::max<std::size_t>(2, wanted.size() / 3) + 1;
    for (const std::string& name : known) {
        if (name.size() > longest) continue;
        const std::size_t distance = edit_distance(wanted, lower_case(name));
        if (distance < least) {
            least = distance;
            nearest = &name;
        }
    }
    std::string text;
    if (nearest != nullptr) text += ", did you mean '" + *nearest + "'";
    text += "; known:";
    for (std::size_t i = 0; i < known.size(); ++i) {
        if (i == shown_names) return text + " … (" + std::to_string(known.size()) + " in all)";
        text += (i == 0 ? " " : ", ") + known[i];
    }
    return text;
}

namespace {

/// Splits a source into tokens and directives.
class SourceReader {
  public:
    SourceReader(std::string_view source, const std::string& file) : source_(source), file_(file) {}

    SourceText read() {
        while (at_ < source_.size()) step();
        return std::move(result_);
    }

  private:
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
    }

    void advance() {
        if (source_[at_] == '\n') {
            ++line_;
            line_start_ = at_ + 1;
        }
        ++at_;
    }

    void advance(std::size_t count) {
        for (; count > 0 && at_ < source_.size(); --count) advance();
    }

    /// Length of a backslash-newline at `from`, 0 when there is none. Blanks between the two are
    /// accepted, as compilers do.
    [[nodiscard]] std::size_t splice_length(std::size_t from) const {
        if (from >= source_.size() || source_[from] != '\\') return 0;
        std::size_t end = from + 1;
        while (end < source_.size() &&
               (source_[end] == ' ' || source_[end] == '\t' || source_[end] == '\r'))
            ++end;
        return end < source_.size() && source_[end] == '\n' ? end + 1 - from : 0;
    }

    void step() {
        const char c = peek();
        if (const std::size_t splice = splice_length(at_); splice > 0) {
            advance(splice);
        } else if (c == '\n') {
            preprocessor_ = false;
            fresh_line_ = true;
            advance();
        } else if (is_space(c)) {
            advance();
        } else if (c == '/' && peek(1) == '/') {
            line_comment();
        } else if (c == '/' && peek(1) == '*') {
            block_comment();
        } else {
            token(c);
            fresh_line_ = false;
        }
    }

    void token(char c) {
        if (c == '#' && fresh_line_) preprocessor_ = true;
        if (is_identifier_start(c)) {
            word();
        } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
            number();
        } else if (c == '"' || c == '\'') {
            literal(at_, c);
        } else {
            const std::size_t length = c == ':' && peek(1) == ':' ? 2 : 1;
            add(Token::Kind::punctuation, at_, length);
            advance(length);
        }
    }

    void add(Token::Kind kind, std::size_t offset, std::size_t length) {
        result_.tokens.push_back({kind, source_.substr(offset, length), offset, preprocessor_});
    }

    void word() {
        const std::size_t start = at_;
        while (is_identifier_part(peek())) advance();
        const std::string_view text = source_.substr(start, at_ - start);
        if (peek() == '"' && !text.empty() && text.back() == 'R' && text.size() <= 3) {
            raw_string(start);
        } else {
            add(Token::Kind::identifier, start, at_ - start);
        }
    }

    void number() {
        const std::size_t start = at_;
        while (at_ < source_.size()) {
            const char c = peek();
            const char last = at_ > start ? source_[at_ - 1] : '\0';
            const bool sign = (c == '+' || c == '-') &&
                              (last == 'e' || last == 'E' || last == 'p' || last == 'P') &&
                              !(source_[start] == '0' &&
                                (source_[start + 1] == 'x' || source_[start + 1] == 'X') &&
                                (last == 'e' || last == 'E'));
            const bool separator = c == '\'' && is_identifier_part(peek(1));
            if (!is_identifier_part(c) && c != '.' && !sign && !separator) break;
            advance();
        }
        add(Token::Kind::number, start, at_ - start);
    }

    void literal(std::size_t start, char quote) {
        advance();
        while (at_ < source_.size() && peek() != quote && peek() != '\n') {
            advance(peek() == '\\' ? std::max<std::size_t>(2, splice_length(at_)) : 1);
        }
        if (peek() == quote) advance();
        add(Token::Kind::literal, start, at_ - start);
    }

    /// `R"delimiter( … )delimiter"`, at the quote.
    void raw_string(std::size_t start) {
        const std::size_t open = source_.find('(', at_);
        if (open == std::string_view::npos || open - at_ > 17) {
            literal(start, '"');
            return;
        }
        const std::string close = ")" + std::string(source_.substr(at_ + 1, open - at_ - 1)) + "\"";
        const std::size_t end = source_.find(close, open);
        const std::size_t stop =
            end == std::string_view::npos ? source_.size() : end + close.size();
        advance(stop - at_);
        add(Token::Kind::literal, start, at_ - start);
    }

    void block_comment() {
        const std::size_t end = source_.find("*/", at_ + 2);
        advance((end == std::string_view::npos ? source_.size() : end + 2) - at_);
    }

    /// Takes the whole comment, with its continuation lines.
    void line_comment() {
        const bool directive = peek(2) == '@';
        const SourcePosition start{file_, line_, at_ - line_start_ + 1};
        std::string text;
        while (at_ < source_.size() && peek() != '\n') {
            const std::size_t splice = splice_length(at_);
            if (splice > 0) {
                text.append(splice - 1, ' ');
                text += '\n';
                advance(splice);
            } else {
                text += peek();
                advance();
            }
        }
        if (directive) split_directives(std::move(text), start);
    }

    /// One comment may hold several directives (`//@requires sm_90a //@option -use_fast_math`), and
    /// ordinary comments behind them.
    void split_directives(std::string text, const SourcePosition& start) {
        std::size_t begin = 3;
        bool line_is_blank = false;
        for (std::size_t i = begin; i < text.size(); ++i) {
            if (text[i] == '\n') {
                line_is_blank = true;
            } else if (text.compare(i, 2, "//") == 0) {
                const bool sign = text.compare(i, 3, "//@") == 0;
                if (line_is_blank) {
                    text.replace(i, sign ? 3 : 2, sign ? 3 : 2, ' ');
                } else if (sign) {
                    add_directive(text, begin, i, start);
                    begin = i + 3;
                    i += 2;
                } else {
                    const std::size_t end = std::min(text.find('\n', i), text.size());
                    text.replace(i, end - i, end - i, ' ');
                }
                line_is_blank = false;
            } else if (!is_space(text[i])) {
                line_is_blank = false;
            }
        }
        add_directive(text, begin, text.size(), start);
    }

    void add_directive(const std::string& text, std::size_t begin, std::size_t end,
                       const SourcePosition& start) {
        result_.directives.push_back(
            {text.substr(begin, end - begin), position_at(start, text, begin)});
    }

    std::string_view source_;
    const std::string& file_;
    SourceText result_;
    std::size_t at_ = 0;
    std::size_t line_ = 1;
    std::size_t line_start_ = 0;
    bool preprocessor_ = false;
    bool fresh_line_ = true;
};

}  // namespace

SourceText read_source(std::string_view source, const std::string& file) {
    return SourceReader(source, file).read();
}

std::string scalar_type(std::string_view spelling) {
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"i8", "i8"},
        {"i16", "i16"},
        {"i32", "i32"},
        {"i64", "i64"},
        {"u8", "u8"},
        {"u16", "u16"},
        {"u32", "u32"},
        {"u64", "u64"},
        {"f16", "f16"},
        {"bf16", "bf16"},
        {"f32", "f32"},
        {"f64", "f64"},
        {"int8", "i8"},
        {"int16", "i16"},
        {"int32", "i32"},
        {"int64", "i64"},
        {"uint8", "u8"},
        {"uint16", "u16"},
        {"uint32", "u32"},
        {"uint64", "u64"},
        {"float16", "f16"},
        {"bfloat16", "bf16"},
        {"float32", "f32"},
        {"float64", "f64"},
        {"int8_t", "i8"},
        {"int16_t", "i16"},
        {"int32_t", "i32"},
        {"int64_t", "i64"},
        {"uint8_t", "u8"},
        {"uint16_t", "u16"},
        {"uint32_t", "u32"},
        {"uint64_t", "u64"},
        {"bool", "u8"},
        {"char", "i8"},
        {"signed char", "i8"},
        {"unsigned char", "u8"},
        {"uchar", "u8"},
        {"short", "i16"},
        {"short int", "i16"},
        {"unsigned short", "u16"},
        {"ushort", "u16"},
        {"unsigned short int", "u16"},
        {"int", "i32"},
        {"signed", "i32"},
        {"signed int", "i32"},
        {"unsigned", "u32"},
        {"unsigned int", "u32"},
        {"uint", "u32"},
        {"long", "i64"},
        {"long int", "i64"},
        {"long long", "i64"},
        {"long long int", "i64"},
        {"unsigned long", "u64"},
        {"unsigned long int", "u64"},
        {"unsigned long long", "u64"},
        {"unsigned long long int", "u64"},
        {"size_t", "u64"},
        {"ptrdiff_t", "i64"},
        {"ulong", "u64"},
        {"half", "f16"},
        {"__half", "f16"},
        {"nv_half", "f16"},
        {"__nv_bfloat16", "bf16"},
        {"nv_bfloat16", "bf16"},
        {"float", "f32"},
        {"double", "f64"},
    };
    for (const std::string_view space : {"::", "cuda::std::", "cuda::", "std::"}) {
        if (spelling.starts_with(space)) spelling.remove_prefix(space.size());
    }
    for (const auto& [name, type] : names) {
        if (name == spelling) return std::string(type);
    }
    return {};
}

std::size_t scalar_bytes(std::string_view type) noexcept {
    if (type == "i8" || type == "u8") return 1;
    if (type == "i16" || type == "u16" || type == "f16" || type == "bf16") return 2;
    if (type == "i32" || type == "u32" || type == "f32") return 4;
    if (type == "i64" || type == "u64" || type == "f64") return 8;
    return 0;
}

bool is_floating_type(std::string_view type) noexcept {
    return type == "f16" || type == "bf16" || type == "f32" || type == "f64";
}

}  // namespace kernelforge::plan
