// SPDX-License-Identifier: Apache-2.0
#include "plan/directive.hpp"

#include <algorithm>
#include <charconv>

namespace kernelforge::plan {

Piece Piece::trimmed() const {
    Piece piece = *this;
    while (piece.begin < piece.end && is_space(directive->text[piece.begin])) ++piece.begin;
    while (piece.begin < piece.end && is_space(directive->text[piece.end - 1])) --piece.end;
    return piece;
}

Piece Piece::sub(std::size_t offset, std::size_t length) const {
    const std::size_t from = std::min(begin + offset, end);
    return {directive, from, length < end - from ? from + length : end};
}

void Piece::fail(const std::string& message, std::size_t offset) const {
    throw Error(ErrorCode::parse, trimmed().position(offset), message);
}

void Piece::expected(const std::string& what) const {
    fail("expected " + what + ", found " + quoted(text()));
}

std::optional<std::size_t> closing_bracket(std::string_view text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '(' || c == '[' || c == '{') ++depth;
        if ((c == ')' || c == ']' || c == '}') && --depth == 0) return i;
    }
    return std::nullopt;
}

std::vector<Piece> split_commas(const Piece& piece) {
    std::vector<Piece> parts;
    const std::string_view text = piece.text();
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '(' || c == '[' || c == '{') ++depth;
        if (c == ')' || c == ']' || c == '}') --depth;
        if (c != ',' || depth != 0) continue;
        parts.push_back(piece.sub(begin, i - begin).trimmed());
        begin = i + 1;
    }
    parts.push_back(piece.sub(begin).trimmed());
    return parts;
}

std::vector<Piece> split_words(const Piece& piece) {
    std::vector<Piece> words;
    const std::string_view text = piece.text();
    for (std::size_t i = 0; i < text.size();) {
        if (is_space(text[i])) {
            ++i;
            continue;
        }
        const std::size_t begin = i;
        while (i < text.size() && !is_space(text[i])) ++i;
        words.push_back(piece.sub(begin, i - begin));
    }
    return words;
}

std::optional<Piece> inside_parentheses(const Piece& piece) {
    const Piece whole = piece.trimmed();
    const std::string_view text = whole.text();
    if (text.size() < 2 || text.front() != '(') return std::nullopt;
    if (closing_bracket(text, 0) != text.size() - 1) return std::nullopt;
    return whole.sub(1, text.size() - 2);
}

Piece take_identifier(Piece& piece, const std::string& what) {
    piece = piece.trimmed();
    const std::string_view text = piece.text();
    if (text.empty() || !is_identifier_start(text.front())) piece.expected(what);
    std::size_t length = 1;
    while (length < text.size() && is_identifier_part(text[length])) ++length;
    const Piece name = piece.sub(0, length);
    piece = piece.sub(length);
    return name;
}

bool take_sign(Piece& piece, std::string_view sign) {
    const Piece rest = piece.trimmed();
    if (!rest.text().starts_with(sign)) return false;
    piece = rest.sub(sign.size());
    return true;
}

void expect_sign(Piece& piece, std::string_view sign) {
    if (!take_sign(piece, sign)) piece.expected("'" + std::string(sign) + "'");
}

bool take_word(Piece& piece, std::string_view word) {
    const Piece rest = piece.trimmed();
    const std::string_view text = rest.text();
    if (!text.starts_with(word)) return false;
    if (text.size() > word.size() && is_identifier_part(text[word.size()])) return false;
    piece = rest.sub(word.size());
    return true;
}

void expect_end(const Piece& piece) {
    if (!piece.blank()) piece.expected("the end of the line");
}

