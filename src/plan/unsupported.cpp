// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "plan/directive.hpp"

// Directives that are part of the format and not executed yet: their syntax is checked, so that a
// mistake is named as one.

namespace kernelforge::plan {
namespace {

std::vector<Piece> tuple(const Piece& value, const std::string& what) {
    const std::optional<Piece> inside = inside_parentheses(value);
    if (!inside) value.expected(what + " in parentheses");
    return split_commas(*inside);
}

void check_one_of(const Piece& value, std::initializer_list<std::string_view> known,
                  const std::string& what) {
    if (std::find(known.begin(), known.end(), value.text()) != known.end()) return;
    std::string list;
    for (const std::string_view each : known)
        list += (list.empty() ? "" : ", ") + std::string(each);
    value.expected(what + " (" + list + ")");
}

/// Splits `key=value` words, where a value in parentheses may hold blanks.
std::vector<std::pair<Piece, Piece>> properties(Piece rest) {
    std::vector<std::pair<Piece, Piece>> result;
    while (!rest.blank()) {
        const Piece key = take_identifier(rest, "a property");
        expect_sign(rest, "=");
        rest = rest.trimmed();
        const std::string_view text = rest.text();
        std::size_t length = 0;
        if (text.starts_with("(")) {
            const std::optional<std::size_t> close = closing_bracket(text, 0);
            if (!close) rest.fail("expected ')', found the end of the line");
            length = *close + 1;
        } else {
            while (length < text.size() && !is_space(text[length])) ++length;
        }
        result.emplace_back(key, rest.sub(0, length));
        rest = rest.sub(length);
    }
    return result;
}

}  // namespace

void check_tensormap(const Piece& piece, const Scope& scope) {
    Piece rest = piece;
    static_cast<void>(take_identifier(rest, "the name of a tensor map"));
    expect_sign(rest, "=");
    const Piece tensor = take_identifier(rest, "a tensor");
    const std::string name(tensor.text());
    if (!scope.is_buffer(name))
        tensor.fail("unknown tensor '" + name + "'" + known_names(name, scope.buffers()));
    std::size_t dims = 0;
    std::size_t strides = 0;
    std::size_t box = 0;
    for (const auto& [key, value] : properties(rest)) {
        const std::string_view word = key.text();
        if (word == "dims" || word == "strides" || word == "box") {
            const std::vector<Piece> parts = tuple(value, std::string(word));
            for (const Piece& part : parts) static_cast<void>(scope.integer(part));
            (word == "dims" ? dims : word == "box" ? box : strides) = parts.size();
        } else if (word == "dtype") {
            if (scalar_type(value.text()).empty()) value.expected("an element type");
        } else if (word == "swizzle") {
            check_one_of(value, {"none", "32B", "64B", "128B"}, "a swizzle");
        } else if (word == "l2") {
            check_one_of(value, {"none", "64B", "128B", "256B"}, "an L2 promotion");
        } else if (word == "oob") {
            check_one_of(value, {"zero", "nan"}, "a fill for out-of-bounds elements");
        } else {
            key.expected("dims, strides, box, dtype, swizzle, l2 or oob");
        }
    }
    if (dims < 1 || dims > 5) piece.fail("a tensor map needs dims= with one to five extents");
    if (box != dims) piece.fail("a tensor map needs box= with as many extents as dims=");
    if (strides + 1 != dims)
        piece.fail("a tensor map needs strides= with one value less than dims=");
}

void check_call(const Piece& piece) {
    Piece rest = piece;
    static_cast<void>(take_identifier(rest, "a library operation"));
    const std::optional<Piece> inside = inside_parentheses(rest);
    if (!inside) rest.expected("the operation's arguments in parentheses");
    for (const Piece& part : split_commas(*inside)) {
        Piece value = part;
        static_cast<void>(take_identifier(value, "a parameter as name=value"));
        expect_sign(value, "=");
        if (value.blank()) value.expected("a value");
        if (value.text().ends_with("^T")) value = value.sub(0, value.text().size() - 2);
        const std::string_view text = value.trimmed().text();
        const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
            return is_identifier_part(c) || c == '.' || c == '-';
        });
        if (!plain) value.expected("a name or a number");
    }
}

}  // namespace kernelforge::plan
