// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace kernelforge {
namespace {

constexpr std::size_t max_depth = 200;
/// Each insertion into an ordered object looks at all members before it, so that hostile text of a
/// few megabytes would take hours. More than CUPTI has metrics on any device (3,500), which is the
/// most that one of our own objects holds.
constexpr std::size_t max_members = 8192;

SourcePosition position_of_byte(std::string_view text, std::size_t byte, const std::string& file,
                                std::size_t first_line) {
    SourcePosition position{file, first_line, 1};
    for (std::size_t i = 0; i < byte && i < text.size(); ++i) {
        if (text[i] == '\n') {
            ++position.line;
            position.column = 1;
        } else {
            ++position.column;
        }
    }
    return position;
}

/// The byte after a string that starts at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
    for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
    }
    return std::min(at + 1, text.size());
}

/// Where the member name with that number, counted from 1 over the whole text, starts. The text up
/// to there is well-formed.
std::size_t byte_of_key(std::string_view text, std::size_t number) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '"') continue;
        const std::size_t end = end_of_string(text, at);
        const std::size_t next = text.find_first_not_of(" \t\r\n", end);
        if (next != std::string_view::npos && text[next] == ':' && --number == 0) return at;
        at = end - 1;
    }
    return 0;
}

/// Where the bracket stands that opens that level, counted from 1.
std::size_t byte_of_level(std::string_view text, std::size_t level) {
    std::size_t depth = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '"') at = end_of_string(text, at) - 1;
        if (text[at] == '}' || text[at] == ']') --depth;
        if ((text[at] == '{' || text[at] == '[') && ++depth == level) return at;
    }
    return 0;
}

/// Finds the byte at which a value starts. The text has been parsed already, so it is well-formed.
class Locator {
  public:
    explicit Locator(std::string_view text) : text_(text) {}

    std::size_t find(const std::vector<std::string>& path) {
        if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // the parser skips this mark, too
        skip_space();
        for (const std::string& step : path) {
            if (text_[at_] == '{') {
                enter_member(step);
            } else {
                enter_element(std::stoul(step));
            }
        }
        return at_;
    }

  private:
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                      text_[at_] == '\n' || text_[at_] == '\r')) {
            ++at_;
        }
    }
    std::string_view string_token() {
        const std::size_t start = at_;
        at_ = end_of_string(text_, at_);
        return text_.substr(start, at_ - start);
    }
    void skip_value() {
        std::size_t depth = 0;
        do {
            skip_space();
            const char c = text_[at_];
            if (c == '"') {
                string_token();
            } else if (c == '{' || c == '[') {
                ++depth;
                ++at_;
            } else if (c == '}' || c == ']') {
                --depth;
                ++at_;
            } else if (c == ',' || c == ':') {
                ++at_;
            } else {
                while (at_ < text_.size() &&
                       std::string_view(",:]} \t\r\n").find(text_[at_]) == std::string_view::npos) {
                    ++at_;
                }
            }
        } while (depth > 0 && at_ < text_.size());
    }
    void enter_member(const std::string& key) {
        ++at_;
        for (;;) {
            skip_space();
            const std::string found = Json::parse(string_token()).get<std::string>();
            skip_space();
            ++at_;  // the colon
            skip_space();
            if (found == key) return;
            skip_value();
            skip_space();
            ++at_;  // the comma
        }
    }
    void enter_element(std::size_t index) {
        ++at_;
        skip_space();
        for (std::size_t i = 0; i < index; ++i) {
            skip_value();
            skip_space();
            ++at_;  // the comma
            skip_space();
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::string describe(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "an array";
    std::string text = dump_json(value);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
}

/// The sentence behind nlohmann's "[json.exception.parse_error.101] parse error at …: ".
std::string reason_of(const Json::parse_error& error) {
    const std::string text = error.what();
    const std::size_t colon = text.find(": ", text.find("parse error"));
    std::string reason = colon == std::string::npos ? text : text.substr(colon + 2);
    if (reason.size() > 300) reason = reason.substr(0, 297) + "...";
    return reason;
}

/// Checks depth and members on the way through a text. (A callback of nlohmann's parser could, but
/// with one it looks at all elements before each object or array in an array.)
class LimitCheck final : public nlohmann::json_sax<Json> {
  public:
    LimitCheck(std::string_view text, const std::string& file, std::size_t first_line)
        : text_(text), file_(file), first_line_(first_line) {}

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override {
        start();
        keys_.emplace_back();
        return true;
    }
    bool end_object() override {
        --depth_;
        keys_.pop_back();
        return true;
    }
    bool start_array(std::size_t) override {
        start();
        return true;
    }
    bool end_array() override {
        --depth_;
        return true;
    }
    bool key(string_t& key) override {
        ++keys_seen_;
        if (!keys_.back().insert(key).second) {
            fail(byte_of_key(text_, keys_seen_),
                 "member \"" + key + "\" appears twice in one object");
        }
        if (keys_.back().size() > max_members) {
            fail(byte_of_key(text_, keys_seen_), "expected at most " + std::to_string(max_members) +
                                                     " members in one object, found more");
        }
        return true;
    }
    /// Who reads the values says it.
    bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
        return false;
    }

  private:
    void start() {
        if (depth_ >= max_depth) {
            fail(byte_of_level(text_, max_depth + 1),
                 "expected at most " + std::to_string(max_depth) + " nested levels, found more");
        }
        ++depth_;
    }
    [[noreturn]] void fail(std::size_t byte, const std::string& message) const {
        throw Error(ErrorCode::parse, position_of_byte(text_, byte, file_, first_line_), message);
    }

    std::string_view text_;
    const std::string& file_;
    std::size_t first_line_;
    std::size_t depth_ = 0;
    std::vector<std::set<std::string>> keys_;
    std::size_t keys_seen_ = 0;
};

}  // namespace

