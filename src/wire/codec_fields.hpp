// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "wire/codec.hpp"

// How codec_*.cpp describe structs: KERNELFORGE_WIRE_FIELDS(Type, member, member, …) once a struct,
// all its members in order of declaration. The list is checked against the struct by the compiler
// (a structured binding with as many names), so a member that is added later cannot be forgotten.

#define KERNELFORGE_WIRE_PARENS ()
#define KERNELFORGE_WIRE_EXPAND(...) \
    KERNELFORGE_WIRE_EXPAND3(KERNELFORGE_WIRE_EXPAND3(KERNELFORGE_WIRE_EXPAND3(__VA_ARGS__)))
#define KERNELFORGE_WIRE_EXPAND3(...) \
    KERNELFORGE_WIRE_EXPAND2(KERNELFORGE_WIRE_EXPAND2(KERNELFORGE_WIRE_EXPAND2(__VA_ARGS__)))
#define KERNELFORGE_WIRE_EXPAND2(...) \
    KERNELFORGE_WIRE_EXPAND1(KERNELFORGE_WIRE_EXPAND1(KERNELFORGE_WIRE_EXPAND1(__VA_ARGS__)))
#define KERNELFORGE_WIRE_EXPAND1(...) __VA_ARGS__
#define KERNELFORGE_WIRE_EACH(first, ...)    \
    visitor.member(#first, fields_of.first); \
    __VA_OPT__(KERNELFORGE_WIRE_AGAIN KERNELFORGE_WIRE_PARENS(__VA_ARGS__))
#define KERNELFORGE_WIRE_AGAIN() KERNELFORGE_WIRE_EACH

#define KERNELFORGE_WIRE_FIELDS(Type, ...)                          \
    template <class Visitor, class Value>                           \
    requires std::same_as<std::remove_const_t<Value>, Type>         \
    void visit_fields(Visitor& visitor, Value& fields_of) {         \
        { [[maybe_unused]] auto& [__VA_ARGS__] = fields_of; }       \
        KERNELFORGE_WIRE_EXPAND(KERNELFORGE_WIRE_EACH(__VA_ARGS__)) \
    }

/// The public pair of functions of a struct.
#define KERNELFORGE_WIRE_CODEC(Type)          \
    Json encode(const Type& value) {          \
        return encode_object(value);          \
    }                                         \
    template <>                               \
    Type decode<Type>(const JsonNode& node) { \
        return decode_object<Type>(node);     \
    }

namespace kernelforge::wire {

// Names of the enumerations that have no `to_string` of their own.

[[nodiscard]] constexpr std::string_view to_string(Axis::Kind kind) noexcept {
    switch (kind) {
        case Axis::Kind::constant:
            return "constant";
        case Axis::Kind::variable:
            return "variable";
        case Axis::Kind::expression:
            return "expression";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(InitSpec::Kind kind) noexcept {
    switch (kind) {
        case InitSpec::Kind::normal:
            return "normal";
        case InitSpec::Kind::uniform:
            return "uniform";
        case InitSpec::Kind::integers:
            return "integers";
        case InitSpec::Kind::constant:
            return "constant";
        case InitSpec::Kind::permutation:
            return "permutation";
        case InitSpec::Kind::heavy_tail:
            return "heavy_tail";
        case InitSpec::Kind::offsets:
            return "offsets";
        case InitSpec::Kind::distinct:
            return "distinct";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(CompareSpec::Kind kind) noexcept {
    switch (kind) {
        case CompareSpec::Kind::rms:
            return "rms";
        case CompareSpec::Kind::exact:
            return "exact";
        case CompareSpec::Kind::set:
            return "set";
        case CompareSpec::Kind::by_index:
            return "by_index";
        case CompareSpec::Kind::lse:
            return "lse";
        case CompareSpec::Kind::ragged:
            return "ragged";
        case CompareSpec::Kind::samples:
            return "samples";
        case CompareSpec::Kind::custom:
            return "custom";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(BaselineSpec::Kind kind) noexcept {
    switch (kind) {
        case BaselineSpec::Kind::cuda:
            return "cuda";
        case BaselineSpec::Kind::cublaslt:
            return "cublaslt";
        case BaselineSpec::Kind::cudnn:
            return "cudnn";
        case BaselineSpec::Kind::cub:
            return "cub";
        case BaselineSpec::Kind::command:
            return "command";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(CompileStatus status) noexcept {
    switch (status) {
        case CompileStatus::ok:
            return "ok";
        case CompileStatus::error:
            return "error";
        case CompileStatus::timed_out:
            return "timed_out";
        case CompileStatus::out_of_memory:
            return "out_of_memory";
        case CompileStatus::crashed:
            return "crashed";
        case CompileStatus::cancelled:
            return "cancelled";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(CompileDiagnostic::Severity severity) noexcept {
    switch (severity) {
        case CompileDiagnostic::Severity::note:
            return "note";
        case CompileDiagnostic::Severity::warning:
            return "warning";
        case CompileDiagnostic::Severity::error:
            return "error";
    }
    return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(ExpectedChange::Direction direction) noexcept {
    switch (direction) {
        case ExpectedChange::Direction::down:
            return "down";
        case ExpectedChange::Direction::up:
            return "up";
    }
    return "unknown";
}

/// Machine code is the only member that is never text.
[[nodiscard]] constexpr bool is_binary(std::string_view member) {
    return member == "cubin";
}

/// Whether `text` is well-formed UTF-8 (no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view text);

template <class T>
concept PublicStruct = std::is_class_v<T> && requires(const T& value) {
    { encode(value) } -> std::same_as<Json>;
};

template <class T>
Json encode_object(const T& value);
template <class T>
T decode_object(const JsonNode& node);

// Writing.

[[nodiscard]] Json encode_value(const std::string& text);
[[nodiscard]] Json encode_value(double number);
inline Json encode_value(bool flag) {
    return flag;
}
inline Json encode_value(const NodeId& id) {
    return encode_value(id.value);
}
/// @throws Error invalid_argument
[[nodiscard]] Json encode_value(const std::shared_ptr<const Task>& task);

template <std::integral I>
Json encode_value(I number) {
    return number;
}
template <class E>
requires std::is_enum_v<E> Json encode_value(E enumerator) {
    return std::string(to_string(enumerator));
}
template <class Rep, class Period>
Json encode_value(std::chrono::duration<Rep, Period> duration) {
    return encode_value(std::chrono::duration<double>(duration).count());
}
template <class T>
Json encode_value(const std::vector<T>& values);
template <class T, std::size_t n>
Json encode_value(const T (&values)[n]);
template <class A, class B>
Json encode_value(const std::pair<A, B>& value);
template <class T>
Json encode_value(const std::map<std::string, T>& values);
template <class T>
Json encode_value(const std::map<LaunchKey, T>& values);

template <class T>
requires std::is_class_v<T> Json encode_value(const T& value) {
    if constexpr (PublicStruct<T>) {
        return encode(value);
    } else {
        return encode_object(value);
    }
}
template <class T>
Json encode_value(const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(encode_value(value));
    return array;
}
template <class T, std::size_t n>
Json encode_value(const T (&values)[n]) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(encode_value(value));
    return array;
}
template <class A, class B>
Json encode_value(const std::pair<A, B>& value) {
    Json array = Json::array();
    array.push_back(encode_value(value.first));
    array.push_back(encode_value(value.second));
    return array;
}
template <class T>
Json encode_value(const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[key] = encode_value(value);
    return object;
}
template <class T>
Json encode_value(const std::map<LaunchKey, T>& values) {
    Json array = Json::array();
    for (const auto& [key, value] : values) {
        Json entry = Json::object();
        entry["key"] = encode_value(key);
        entry["profile"] = encode_value(value);
        array.push_back(std::move(entry));
    }
    return array;
}

class ObjectWriter {
  public:
    template <class T>
    void member(const char* name, const T& value) {
        object_[name] = encode_value(value);
    }
    template <class T>
    void member(const char* name, const std::optional<T>& value) {
        if (value) object_[name] = encode_value(*value);
    }
    void member(const char* name, const std::string& value) {
        object_[name] = is_binary(name) ? Json(base64_encode(value)) : encode_value(value);
    }
    [[nodiscard]] Json take() { return std::move(object_); }

  private:
    Json object_ = Json::object();
};

template <class T>
Json encode_object(const T& value) {
    ObjectWriter writer;
    visit_fields(writer, value);
    return writer.take();
}

// Reading.

void decode_value(const JsonNode& node, std::string& text);
void decode_value(const JsonNode& node, double& number);
void decode_value(const JsonNode& node, std::shared_ptr<const Task>& task);
void decode_value(const JsonNode& node, std::chrono::milliseconds& duration);
void decode_value(const JsonNode& node, std::chrono::duration<double>& duration);
inline void decode_value(const JsonNode& node, bool& flag) {
    flag = node.as_boolean();
}
inline void decode_value(const JsonNode& node, NodeId& id) {
    decode_value(node, id.value);
}
[[nodiscard]] std::uint64_t decode_unsigned(const JsonNode& node);
/// Base64 in a string. @throws Error parse with the node's position
[[nodiscard]] std::string decode_bytes(const JsonNode& node);
/// @throws Error parse unless every member of `node` is among `known`
void check_members(const JsonNode& node, const std::vector<std::string_view>& known);

template <std::integral I>
void decode_value(const JsonNode& node, I& number) {
    if constexpr (std::same_as<I, std::uint64_t> || std::same_as<I, std::size_t>) {
        number = decode_unsigned(node);
    } else {
        number = static_cast<I>(
            node.as_integer(std::numeric_limits<I>::min(), std::numeric_limits<I>::max()));
    }
}

/// Enumerators count from 0 without gaps; past the last one `to_string` gives "unknown". One
/// enumeration has an enumerator of that name, its last.
template <class E>
E decode_enum(const JsonNode& node) {
    const std::string text = node.as_string();
    std::string names;
    for (int i = 0;; ++i) {
        const E enumerator = static_cast<E>(i);
        const std::string_view name = to_string(enumerator);
        bool past_end = name == "unknown";
        if constexpr (std::same_as<E, BottleneckKind>) past_end = enumerator > E::unknown;
        if (past_end) break;
        if (name == text) return enumerator;
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    node.expected("one of: " + names);
}
template <class E>
requires std::is_enum_v<E>
void decode_value(const JsonNode& node, E& enumerator) {
    enumerator = decode_enum<E>(node);
}
template <class T>
void decode_value(const JsonNode& node, std::vector<T>& values);
template <class T, std::size_t n>
void decode_value(const JsonNode& node, T (&values)[n]);
template <class A, class B>
void decode_value(const JsonNode& node, std::pair<A, B>& value);
template <class T>
void decode_value(const JsonNode& node, std::map<std::string, T>& values);
template <class T>
void decode_value(const JsonNode& node, std::map<LaunchKey, T>& values);

template <class T>
requires std::is_class_v<T>
void decode_value(const JsonNode& node, T& value) {
    if constexpr (PublicStruct<T>) {
        value = decode<T>(node);
    } else {
        value = decode_object<T>(node);
    }
}
template <class T>
void decode_value(const JsonNode& node, std::vector<T>& values) {
    const std::size_t size = node.array_size();
    values.clear();
    for (std::size_t i = 0; i < size; ++i) decode_value(node.at(i), values.emplace_back());
}
template <class T, std::size_t n>
void decode_value(const JsonNode& node, T (&values)[n]) {
    if (node.array_size() != n) node.expected("an array of " + std::to_string(n) + " elements");
    for (std::size_t i = 0; i < n; ++i) decode_value(node.at(i), values[i]);
}
template <class A, class B>
void decode_value(const JsonNode& node, std::pair<A, B>& value) {
    if (node.array_size() != 2) node.expected("an array of 2 elements");
    decode_value(node.at(0), value.first);
    decode_value(node.at(1), value.second);
}
template <class T>
void decode_value(const JsonNode& node, std::map<std::string, T>& values) {
    values.clear();
    node.for_each_member(
        [&](const std::string& key, const JsonNode& member) { decode_value(member, values[key]); });
}
template <class T>
void decode_value(const JsonNode& node, std::map<LaunchKey, T>& values) {
    const std::size_t size = node.array_size();
    values.clear();
    for (std::size_t i = 0; i < size; ++i) {
        const JsonNode entry = node.at(i);
        entry.only_members({"key", "profile"});
        LaunchKey key;
        decode_value(entry.at("key"), key);
        const auto [place, is_new] = values.try_emplace(key);
        if (!is_new) entry.at("key").fail(ErrorCode::parse, "this launch appears twice");
        decode_value(entry.at("profile"), place->second);
    }
}

class ObjectReader {
  public:
    explicit ObjectReader(const JsonNode& node) : node_(node) {}

    template <class T>
    void member(const char* name, T& value) {
        known_.emplace_back(name);
        decode_value(node_.at(name), value);
    }
    template <class T>
    void member(const char* name, std::optional<T>& value) {
        known_.emplace_back(name);
        value.reset();
        if (const auto found = node_.find(name)) decode_value(*found, value.emplace());
    }
    void member(const char* name, std::string& value) {
        known_.emplace_back(name);
        const JsonNode found = node_.at(name);
        if (is_binary(name)) {
            value = decode_bytes(found);
        } else {
            decode_value(found, value);
        }
    }
    void finish() const { check_members(node_, known_); }

  private:
    const JsonNode& node_;
    std::vector<std::string_view> known_;
};

template <class T>
T decode_object(const JsonNode& node) {
    T value;
    ObjectReader reader(node);
    visit_fields(reader, value);
    reader.finish();
    return value;
}

// Small structs that appear inside structs of several files.
KERNELFORGE_WIRE_FIELDS(SourcePosition, file, line, column)
KERNELFORGE_WIRE_FIELDS(LaunchKey, workload, launch)
KERNELFORGE_WIRE_FIELDS(MissingDatum, what, why)
KERNELFORGE_WIRE_FIELDS(ToolCall, id, name, arguments)

}  // namespace kernelforge::wire
