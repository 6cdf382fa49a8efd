// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_source.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "kernelforge/error.hpp"

namespace kernelforge::compile {
namespace {

constexpr std::size_t max_refusals = 20;

constexpr bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}
constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
constexpr bool is_identifier_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
constexpr bool is_identifier(char c) {
    return is_identifier_start(c) || is_digit(c);
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

constexpr std::array<std::string_view, 12> plain_directives = {
    "define", "undef", "if",      "ifdef",    "ifndef", "elif",
    "else",   "endif", "elifdef", "elifndef", "error",  "warning"};
constexpr std::array<std::string_view, 4> forbidden_identifiers = {
    "__has_include", "__has_include_next", "__has_embed", "__pragma"};

/// Pragmas that steer code generation or warnings. No other one is let through, because what an
/// unknown pragma reads is unknown too.
bool pragma_allowed(std::string_view first, std::string_view second) {
    constexpr std::array<std::string_view, 8> single = {
        "unroll", "nounroll", "once", "push_macro", "pop_macro", "STDC", "nv_exec_check_disable",
        "nv_abi"};
    if (contains(single, first)) return true;
    if (first.starts_with("nv_diag") || first.starts_with("diag_")) return true;
    if (first == "GCC") return second == "diagnostic" || second == "unroll";
    if (first == "clang") return second == "diagnostic" || second == "loop";
    return false;
}

/// The text without line splices, each character with its place in the text.
class LogicalText {
  public:
    explicit LogicalText(const std::string& text) {
        places_.reserve(text.size() + 1);
        for (std::size_t i = 0; i < text.size();) {
            const std::size_t length = splice_length(text, i);
            if (length == 0) {
                places_.push_back(i++);
            } else {
                i += length;
            }
        }
        places_.push_back(text.size());
    }

    /// Backslash, white space, newline. White space there is ambiguous between compilers; here it
    /// always splices, and what is handed on has none.
    static std::size_t splice_length(const std::string& text, std::size_t at) {
        if (text[at] != '\\') return 0;
        std::size_t end = at + 1;
        while (end < text.size() && is_space(text[end])) ++end;
        return end < text.size() && text[end] == '\n' ? end + 1 - at : 0;
    }

    [[nodiscard]] std::size_t size() const { return places_.size() - 1; }
    [[nodiscard]] std::size_t place(std::size_t index) const { return places_[index]; }
    /// First index whose place is at or after `place`.
    [[nodiscard]] std::size_t index_of(std::size_t place) const {
        return static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), place) -
                                        places_.begin());
    }

  private:
    std::vector<std::size_t> places_;  // one more than there are characters
};

/// Walks over the preprocessing tokens once. State with an invariant: `at_` is the next character,
/// `out_` is the text with everything before `at_` rewritten in place.
class Scanner {
  public:
    Scanner(std::string text, ScannedSource& result, const std::vector<std::string>& roots)
        : text_(std::move(text)), out_(text_), logical_(text_), result_(result), roots_(roots) {
        for (std::size_t i = 0; i < text_.size(); ++i) {
            if (text_[i] == '\n') line_starts_.push_back(i + 1);
        }
    }

    void run() {
        check_characters();
        while (at_ < logical_.size() && result_.refusals.size() < max_refusals) token();
        if (result_.refusals.empty()) finish();
    }

