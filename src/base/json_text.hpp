// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernelforge/error.hpp"

// Include from .cpp files only: nlohmann/json.hpp costs seconds a file.

namespace kernelforge {

using Json = nlohmann::ordered_json;

/// JSON text that knows where its values stand, so that a wrong value is reported with file, line
/// and column. Copies are cheap views of one document; a `JsonNode` is valid as long as its
/// `JsonDocument`.
class JsonNode;

class JsonDocument {
  public:
    /// Parses strictly: no comments, no duplicate keys, at most 200 levels and 8192 members an
    /// object, valid UTF-8.
    /// `first_line` is the line number of the text's first line, for lines of a JSON-lines file.
    /// @throws Error parse with position
    JsonDocument(std::string text, std::string file, std::size_t first_line = 1);

    [[nodiscard]] JsonNode root() const;
    [[nodiscard]] const Json& value() const noexcept { return value_; }
    /// Position of the value that an RFC 6901 pointer names.
    [[nodiscard]] SourcePosition position(const std::string& pointer) const;

  private:
    std::string text_;
    std::string file_;
    std::size_t first_line_;
    Json value_;
};

class JsonNode {
  public:
    JsonNode(const JsonDocument& document, const Json& value, std::string pointer)
        : document_(&document), value_(&value), pointer_(std::move(pointer)) {}

    /// A key as one step of an RFC 6901 pointer.
    [[nodiscard]] static std::string escape(std::string_view key);
    [[nodiscard]] const Json& json() const noexcept { return *value_; }
    [[nodiscard]] SourcePosition position() const { return document_->position(pointer_); }
    /// @throws Error parse "POSITION: expected EXPECTED, found FOUND"
    [[noreturn]] void expected(const std::string& what) const;
    /// @throws Error with this node's position
    [[noreturn]] void fail(ErrorCode code, const std::string& message) const;

    [[nodiscard]] bool is_null() const { return value_->is_null(); }
    /// Member of an object. @throws Error parse when this is no object or has no such member
    [[nodiscard]] JsonNode at(std::string_view key) const;
    [[nodiscard]] std::optional<JsonNode> find(std::string_view key) const;
    /// Element of an array.
    [[nodiscard]] JsonNode at(std::size_t index) const;
    [[nodiscard]] std::size_t array_size() const;  ///< @throws when this is no array
    /// Calls f(key, node) for every member, in order. @throws when this is no object
    template <class F>
    void for_each_member(F&& f) const {
        if (!value_->is_object()) expected("an object");
        for (const auto& [key, value] : value_->items()) {
            f(key, JsonNode(*document_, value, pointer_ + "/" + escape(key)));
        }
    }
    /// @throws Error parse at the first member that is not among `known`, listing them
    void only_members(std::initializer_list<std::string_view> known) const {
        only_members(std::span(known.begin(), known.size()));
    }
    void only_members(std::span<const std::string_view> known) const;

    [[nodiscard]] std::string as_string() const;
    [[nodiscard]] std::int64_t as_integer() const;
    [[nodiscard]] std::int64_t as_integer(std::int64_t low, std::int64_t high) const;
    [[nodiscard]] double as_number() const;  ///< finite
    [[nodiscard]] bool as_boolean() const;

    /// With defaults for absent members:
    [[nodiscard]] std::string string_or(std::string_view key, std::string value) const;
    [[nodiscard]] std::int64_t integer_or(std::string_view key, std::int64_t value) const;
    [[nodiscard]] double number_or(std::string_view key, double value) const;
    [[nodiscard]] bool boolean_or(std::string_view key, bool value) const;

  private:
    const JsonDocument* document_;
    const Json* value_;
    std::string pointer_;
};

/// One line, no spaces, invalid UTF-8 replaced.
[[nodiscard]] std::string dump_json(const Json& value);

}  // namespace kernelforge
