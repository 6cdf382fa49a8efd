// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// What a sweep chose, and how it is kept between processes.

namespace kernelforge::worker::library {

/// What a choice holds for. All of it is in the file and compared.
struct ChoiceKey {
    std::string library;  ///< "cublasLt 13.1.0"
    int driver = 0;       ///< as cuDriverGetVersion gives it
    std::string device;   ///< name
    std::string uuid;
    std::string call;  ///< MatmulShape::key

    /// Of the file's name. 64 hexadecimal digits.
    [[nodiscard]] std::string digest() const;
    friend bool operator==(const ChoiceKey&, const ChoiceKey&) = default;
};

struct Choice {
    std::array<std::uint64_t, 8> algorithm{};
    std::size_t workspace_bytes = 0;
    std::string text;  ///< "algorithm 66, tile 128x256, stages 5"
    std::size_t tried = 0;
    double best_s = 0.0;   ///< seconds a call in the sweep's final
    double first_s = 0.0;  ///< of the library's own first proposal; 0: it did not run
};

/// One JSON object. Numbers of 64 bits are hexadecimal text.
[[nodiscard]] std::string choice_to_json(const ChoiceKey& key, const Choice& choice);
/// Nothing where the text is damaged, of another format, or of another key.
[[nodiscard]] std::optional<Choice> choice_from_json(std::string_view text, const ChoiceKey& key);

/// From `folder`/library/DIGEST.json; nothing where there is none that fits.
[[nodiscard]] std::optional<Choice> find_choice(const std::string& folder, const ChoiceKey& key);
/// @throws Error io
void keep_choice(const std::string& folder, const ChoiceKey& key, const Choice& choice);

}  // namespace kernelforge::worker::library
