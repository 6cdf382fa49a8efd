// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.hpp"

#include "wire/codec_fields.hpp"

namespace kernelforge::wire {
namespace {

/// Bytes of the sequence that `lead` starts, 0 when it cannot start one.
std::size_t sequence_length(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if ((lead & 0xF0) == 0xE0) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 0;
}

/// The range of a second byte depends on the first (Unicode 15, table 3-7).
bool second_byte_fits(unsigned char lead, unsigned char second) {
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

constexpr double longest_duration_s = 1e15;

}  // namespace

bool is_utf8(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = sequence_length(byte(i));
        if (length == 0 || length > text.size() - i) return false;
        if (length > 1 && !second_byte_fits(byte(i), byte(i + 1))) return false;
        for (std::size_t k = 2; k < length; ++k) {
            if ((byte(i + k) & 0xC0) != 0x80) return false;
        }
        i += length;
    }
    return true;
}

Json encode_value(const std::string& text) {
    if (is_utf8(text)) return text;
    Json object = Json::object();
    object["base64"] = base64_encode(text);
    return object;
}

Json encode_value(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    return number;
}

Json encode_value(const std::shared_ptr<const Task>& task) {
    if (!task) {
        throw Error(ErrorCode::invalid_argument, "request: expected a task, found a null pointer");
    }
    return encode(*task);
}

void decode_value(const JsonNode& node, std::string& text) {
    if (node.json().is_object()) {
        node.only_members({"base64"});
        text = decode_bytes(node.at("base64"));
    } else {
        text = node.as_string();
    }
}

void decode_value(const JsonNode& node, double& number) {
    if (!node.json().is_string()) {
        number = node.as_number();
        return;
    }
    const std::string text = node.as_string();
    if (text == "nan") {
        number = std::numeric_limits<double>::quiet_NaN();
    } else if (text == "inf") {
        number = std::numeric_limits<double>::infinity();
    } else if (text == "-inf") {
        number = -std::numeric_limits<double>::infinity();
    } else {
        node.expected("a number, \"nan\", \"inf\" or \"-inf\"");
    }
}

void decode_value(const JsonNode& node, std::shared_ptr<const Task>& task) {
    task = std::make_shared<const Task>(decode<Task>(node));
}

void decode_value(const JsonNode& node, std::chrono::milliseconds& duration) {
    const double seconds = node.as_number();
    // Up to here a millisecond count is exact in a double and far from the end of 64 bits.
    if (std::abs(seconds) > 9e12) node.expected("a duration of at most 9e12 seconds");
    duration = std::chrono::milliseconds(std::llround(seconds * 1000.0));
}

void decode_value(const JsonNode& node, std::chrono::duration<double>& duration) {
    const double seconds = node.as_number();
    if (std::abs(seconds) > longest_duration_s) node.expected("a duration of at most 1e15 seconds");
    duration = std::chrono::duration<double>(seconds);
}

std::uint64_t decode_unsigned(const JsonNode& node) {
    if (!node.json().is_number_unsigned()) node.expected("an integer from 0 to 2^64-1");
    return node.json().get<std::uint64_t>();
}

std::string decode_bytes(const JsonNode& node) {
    try {
        return base64_decode(node.as_string());
    } catch (const Error& error) {
        if (!error.position().file.empty()) throw;  // not a string
        node.fail(ErrorCode::parse, error.what());
    }
}

void check_members(const JsonNode& node, const std::vector<std::string_view>& known) {
    node.for_each_member([&](const std::string& key, const JsonNode& member) {
        for (const std::string_view name : known) {
            if (name == key) return;
        }
        std::string list;
        for (const std::string_view name : known) {
            list += (list.empty() ? "" : ", ") + std::string(name);
        }
        member.fail(ErrorCode::parse, "unknown member \"" + key + "\", expected one of: " + list);
    });
}

std::string message(std::string_view type, const Json& body) {
    std::string text = "{\"type\":" + dump_json(Json(std::string(type))) + ",\"body\":";
    text += dump_json(body);
    text += '}';
    return text;
}

}  // namespace kernelforge::wire