  private:
    [[nodiscard]] char peek(std::size_t ahead = 0) const {
        return at_ + ahead < logical_.size() ? text_[logical_.place(at_ + ahead)] : '\0';
    }
    [[nodiscard]] SourcePosition position(std::size_t index) const {
        const std::size_t place = logical_.place(std::min(index, logical_.size()));
        return position_of_place(place);
    }
    [[nodiscard]] SourcePosition position_of_place(std::size_t place) const {
        const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), place);
        const auto line = static_cast<std::size_t>(next - line_starts_.begin());
        return {result_.file, line, place - line_starts_[line - 1] + 1};
    }
    void refuse(SourcePosition where, std::string message) {
        if (result_.refusals.size() >= max_refusals) return;
        result_.refusals.push_back(
            {CompileDiagnostic::Severity::error, std::move(where), std::move(message)});
    }

    void check_characters() {
        for (std::size_t i = 0; i < text_.size(); ++i) {
            const char c = text_[i];
            const bool control = (c >= 0 && c < ' ' && c != '\n' && !is_space(c)) || c == 127;
            if (control) {
                refuse(position_of_place(i), c == '\r'
                                                 ? "a carriage return is not followed by a newline"
                                                 : "control characters are not allowed");
            }
            if (c == '?' && i + 2 < text_.size() && text_[i + 1] == '?' &&
                (text_[i + 2] == '=' || text_[i + 2] == '/')) {
                refuse(position_of_place(i), "trigraphs are not allowed");
            }
        }
    }

    /// One token, comment, newline or run of white space.
    void token() {
        const char c = peek();
        if (c == '\n') {
            line_has_token_ = false;
            ++at_;
            return;
        }
        if (is_space(c)) {
            ++at_;
            return;
        }
        if (comment()) return;
        if (!line_has_token_ && (c == '#' || (c == '%' && peek(1) == ':'))) {
            at_ += c == '#' ? 1 : 2;
            directive(at_ - (c == '#' ? 1 : 2));
            return;
        }
        line_has_token_ = true;
        leading_ = false;
        code_token();
    }

    void code_token() {
        const char c = peek();
        if (is_identifier_start(c)) {
            identifier_token();
        } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
            number_token();
        } else if (c == '"' || c == '\'') {
            literal();
        } else if (static_cast<unsigned char>(c) >= 0x80) {
            refuse(position(at_),
                   "characters outside ASCII are allowed in comments and strings only");
            while (static_cast<unsigned char>(peek()) >= 0x80) ++at_;
        } else {
            ++at_;
        }
    }

    /// A comment at the current place becomes white space. Inside a directive its newlines become
    /// splices, since the directive goes on after the comment.
    bool comment() {
        if (peek() != '/' || (peek(1) != '/' && peek(1) != '*')) return false;
        const std::size_t begin = at_;
        const bool line_comment = peek(1) == '/';
        at_ += 2;
        if (line_comment) {
            while (at_ < logical_.size() && peek() != '\n') ++at_;
        } else {
            while (at_ < logical_.size() && !(peek() == '*' && peek(1) == '/')) ++at_;
            if (at_ >= logical_.size()) {
                refuse(position(begin), "this comment does not end");
                return true;
            }
            at_ += 2;
        }
        const std::size_t from = logical_.place(begin);
        const std::size_t to = logical_.place(at_);
        blank(from, to);
        // What is handed on has the newlines without the comment, so a new line starts here.
        const bool new_line =
            std::string_view(text_).substr(from, to - from).find('\n') != std::string_view::npos;
        if (new_line && !in_directive_) line_has_token_ = false;
        return true;
    }

    void blank(std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            if (text_[i] != '\n') {
                out_[i] = ' ';
            } else if (in_directive_) {
                out_[i] = '\v';  // becomes backslash newline in finish()
            }
        }
    }

    [[nodiscard]] std::string read_identifier() {
        std::string word;
        while (is_identifier(peek())) {
            word += peek();
            ++at_;
        }
        return word;
    }

    void identifier_token() {
        const std::size_t begin = at_;
        const std::string word = read_identifier();
        if (peek() == '"' &&
            (word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R")) {
            raw_string(begin);
        } else if (word == "_Pragma") {
            pragma_operator(begin);
        } else if (contains(forbidden_identifiers, word)) {
            refuse(position(begin), word + " is not allowed in a candidate");
        }
    }

    void number_token() {
        while (true) {
            const char c = peek();
            const char next = peek(1);
            const bool exponent = c == 'e' || c == 'E' || c == 'p' || c == 'P';
            if (exponent && (next == '+' || next == '-')) {
                at_ += 2;
            } else if (c == '\'' && is_identifier(next)) {
                at_ += 2;
            } else if (is_identifier(c) || c == '.') {
                ++at_;
            } else {
                return;
            }
        }
    }

    /// A string or character literal; it ends at the end of the line at the latest. The content
    /// with its escapes, without quotes.
    std::string literal() {
        const std::size_t begin = at_;
        const char quote = peek();
        std::string content;
        ++at_;
        while (at_ < logical_.size() && peek() != '\n') {
            const char c = peek();
            if (c == '\\' && peek(1) != '\n' && at_ + 1 < logical_.size()) {
                content += c;
                content += peek(1);
                at_ += 2;
                continue;
            }
            ++at_;
            if (c == quote) return content;
            content += c;
        }
        // What follows could be a comment to a reader that skips this group of lines.
        if (quote == '"' || content.find("/*") != std::string::npos) {
            refuse(position(begin), "this literal does not end on its line");
        }
        return content;
    }

    /// At the quote of a raw string. Line splices inside do not count, so the end is looked for in
    /// the text itself.
    void raw_string(std::size_t begin) {
        std::size_t place = logical_.place(at_) + 1;
        const std::size_t parenthesis = text_.find('(', place);
        if (in_directive_ || parenthesis == std::string::npos || parenthesis - place > 16) {
            refuse(position(begin), in_directive_ ? "a raw string is not allowed in a directive"
                                                  : "this raw string has no valid delimiter");
            ++at_;
            return;
        }
        const std::string end = ")" + text_.substr(place, parenthesis - place) + "\"";
        const std::size_t close = text_.find(end, parenthesis);
        if (end.find_first_of(" \t\n\v\f\\)", 1) != std::string::npos ||
            close == std::string::npos) {
            refuse(position(begin), "this raw string does not end");
            at_ = logical_.size();
            return;
        }
        const std::size_t after = close + end.size();
        keep_.push_back({place, after});
        check_raw_string(std::string_view(text_).substr(parenthesis, close - parenthesis),
                         parenthesis);
        at_ = logical_.index_of(after);
    }

    /// A reader that skips this group of lines may not know raw strings; it must not find a
    /// directive in one.
    void check_raw_string(std::string_view content, std::size_t place) {
        if (content.find('\n') == std::string_view::npos) return;
        for (std::size_t i = 0; i < content.size(); ++i) {
            const bool mark =
                content[i] == '#' || content.substr(i, 2) == "%:" || content.substr(i, 2) == "/*";
            if (!mark) continue;
            refuse(position_of_place(place + i),
                   "#, %: and /* are not allowed in a raw string of several lines");
            return;
        }
    }

    void skip_blanks() {
        while (at_ < logical_.size()) {
            if (is_space(peek())) {
                ++at_;
            } else if (!comment()) {
                return;
            }
        }
    }

    /// `_Pragma` with one of the pragmas that are allowed as a plain string.
    void pragma_operator(std::size_t begin) {
        skip_blanks();
        bool good = peek() == '(';
        if (good) {
            ++at_;
            skip_blanks();
            good = peek() == '"';
        }
        if (good) {
            const std::string content = literal();
            good = content.find('\\') == std::string::npos && pragma_text_allowed(content);
        }
        if (!good) {
            refuse(
                position(begin),
                "_Pragma must have one string with an allowed pragma, as in _Pragma(\"unroll\")");
        }
    }

    static bool pragma_text_allowed(std::string_view text) {
        const auto word = [&text] {
            while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
            std::size_t length = 0;
            while (length < text.size() && is_identifier(text[length])) ++length;
            const std::string_view result = text.substr(0, length);
            text.remove_prefix(length);
            return result;
        };
        const std::string_view first = word();
        return pragma_allowed(first, word());
    }

    void directive(std::size_t begin) {
        in_directive_ = true;
        skip_blanks();
        const std::string name = is_identifier_start(peek()) ? read_identifier() : "";
        if (name == "include") {
            include(begin);
        } else if (name == "pragma") {
            pragma();
        } else if (name.empty() && (peek() == '\n' || peek() == '\0')) {
            // The null directive.
        } else if (!contains(plain_directives, name)) {
            const std::string shown = name.empty() ? "# with a line number" : "#" + name;
            refuse(position(begin), shown + " is not allowed in a candidate");
        } else {
            leading_ = false;
        }
        while (at_ < logical_.size() && peek() != '\n') {
            if (is_space(peek())) {
                ++at_;
            } else if (!comment()) {
                code_token();
            }
        }
        in_directive_ = false;
    }

    void pragma() {
        skip_blanks();
        const std::size_t begin = at_;
        std::string text;
        for (std::size_t i = 0; i < 64 && at_ + i < logical_.size() && peek(i) != '\n'; ++i) {
            text += peek(i);
        }
        if (!pragma_text_allowed(text)) {
            refuse(position(begin),
                   "this pragma is not allowed in a candidate; unroll, nounroll, once, "
                   "nv_diag_*, push_macro and pop_macro are");
        } else if (!text.starts_with("once")) {
            leading_ = false;
        }
    }

    void include(std::size_t begin) {
        skip_blanks();
        const char open = peek();
        if (open != '<' && open != '"') {
            refuse(position(begin),
                   "#include needs a header's name in angle brackets; macros are not "
                   "allowed there");
            return;
        }
        const std::size_t open_at = at_++;
        std::string name;
        const char close = open == '<' ? '>' : '"';
        while (at_ < logical_.size() && peek() != close && peek() != '\n') {
            name += peek();
            ++at_;
        }
        const bool closed = peek() == close;
        const std::size_t close_at = at_;
        if (closed) ++at_;
        skip_blanks();
        if (!closed || (peek() != '\n' && peek() != '\0')) {
            refuse(position(begin), "expected #include <header> and nothing more on the line");
            return;
        }
        if (!include_allowed(name, roots_)) {
            refuse(position(open_at), refused_include(name));
            return;
        }
        // A name in quotes would be looked for beside the source first.
        out_[logical_.place(open_at)] = '<';
        out_[logical_.place(close_at)] = '>';
        result_.includes.push_back(name);
        if (leading_) {
            result_.leading.push_back({name, position(begin).line});
            body_place_ = std::min(logical_.place(at_) + 1, text_.size());
        }
    }

    static std::string refused_include(const std::string& name) {
        std::string shown;
        for (const char c : name.substr(0, 80)) shown += c >= ' ' && c < 127 ? c : '?';
        constexpr std::array<std::string_view, 8> built_in = {
            "math.h", "cmath", "stdio.h", "cstdio", "assert.h", "cassert", "cuda.h", "float.h"};
        std::string message =
            "header <" + shown + "> is not among those that a candidate may include";
        if (shown == "stdint.h" || shown == "cstdint" || shown == "type_traits" ||
            shown == "limits" || shown == "utility" || shown == "array" || shown == "tuple") {
            return message + ": use <cuda/std/" + (shown == "stdint.h" ? "cstdint" : shown) + ">";
        }
        if (contains(built_in, shown)) {
            return message + ": leave it out, what device code can use of it is built in";
        }
        return message +
               ": cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, mma.h, cooperative_groups.h, "
               "cuda_pipeline.h, cuda/..., cub/...";
    }

    /// The rewritten body: splices without trailing white space, raw strings as they were.
    void finish() {
        result_.body_line = position_of_place(body_place_).line;
        if (body_place_ == text_.size() && body_place_ > 0 && text_.back() != '\n')
            ++result_.body_line;
        std::string& body = result_.body;
        body.reserve(text_.size() - body_place_ + 1);
        std::size_t kept = 0;
        for (std::size_t i = body_place_; i < out_.size(); ++i) {
            while (kept < keep_.size() && keep_[kept].second <= i) ++kept;
            const bool raw = kept < keep_.size() && keep_[kept].first <= i;
            if (raw) {
                body += out_[i];
            } else if (text_[i] == '\n' && out_[i] == '\v') {
                body += "\\\n";
            } else if (out_[i] == '\\' && LogicalText::splice_length(text_, i) != 0) {
                body += "\\\n";
                i += LogicalText::splice_length(text_, i) - 1;
            } else if (out_[i] == '\\' && ends_line_after(i)) {
                // A comment followed; without it the backslash would splice the next line.
                body += "\\/**/";
            } else {
                body += out_[i];
            }
        }
        if (body.empty() || body.back() != '\n') body += '\n';
    }

    /// Whether a comment that is now blank is all that follows on the line.
    [[nodiscard]] bool ends_line_after(std::size_t at) const {
        constexpr std::string_view blanks = " \t\f\v\r";
        const std::size_t comment = text_.find_first_not_of(blanks, at + 1);
        const std::size_t next = out_.find_first_not_of(blanks, at + 1);
        return comment != std::string::npos && text_[comment] == '/' &&
               (next == std::string::npos || out_[next] == '\n');
    }

    std::string text_;
    std::string out_;
    LogicalText logical_;
    ScannedSource& result_;
    const std::vector<std::string>& roots_;
    std::vector<std::size_t> line_starts_ = {0};
    std::vector<std::pair<std::size_t, std::size_t>> keep_;  // raw strings, as places
    std::size_t at_ = 0;
    std::size_t body_place_ = 0;
    bool line_has_token_ = false;
    bool in_directive_ = false;
    bool leading_ = true;  // nothing but includes so far
};

