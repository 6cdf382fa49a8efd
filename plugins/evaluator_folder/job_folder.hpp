// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "evaluator_folder/job.hpp"
#include "kernelforge/evaluator.hpp"

namespace kernelforge::folder {

/// The files of one job folder. Every file is written as one step; what is there is never changed,
/// except devices.json. Any thread.
class JobFolder {
  public:
    explicit JobFolder(std::filesystem::path path) : path_(std::move(path)) {}

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path claims() const { return path_ / "claims"; }

    /// Makes what is missing of the layout. @throws Error io, parse, unsupported (another version)
    void create();
    /// Checks folder.json, when there is one. @throws Error parse, unsupported
    void check() const;

    /// What a worker wrote about its machine; nothing before the first visit.
    /// @throws Error parse, unsupported, io
    [[nodiscard]] std::optional<std::vector<DeviceInfo>> devices() const;
    void write_devices(const std::vector<DeviceInfo>& devices) const;

    /// Writes the job and its parts unless they are there; a part that was damaged is replaced.
    /// @throws Error io
    void write_job(const EncodedJob& job);
    /// Ids of the jobs that have no result, oldest first (by the file's time, then by id).
    /// @throws Error io
    [[nodiscard]] std::vector<std::string> open_jobs() const;
    /// @throws Error parse, unsupported; not_found when a part is missing or damaged
    [[nodiscard]] Job read_job(const std::string& id, const std::vector<DeviceInfo>& devices) const;

    [[nodiscard]] std::filesystem::path result_file(const std::string& id) const {
        return path_ / "results" / (id + ".json");
    }
    [[nodiscard]] bool has_result(const std::string& id) const;
    /// @throws Error parse, unsupported, io
    [[nodiscard]] std::optional<Result> read_result(const std::string& id) const;
    /// @throws Error io
    void write_result(const std::string& id, const Result& result) const;

  private:
    [[nodiscard]] std::string read_blob(const std::string& sha256) const;
    void write_blob(const std::string& sha256, const std::string& bytes);

    std::filesystem::path path_;
    std::mutex mutex_;                  ///< guards good_blobs_
    std::set<std::string> good_blobs_;  ///< seen with the right content by this object
};

}  // namespace kernelforge::folder