std::int64_t integer_literal(const Piece& piece, const std::string& what, std::int64_t low,
                             std::int64_t high) {
    const Piece whole = piece.trimmed();
    std::string_view text = whole.text();
    const bool negative = text.starts_with("-");
    if (negative) text.remove_prefix(1);
    const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    if (hexadecimal) text.remove_prefix(2);
    std::int64_t value = 0;
    const auto [end, failure] =
        std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
    const bool starts_well = !text.empty() && text.front() != '-' && text.front() != '+';
    if (failure != std::errc() || end != text.data() + text.size() || !starts_well)
        whole.expected(what);
    if (negative) value = -value;
    if (value < low || value > high) {
        whole.expected(what + " from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value;
}

std::optional<std::size_t> find_word(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != std::string_view::npos;
         at = text.find(word, at + 1)) {
        const bool starts = at == 0 || !is_identifier_part(text[at - 1]);
        const std::size_t end = at + word.size();
        if (starts && (end == text.size() || !is_identifier_part(text[end]))) return at;
    }
    return std::nullopt;
}

std::string scalar_type(DType dtype) {
    return scalar_type(to_string(dtype));
}

namespace {

constexpr std::string_view device_facts[] = {"SMS", "L2", "SMEM_MAX"};

template <class T>
const T* find_named(const std::vector<T>& list, std::string_view name) {
    for (const T& item : list) {
        if (item.name == name) return &item;
    }
    return nullptr;
}

bool is_reserved(std::string_view name) {
    static constexpr std::string_view words[] = {
        "alignas",   "alignof",   "and",       "asm",      "auto",     "bool",     "break",
        "case",      "catch",     "char",      "class",    "concept",  "const",    "consteval",
        "constexpr", "constinit", "continue",  "decltype", "default",  "delete",   "do",
        "double",    "else",      "enum",      "explicit", "export",   "extern",   "false",
        "float",     "for",       "friend",    "goto",     "if",       "inline",   "int",
        "long",      "mutable",   "namespace", "new",      "not",      "nullptr",  "operator",
        "or",        "private",   "protected", "public",   "register", "requires", "return",
        "short",     "signed",    "sizeof",    "static",   "struct",   "switch",   "template",
        "this",      "throw",     "true",      "try",      "typedef",  "typeid",   "typename",
        "union",     "unsigned",  "using",     "virtual",  "void",     "volatile", "while",
        "xor",       "threadIdx", "blockIdx",  "blockDim", "gridDim",  "warpSize", "half",
        "dim3"};
    if (name.find("__") != std::string_view::npos) return true;
    if (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z') return true;
    return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

bool is_function_name(std::string_view name) {
    static constexpr std::string_view names[] = {"min",   "max",    "cdiv", "align",
                                                 "numel", "stride", "OCC",  "CLUSTERS"};
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

const Axis* Scope::axis(std::string_view name) const {
    return find_named(definition_.axes, name);
}

const TensorSpec* Scope::tensor(std::string_view name) const {
    const TensorSpec* found = find_named(definition_.inputs, name);
    if (found == nullptr) found = find_named(definition_.outputs, name);
    return found != nullptr && !found->scalar ? found : nullptr;
}

const TensorSpec* Scope::scalar(std::string_view name) const {
    const TensorSpec* found = find_named(definition_.inputs, name);
    return found != nullptr && found->scalar ? found : nullptr;
}

bool Scope::is_input(std::string_view name) const {
    return find_named(definition_.inputs, name) != nullptr &&
           find_named(definition_.outputs, name) == nullptr;
}

const Workspace* Scope::workspace(std::string_view name) const {
    return find_named(plan_.workspaces, name);
}

const TensorMap* Scope::tensor_map(std::string_view name) const {
    return find_named(plan_.tensor_maps, name);
}

bool Scope::is_integer(std::string_view name) const {
    if (axis(name) != nullptr || find_named(plan_.tunes, name) != nullptr) return true;
    if (find_named(plan_.lets, name) != nullptr) return true;
    return std::find(std::begin(device_facts), std::end(device_facts), name) !=
           std::end(device_facts);
}

bool Scope::is_buffer(std::string_view name) const {
    return tensor(name) != nullptr || workspace(name) != nullptr;
}

bool Scope::is_macro(std::string_view name) const {
    const Axis* found = axis(name);
    if (found != nullptr && found->kind == Axis::Kind::constant) return true;
    if (find_named(plan_.tunes, name) != nullptr) return true;
    return std::find(plan_.specialized.begin(), plan_.specialized.end(), name) !=
           plan_.specialized.end();
}

std::vector<std::string> Scope::integers() const {
    std::vector<std::string> names;
    for (const Axis& item : definition_.axes) names.push_back(item.name);
    for (const Tune& item : plan_.tunes) names.push_back(item.name);
    for (const Let& item : plan_.lets) names.push_back(item.name);
    names.insert(names.end(), std::begin(device_facts), std::end(device_facts));
    return names;
}

std::vector<std::string> Scope::buffers() const {
    std::vector<std::string> names;
    for (const auto* list : {&definition_.inputs, &definition_.outputs}) {
        for (const TensorSpec& item : *list) {
            if (!item.scalar) names.push_back(item.name);
        }
    }
    for (const Workspace& item : plan_.workspaces) names.push_back(item.name);
    return names;
}

std::vector<std::string> Scope::scalars() const {
    std::vector<std::string> names;
    for (const TensorSpec& item : definition_.inputs) {
        if (item.scalar) names.push_back(item.name);
    }
    return names;
}

bool Scope::asks_occupancy(const Expression& expression) const {
    const auto asks = [](const Expression& e) {
        return std::any_of(e.queried().begin(), e.queried().end(), [](const auto& query) {
            return query.first == "OCC" || query.first == "CLUSTERS";
        });
    };
    if (asks(expression)) return true;
    // A let only mentions earlier ones, so one pass from the last to the first finds all that
    // matter.
    std::vector<bool> needed(plan_.lets.size(), false);
    const auto mark = [&](const Expression& e) {
        for (std::size_t i = 0; i < plan_.lets.size(); ++i) {
            const auto& names = e.names();
            if (std::find(names.begin(), names.end(), plan_.lets[i].name) != names.end())
                needed[i] = true;
        }
    };
    mark(expression);
    for (std::size_t i = plan_.lets.size(); i > 0; --i) {
        if (!needed[i - 1]) continue;
        if (asks(plan_.lets[i - 1].value)) return true;
        mark(plan_.lets[i - 1].value);
    }
    return false;
}

Expression Scope::integer(const Piece& piece) const {
    const Piece whole = piece.trimmed();
    Expression expression = Expression::parse(whole.text(), whole.position());
    check_names(expression, plan_.lets.size());
    return expression;
}

FloatExpression Scope::floating(const Piece& piece) const {
    const Piece whole = piece.trimmed();
    FloatExpression expression = FloatExpression::parse(whole.text(), whole.position());
    for (const std::string& name : expression.names()) {
        if (is_integer(name) || scalar(name) != nullptr) continue;
        std::vector<std::string> known = integers();
        const std::vector<std::string> more = scalars();
        known.insert(known.end(), more.begin(), more.end());
        whole.fail("unknown name '" + name + "'" + known_names(name, known),
                   find_word(whole.text(), name).value_or(0));
    }
    return expression;
}

void Scope::check_names(const Expression& expression, std::size_t lets_known) const {
    const auto fail = [&](const std::string& name, const std::string& message) {
        throw Error(ErrorCode::parse,
                    position_at(expression.position(), expression.text(),
                                find_word(expression.text(), name).value_or(0)),
                    message);
    };
    for (const std::string& name : expression.names()) {
        for (std::size_t i = lets_known; i < plan_.lets.size(); ++i) {
            if (plan_.lets[i].name != name) continue;
            fail(name, "the let '" + name + "' is used before its line " +
                           std::to_string(plan_.lets[i].position.line));
        }
        if (is_integer(name)) continue;
        if (is_buffer(name)) {
            fail(name, "'" + name + "' is a tensor, expected an integer: numel(" + name +
                           "), stride(" + name + ", 0), align(" + name + ") or an axis");
        }
        if (scalar(name) != nullptr) {
            fail(name, "'" + name + "' is a scalar input, which only kernel arguments may use");
        }
        fail(name, "unknown name '" + name + "'" + known_names(name, integers()));
    }
    for (const auto& [function, name] : expression.queried()) {
        if (function == "OCC" || function == "CLUSTERS" || is_buffer(name)) continue;
        fail(name, function + "(" + name + "): no such tensor or workspace" +
                       known_names(name, buffers()));
    }
}

void Scope::check_new(const Piece& piece, const std::string& what) const {
    const std::string name(piece.text());
    const std::string subject = "the " + what + " '" + name + "'";
    if (is_reserved(name)) piece.fail(subject + " has a name that C++ or CUDA reserves");
    if (axis(name) != nullptr) piece.fail(subject + " has the name of an axis of the definition");
    if (tensor(name) != nullptr || scalar(name) != nullptr)
        piece.fail(subject + " has the name of an input or output");
    if (is_function_name(name)) piece.fail(subject + " has the name of a built-in function");
    const auto taken = [&](const SourcePosition& position) {
        piece.fail(subject + " is defined twice, first in line " + std::to_string(position.line));
    };
    if (const Tune* tune = find_named(plan_.tunes, name)) taken(tune->position);
    if (const Let* let = find_named(plan_.lets, name)) taken(let->position);
    if (const Workspace* space = workspace(name)) taken(space->position);
    if (const TensorMap* map = tensor_map(name)) taken(map->position);
    if (is_integer(name)) piece.fail(subject + " has the name of a device fact");
}

}  // namespace kernelforge::plan