std::string without_carriage_returns(std::string_view source) {
    if (source.starts_with("\xef\xbb\xbf")) source.remove_prefix(3);
    std::string text;
    text.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
        text += source[i];
    }
    return text;
}

bool is_plain_identifier(std::string_view name) {
    return !name.empty() && is_identifier_start(name.front()) &&
           name.find('$') == std::string_view::npos &&
           std::all_of(name.begin(), name.end(), is_identifier);
}

std::string integer_literal(std::int64_t value) {
    if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL-1)";
    return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
}

std::string printable_file_name(std::string file) {
    const bool good =
        !file.empty() && file.size() <= 255 && file != prefix_name &&
        std::all_of(file.begin(), file.end(), [](char c) {
            return c >= ' ' && c < 127 && c != '"' && c != '\\' && c != '(' && c != ')';
        });
    return good ? file : "candidate.cu";
}

}  // namespace

bool include_allowed(std::string_view name, const std::vector<std::string>& extra_roots) {
    constexpr std::array<std::string_view, 22> exact = {"cuda_fp16.h",
                                                        "cuda_bf16.h",
                                                        "cuda_fp8.h",
                                                        "cuda_fp6.h",
                                                        "cuda_fp4.h",
                                                        "mma.h",
                                                        "cuComplex.h",
                                                        "cooperative_groups.h",
                                                        "cuda_pipeline.h",
                                                        "cuda_pipeline_primitives.h",
                                                        "cuda_awbarrier.h",
                                                        "cuda_awbarrier_primitives.h",
                                                        "curand_kernel.h",
                                                        "math_constants.h",
                                                        "vector_types.h",
                                                        "vector_functions.h",
                                                        "sm_61_intrinsics.h",
                                                        "device_launch_parameters.h",
                                                        "cuda_runtime.h",
                                                        "device_functions.h",
                                                        "cuda_device_runtime_api.h",
                                                        "nv/target"};
    constexpr std::array<std::string_view, 4> folders = {"cooperative_groups", "cuda", "cub", "nv"};
    if (name.empty() || name.size() > 200 || name.front() == '/' || name.back() == '/')
        return false;
    for (const char c : name) {
        const bool good = (is_identifier(c) && c != '$') || c == '.' || c == '/' || c == '-';
        if (!good) return false;
    }
    if (name.find("..") != std::string_view::npos || name.find("//") != std::string_view::npos ||
        name.find("./") != std::string_view::npos) {
        return false;
    }
    if (contains(exact, name)) return true;
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) return false;
    const std::string_view folder = name.substr(0, slash);
    return contains(folders, folder) ||
           std::find(extra_roots.begin(), extra_roots.end(), folder) != extra_roots.end();
}

