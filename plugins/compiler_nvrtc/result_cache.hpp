// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernelforge/compiler.hpp"

namespace kernelforge::compile {

/// Results on disk, one file each under the hash of all that decides them. Processes may share a
/// folder: a file appears complete or not at all. [any]
class ResultCache {
  public:
    /// An empty folder: nothing is kept.
    explicit ResultCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    [[nodiscard]] bool enabled() const { return !folder_.empty(); }

    /// Nothing when there is none, or when the file is damaged.
    [[nodiscard]] std::optional<CompileResult> find(const std::string& key) const;

    /// Keeps results that will be the same next time: ok and error.
    /// @throws Error io (full disk, no permission)
    void store(const std::string& key, const CompileResult& result) const;

    /// `FOLDER/ab/abcdef….result`
    [[nodiscard]] std::filesystem::path path(const std::string& key) const;

  private:
    std::filesystem::path folder_;
};

}  // namespace kernelforge::compile
