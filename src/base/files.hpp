// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace kernelforge {

/// The whole file. @throws Error not_found, io, parse (more than `max_bytes`)
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t max_bytes = std::size_t{256} << 20);

/// Replaces the file as one step: temporary name in the same folder, fsync, rename, fsync of the
/// folder. After a crash the old or the new content is there, never a mixture.
/// @throws Error io, naming path and cause; the temporary file is removed
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Creates the folder and its parents. @throws Error io
void make_folder(const std::filesystem::path& path);

/// A file that grows line by line; every line is on disk before `append` returns.
class AppendFile {
  public:
    /// Opens for appending and takes an exclusive lock; creates the file when missing. Cuts off a
    /// last line that has no newline (the rest of an interrupted write).
    /// @throws Error io; also when another process holds the lock
    explicit AppendFile(const std::filesystem::path& path);
    ~AppendFile();
    AppendFile(AppendFile&&) noexcept;
    AppendFile& operator=(AppendFile&&) noexcept;

    /// Writes `line` and a newline and syncs. `line` must not hold a newline. A write that fails
    /// part way (full disk) is taken back, so that the file stays well-formed.
    /// @throws Error io
    void append(std::string_view line);

    /// Whether opening cut off a torn last line.
    [[nodiscard]] bool was_torn() const noexcept { return was_torn_; }

  private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    bool was_torn_ = false;
};

/// A new empty folder under the system's temporary folder, removed with all it holds.
class TemporaryFolder {
  public:
    /// @throws Error io
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace kernelforge