ScannedSource scan_source(std::string_view source, std::string file,
                          const std::vector<std::string>& extra_roots) {
    ScannedSource result;
    result.file = printable_file_name(std::move(file));
    if (source.size() > max_source_bytes) {
        result.refusals.push_back({CompileDiagnostic::Severity::error,
                                   {result.file, 0, 0},
                                   "the text has " + std::to_string(source.size()) +
                                       " bytes, at most " + std::to_string(max_source_bytes) +
                                       " are allowed"});
        return result;
    }
    Scanner(without_carriage_returns(source), result, extra_roots).run();
    return result;
}

/// What people expect of <cstdint>, <cmath> and <climits>, which device code cannot include. The
/// types are those of <cuda/std/cstdint>, so that both may be there. CUtensorMap is the parameter
/// type of tensor maps, which <cuda.h> has for host code only; it is named as <cuda/barrier>
/// declares it.
constexpr std::string_view standard_names[] = {
    "using int8_t = signed char; using int16_t = signed short; using int32_t = signed int; "
    "using int64_t = signed long long; using uint8_t = unsigned char; using uint16_t = unsigned "
    "short; "
    "using uint32_t = unsigned int; using uint64_t = unsigned long long; using intptr_t = int64_t; "
    "using uintptr_t = uint64_t;",
    "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif",
    "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif",
    "#ifndef FLT_MAX\n#define FLT_MAX 3.402823466e+38F\n#endif",
    "#ifndef FLT_MIN\n#define FLT_MIN 1.175494351e-38F\n#endif",
    "#ifndef FLT_EPSILON\n#define FLT_EPSILON 1.192092896e-07F\n#endif",
    "#ifndef DBL_MAX\n#define DBL_MAX 1.7976931348623158e+308\n#endif",
    "#ifndef INT_MAX\n#define INT_MAX 2147483647\n#endif",
    "#ifndef INT_MIN\n#define INT_MIN (-2147483647 - 1)\n#endif",
    "#ifndef UINT_MAX\n#define UINT_MAX 4294967295u\n#endif",
    "#ifndef M_PI\n#define M_PI 3.14159265358979323846\n#endif",
    "#ifndef __cuda_cuda_h__\ntypedef struct CUtensorMap_st { alignas(64) unsigned long long "
    "opaque[16]; } CUtensorMap;\n#endif",
};

