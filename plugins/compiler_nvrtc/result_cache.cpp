// SPDX-License-Identifier: Apache-2.0
#include "result_cache.hpp"

#include <string_view>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "kernelforge/error.hpp"
#include "wire/codec.hpp"

namespace kernelforge::compile {
namespace {

constexpr std::string_view head = "kernelforge compile result 1 ";
constexpr std::size_t hash_digits = 64;

}  // namespace

std::filesystem::path ResultCache::path(const std::string& key) const {
    return folder_ / key.substr(0, 2) / (key + ".result");
}

std::optional<CompileResult> ResultCache::find(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    try {
        const std::string text = read_file(path(key));
        const std::size_t start = head.size() + hash_digits + 1;
        if (!text.starts_with(head) || text.size() < start) return std::nullopt;
        std::string body = text.substr(start);
        if (text.compare(head.size(), hash_digits, sha256_hex(body)) != 0) return std::nullopt;
        const JsonDocument document(std::move(body), "compile cache");
        CompileResult result = wire::decode<CompileResult>(document.root());
        result.from_cache = true;
        return result;
    } catch (const Error&) {
        // Absent, damaged, or of another version: compiled anew and replaced.
        return std::nullopt;
    }
}

void ResultCache::store(const std::string& key, const CompileResult& result) const {
    if (folder_.empty()) return;
    if (result.status != CompileStatus::ok && result.status != CompileStatus::error) return;
    const std::string body = dump_json(wire::encode(result));
    make_folder(path(key).parent_path());
    write_file_atomically(path(key), std::string(head) + sha256_hex(body) + "\n" + body);
}

}  // namespace kernelforge::compile
