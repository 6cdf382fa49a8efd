// SPDX-License-Identifier: Apache-2.0
#include "secrets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace kernelforge::chat {
namespace {

constexpr std::size_t least_secret_bytes = 8;
constexpr std::string_view mask = "[secret]";

/// Four hexadecimal digits at `at`.
std::optional<std::uint32_t> hex4(std::string_view text, std::size_t at) {
    if (text.size() < 4 || at > text.size() - 4) return std::nullopt;
    std::uint32_t value = 0;
    for (const char c : text.substr(at, 4)) {
        std::uint32_t digit = 0;
        if (c >= '0' && c <= '9') {
            digit = static_cast<std::uint32_t>(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = static_cast<std::uint32_t>(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = static_cast<std::uint32_t>(c - 'A') + 10;
        } else {
            return std::nullopt;
        }
        value = value * 16 + digit;
    }
    return value;
}

std::string utf8(std::uint32_t code) {
    const auto tail = [code](unsigned shift) {
        return static_cast<char>(0x80U | ((code >> shift) & 0x3fU));
    };
    if (code < 0x80) return {static_cast<char>(code)};
    if (code < 0x800) return {static_cast<char>(0xc0U | (code >> 6)), tail(0)};
    if (code < 0x10000) return {static_cast<char>(0xe0U | (code >> 12)), tail(6), tail(0)};
    return {static_cast<char>(0xf0U | (code >> 18)), tail(12), tail(6), tail(0)};
}

/// Calls f(byte, begin, end) for each byte of the text without its escapes; the byte stands at
/// [begin, end) of the text. All backslashes are left out, so that the depth of nesting does not
/// matter; they belong to the byte after them.
template <class F>
void for_each_bare(std::string_view text, F&& f) {
    std::size_t begin = 0;
    std::size_t at = 0;
    while (at < text.size()) {
        if (text[at] == '\\') {
            ++at;
            continue;
        }
        std::string bytes(1, text[at]);
        std::size_t end = at + 1;
        const bool escaped = at > 0 && text[at - 1] == '\\';
        const auto unit = escaped && text[at] == 'u' ? hex4(text, at + 1) : std::nullopt;
        if (unit) {
            std::uint32_t code = *unit;
            end = at + 5;
            std::size_t low_at = end;
            while (low_at < text.size() && text[low_at] == '\\') ++low_at;
            if (code >= 0xd800 && code < 0xdc00 && low_at > end && low_at < text.size() &&
                text[low_at] == 'u') {
                const auto low = hex4(text, low_at + 1);
                if (low && *low >= 0xdc00 && *low < 0xe000) {
                    code = 0x10000 + ((code - 0xd800) << 10) + (*low - 0xdc00);
                    end = low_at + 5;
                }
            }
            bytes = utf8(code);
        }
        at = end;
        if (bytes == "\\") continue;
        for (const char byte : bytes) f(byte, begin, end);
        begin = end;
    }
}

/// Knuth, Morris and Pratt: how far a mismatch after i+1 matching bytes falls back.
std::vector<std::size_t> fallbacks(std::string_view word) {
    std::vector<std::size_t> table(word.size(), 0);
    for (std::size_t i = 1, k = 0; i < word.size(); ++i) {
        while (k > 0 && word[i] != word[k]) k = table[k - 1];
        if (word[i] == word[k]) ++k;
        table[i] = k;
    }
    return table;
}

void replace_literal(std::string& text, const std::string& secret) {
    for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at)) {
        text.replace(at, secret.size(), mask);
        at += mask.size();
    }
}

void replace_escaped(std::string& text, const std::string& secret) {
    if (text.find('\\') == std::string::npos) return;
    std::string word;
    for_each_bare(secret, [&](char byte, std::size_t, std::size_t) { word += byte; });
    if (word.size() < least_secret_bytes) return;
    const std::vector<std::size_t> table = fallbacks(word);
    std::vector<std::size_t> begins(word.size());  // of the last bytes, as a ring
    std::string result;
    std::size_t copied = 0;
    std::size_t count = 0;
    std::size_t matched = 0;
    for_each_bare(text, [&](char byte, std::size_t begin, std::size_t end) {
        begins[count++ % word.size()] = begin;
        while (matched > 0 && byte != word[matched]) matched = table[matched - 1];
        if (byte == word[matched]) ++matched;
        if (matched < word.size()) return;
        matched = 0;
        // A match may begin inside a character that the one before ended in.
        const std::size_t from = std::max(copied, begins[count % word.size()]);
        result.append(text, copied, from - copied);
        result += mask;
        copied = end;
    });
    if (copied == 0) return;
    result.append(text, copied);
    text = std::move(result);
}

}  // namespace

Secrets::Secrets(std::vector<std::string> secrets) : secrets_(std::move(secrets)) {
    std::erase_if(secrets_,
                  [](const std::string& secret) { return secret.size() < least_secret_bytes; });
    // One that is part of another must not leave the rest of it behind.
    std::ranges::sort(
        secrets_, [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

std::string Secrets::redact(std::string text) const {
    for (const std::string& secret : secrets_) {
        replace_literal(text, secret);
        replace_escaped(text, secret);
    }
    return text;
}

void Secrets::redact(ChatReply& reply) const {
    for (std::string* text : {&reply.content, &reply.model, &reply.message}) {
        *text = redact(std::move(*text));
    }
    for (ToolCall& call : reply.tool_calls) {
        for (std::string* text : {&call.id, &call.name, &call.arguments}) {
            *text = redact(std::move(*text));
        }
    }
}

JsonDocument Secrets::parse(const std::string& body, const std::string& name) const {
    std::optional<Json> value;
    try {
        JsonDocument document(body, name);
        value = document.value();
        if (!redact_strings(*value)) return document;
    } catch (const Error&) {
        // The same again for the message, which quotes a part of the text.
        return {redact(body), name};
    }
    return {dump_json(*value), name};
}

bool Secrets::redact_strings(Json& value) const {
    if (value.is_string()) {
        std::string text = redact(value.get_ref<const std::string&>());
        const bool changed = text != value.get_ref<const std::string&>();
        if (changed) value = std::move(text);
        return changed;
    }
    bool changed = false;
    if (value.is_structured()) {
        for (Json& element : value) changed = redact_strings(element) || changed;
    }
    return changed;
}

}  // namespace kernelforge::chat
