// SPDX-License-Identifier: Apache-2.0
#include "worker/library_sweep.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "kernelforge/error.hpp"

namespace kernelforge::worker::library {

namespace {

constexpr int format_version = 1;

std::filesystem::path file_of(const std::string& folder, const ChoiceKey& key) {
    return std::filesystem::path(folder) / "library" / (key.digest() + ".json");
}

std::uint64_t hexadecimal(const JsonNode& node) {
    const std::string text = node.as_string();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size())
        node.expected("hexadecimal digits");
    return value;
}

ChoiceKey key_of(const JsonNode& node) {
    ChoiceKey key;
    key.library = node.at("library").as_string();
    key.driver = static_cast<int>(node.at("driver").as_integer(0, INT32_MAX));
    key.device = node.at("device").as_string();
    key.uuid = node.at("uuid").as_string();
    key.call = node.at("call").as_string();
    return key;
}

}  // namespace

std::string ChoiceKey::digest() const {
    Sha256 sha;
    for (const std::string* each : {&library, &device, &uuid, &call}) sha.field(*each);
    sha.field(std::to_string(driver));
    return sha.hex();
}

std::string choice_to_json(const ChoiceKey& key, const Choice& choice) {
    Json json;
    json["kernelforge_library_choice"] = format_version;
    json["key"] = {{"library", key.library},
                   {"driver", key.driver},
                   {"device", key.device},
                   {"uuid", key.uuid},
                   {"call", key.call}};
    Json words = Json::array();
    for (const std::uint64_t word : choice.algorithm) words.push_back(fmt::format("{:x}", word));
    json["algorithm"] = words;
    json["workspace_bytes"] = choice.workspace_bytes;
    json["text"] = choice.text;
    json["tried"] = choice.tried;
    json["best_s"] = choice.best_s;
    json["first_s"] = choice.first_s;
    return dump_json(json) + "\n";
}

std::optional<Choice> choice_from_json(std::string_view text, const ChoiceKey& key) {
    constexpr std::int64_t most_workspace = std::int64_t{1} << 40;
    try {
        const JsonDocument document(std::string(text), "library choice");
        const JsonNode root = document.root();
        if (root.at("kernelforge_library_choice").as_integer() != format_version) return {};
        if (key_of(root.at("key")) != key) return {};
        Choice choice;
        const JsonNode words = root.at("algorithm");
        if (words.array_size() != choice.algorithm.size()) return {};
        for (std::size_t i = 0; i < choice.algorithm.size(); ++i) {
            choice.algorithm[i] = hexadecimal(words.at(i));
        }
        choice.workspace_bytes =
            static_cast<std::size_t>(root.at("workspace_bytes").as_integer(0, most_workspace));
        choice.text = root.at("text").as_string();
        choice.tried = static_cast<std::size_t>(root.at("tried").as_integer(0, INT32_MAX));
        choice.best_s = root.at("best_s").as_number();
        choice.first_s = root.at("first_s").as_number();
        return choice;
    } catch (const Error&) {
        return {};  // a damaged file is measured again
    }
}

std::optional<Choice> find_choice(const std::string& folder, const ChoiceKey& key) {
    if (folder.empty()) return {};
    constexpr std::size_t most_bytes = 1 << 16;
    std::string text;
    try {
        text = read_file(file_of(folder, key), most_bytes);
    } catch (const Error&) {
        return {};  // absent or unreadable: measured again
    }
    return choice_from_json(text, key);
}

void keep_choice(const std::string& folder, const ChoiceKey& key, const Choice& choice) {
    if (folder.empty()) return;
    const std::filesystem::path path = file_of(folder, key);
    make_folder(path.parent_path());
    write_file_atomically(path, choice_to_json(key, choice));
}

}  // namespace kernelforge::worker::library