JsonDocument::JsonDocument(std::string text, std::string file, std::size_t first_line)
    : text_(std::move(text)), file_(std::move(file)), first_line_(first_line) {
    LimitCheck limits(text_, file_, first_line_);
    static_cast<void>(Json::sax_parse(text_, &limits));
    try {
        value_ = Json::parse(text_);
    } catch (const Json::parse_error& error) {
        const std::size_t byte = error.byte == 0 ? 0 : error.byte - 1;
        throw Error(ErrorCode::parse, position_of_byte(text_, byte, file_, first_line_),
                    "expected JSON, " + reason_of(error));
    } catch (const Json::out_of_range&) {
        throw Error(ErrorCode::parse, SourcePosition{file_, first_line_, 0},
                    "expected numbers that a double can hold");
    }
}

JsonNode JsonDocument::root() const {
    return {*this, value_, ""};
}

SourcePosition JsonDocument::position(const std::string& pointer) const {
    std::vector<std::string> path;
    nlohmann::json_pointer<std::string> rest(pointer);
    while (!rest.empty()) {
        path.insert(path.begin(), rest.back());
        rest.pop_back();
    }
    return position_of_byte(text_, Locator(text_).find(path), file_, first_line_);
}

void JsonNode::expected(const std::string& what) const {
    fail(ErrorCode::parse, "expected " + what + ", found " + describe(*value_));
}

void JsonNode::fail(ErrorCode code, const std::string& message) const {
    throw Error(code, position(), message);
}

JsonNode JsonNode::at(std::string_view key) const {
    if (auto member = find(key)) return *member;
    fail(ErrorCode::parse, "expected a member \"" + std::string(key) + "\", found none");
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
    if (!value_->is_object()) expected("an object");
    const auto found = value_->find(std::string(key));
    if (found == value_->end()) return std::nullopt;
    return JsonNode(*document_, *found, pointer_ + "/" + escape(key));
}

JsonNode JsonNode::at(std::size_t index) const {
    if (index >= array_size()) {
        expected("an array of at least " + std::to_string(index + 1) + " elements");
    }
    return {*document_, (*value_)[index], pointer_ + "/" + std::to_string(index)};
}

std::size_t JsonNode::array_size() const {
    if (!value_->is_array()) expected("an array");
    return value_->size();
}

void JsonNode::only_members(std::span<const std::string_view> known) const {
    for_each_member([&](const std::string& key, const JsonNode& node) {
        for (const std::string_view name : known) {
            if (name == key) return;
        }
        std::string list;
        for (const std::string_view name : known) {
            if (!list.empty()) list += ", ";
            list += name;
        }
        node.fail(ErrorCode::parse, "unknown member \"" + key + "\", expected one of: " + list);
    });
}

std::string JsonNode::as_string() const {
    if (!value_->is_string()) expected("a string");
    return value_->get<std::string>();
}

std::int64_t JsonNode::as_integer() const {
    if (value_->is_number_unsigned()) {
        const auto number = value_->get<std::uint64_t>();
        if (number > static_cast<std::uint64_t>(INT64_MAX)) expected("an integer below 2^63");
        return static_cast<std::int64_t>(number);
    }
    if (!value_->is_number_integer()) expected("an integer");
    return value_->get<std::int64_t>();
}

std::int64_t JsonNode::as_integer(std::int64_t low, std::int64_t high) const {
    const std::int64_t number = as_integer();
    if (number < low || number > high) {
        expected("an integer from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return number;
}

double JsonNode::as_number() const {
    if (!value_->is_number()) expected("a number");
    const double number = value_->get<double>();
    if (!std::isfinite(number)) expected("a finite number");
    return number;
}

bool JsonNode::as_boolean() const {
    if (!value_->is_boolean()) expected("true or false");
    return value_->get<bool>();
}

std::string JsonNode::string_or(std::string_view key, std::string value) const {
    const auto member = find(key);
    return member ? member->as_string() : std::move(value);
}

std::int64_t JsonNode::integer_or(std::string_view key, std::int64_t value) const {
    const auto member = find(key);
    return member ? member->as_integer() : value;
}

double JsonNode::number_or(std::string_view key, double value) const {
    const auto member = find(key);
    return member ? member->as_number() : value;
}

bool JsonNode::boolean_or(std::string_view key, bool value) const {
    const auto member = find(key);
    return member ? member->as_boolean() : value;
}

std::string JsonNode::escape(std::string_view key) {
    std::string text;
    for (const char c : key) {
        if (c == '~') {
            text += "~0";
        } else if (c == '/') {
            text += "~1";
        } else {
            text += c;
        }
    }
    return text;
}

std::string dump_json(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kernelforge