AssembledSource assemble_source(const ScannedSource& scanned,
                                const std::vector<std::pair<std::string, std::int64_t>>& defines) {
    AssembledSource result;
    for (const LeadingInclude& include : scanned.leading) {
        result.include_block += "#include <" + include.name + ">\n";
        result.prefix_lines.push_back(include.line);
    }
    result.text = result.include_block;
    for (const std::string_view line : standard_names) {
        result.text += std::string(line) + "\n";
        const auto lines = 1 + std::count(line.begin(), line.end(), '\n');
        result.prefix_lines.insert(result.prefix_lines.end(), static_cast<std::size_t>(lines), 0);
    }
    for (const auto& [name, value] : defines) {
        if (!is_plain_identifier(name) || name.starts_with("__") || name == "defined") {
            throw Error(ErrorCode::invalid_argument,
                        "cannot define macro \"" + name +
                            "\": expected an identifier that is not reserved");
        }
        result.text += "#define " + name + " " + integer_literal(value) + "\n";
        result.prefix_lines.push_back(0);
    }
    result.text += "#line " + std::to_string(scanned.body_line) + " \"" + scanned.file + "\"\n";
    result.prefix_lines.push_back(0);
    result.text += scanned.body;
    return result;
}

bool option_allowed(std::string_view option) {
    constexpr std::array<std::string_view, 15> exact = {"use_fast_math",
                                                        "device-as-default-execution-space",
                                                        "extra-device-vectorization",
                                                        "default-device",
                                                        "minimal",
                                                        "lineinfo",
                                                        "generate-line-info",
                                                        "std=c++17",
                                                        "std=c++20",
                                                        "device-int128",
                                                        "restrict",
                                                        "disable-warnings",
                                                        "w",
                                                        "display-error-number",
                                                        "no-display-error-number"};
    constexpr std::array<std::string_view, 6> numbers = {
        "maxrregcount=", "ftz=", "prec-sqrt=", "prec-div=", "fmad=", "split-compile="};
    constexpr std::array<std::string_view, 4> ptxas = {
        "Xptxas=", "ptxas-options=", "diag-suppress=", "diag-warn="};
    if (option.size() > 200 || !option.starts_with("-")) return false;
    option.remove_prefix(option.starts_with("--") ? 2 : 1);
    for (const char c : option) {
        if (!is_identifier(c) && std::string_view("=-+,.").find(c) == std::string_view::npos)
            return false;
    }
    if (contains(exact, option)) return true;
    const auto starts = [&option](std::string_view prefix) { return option.starts_with(prefix); };
    if (std::any_of(numbers.begin(), numbers.end(), starts)) {
        const std::string_view value = option.substr(option.find('=') + 1);
        return value == "true" || value == "false" ||
               (!value.empty() && std::all_of(value.begin(), value.end(), is_digit));
    }
    if (!std::any_of(ptxas.begin(), ptxas.end(), starts)) return false;
    const std::string_view value = option.substr(option.find('=') + 1);
    const bool assembler = starts("Xptxas") || starts("ptxas");
    constexpr std::array<std::string_view, 9> assembler_options = {
        "-O0",
        "-O1",
        "-O2",
        "-O3",
        "-v",
        "--warn-on-spills",
        "--warn-on-local-memory-usage",
        "--allow-expensive-optimizations=true",
        "--allow-expensive-optimizations=false"};
    const bool other = value.starts_with("-dlcm=") || value.starts_with("-dscm=") ||
                       value.starts_with("--register-usage-level=");
    return assembler ? contains(assembler_options, value) || other
                     : value.find_first_not_of("0123456789,") == std::string_view::npos;
}

}  // namespace kernelforge::compile
