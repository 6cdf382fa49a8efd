// SPDX-License-Identifier: Apache-2.0
#include "base/base64.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernelforge/error.hpp"

namespace kernelforge {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
    std::array<std::int8_t, 256> values{};
    for (auto& value : values) value = -1;
    for (std::size_t i = 0; i < alphabet.size(); ++i) {
        values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
    }
    return values;
}

constexpr auto values = make_values();

}  // namespace

std::string base64_encode(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = (group << 8) | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            text += k <= n ? alphabet[(group >> (18 - 6 * k)) & 63] : '=';
        }
    }
    return text;
}

std::string base64_decode(std::string_view text) {
    if (text.size() % 4 != 0) {
        throw Error(ErrorCode::parse, "base64 text has " + std::to_string(text.size()) +
                                          " characters, expected a multiple of 4");
    }
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3);
    for (std::size_t i = 0; i < text.size(); i += 4) {
        const bool last = i + 4 == text.size();
        std::size_t padding = 0;
        if (last && text[i + 3] == '=') padding = text[i + 2] == '=' ? 2 : 1;
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 4; ++k) {
            const char c = text[i + k];
            const int value = k >= 4 - padding ? 0 : values[static_cast<unsigned char>(c)];
            if (value < 0) {
                throw Error(ErrorCode::parse, "base64 text has an invalid character at byte " +
                                                  std::to_string(i + k));
            }
            group = (group << 6) | static_cast<std::uint32_t>(value);
        }
        for (std::size_t k = 0; k < 3 - padding; ++k) {
            bytes += static_cast<char>((group >> (16 - 8 * k)) & 0xff);
        }
    }
    return bytes;
}

}  // namespace kernelforge
