// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernelforge/evaluator.hpp"

// The texts of a job folder (docs/folder_evaluator.md). Pure: no file is touched here.

namespace kernelforge::folder {

/// Of job and result files, of devices.json and of folder.json.
inline constexpr int format_version = 1;

/// What of a build a device can use; the rest is neither stored nor read. Does not change a job's
/// id.
struct Artifacts {
    bool cubin = true;
    bool ptx = true;
};

/// Of the device with that index; everything when there is none.
[[nodiscard]] Artifacts artifacts_of(const std::vector<DeviceInfo>& devices, int device);

/// A job as it is written.
struct EncodedJob {
    std::string id;    ///< SHA-256 of what defines the work
    std::string text;  ///< of jobs/ID.json
    /// Shared parts by their SHA-256: the task, compiled candidates, cubins, PTX.
    std::map<std::string, std::string> blobs;
};

/// The caller's `id`, compile times, logs and the place of the task folder do not change the job's
/// id.
/// @throws Error invalid_argument (no task)
[[nodiscard]] EncodedJob encode_job(const EvaluationRequest& request, Artifacts artifacts);
[[nodiscard]] EncodedJob encode_job(const CollectRequest& request, Artifacts artifacts);

/// Gives the bytes of a blob. @throws Error not_found
using BlobSource = std::function<std::string(const std::string& sha256)>;

/// The request of a job, with the job's id as its id.
using Job = std::variant<EvaluationRequest, CollectRequest>;

/// Reads a job for an evaluator with these devices. `file` is its name in messages, `id` what its
/// name promises.
/// @throws Error parse (position), unsupported (another format version), and what `blobs` throws
[[nodiscard]] Job decode_job(std::string text, const std::string& file, const std::string& id,
                             const BlobSource& blobs, const std::vector<DeviceInfo>& devices);

/// The answer to a job. `std::string`: why it could not be done, one sentence.
using Result = std::variant<Evaluation, ProfileData, std::string>;

[[nodiscard]] std::string encode_result(const std::string& id, const Result& result);

/// @throws Error parse (position; also when it answers another job), unsupported (another version)
[[nodiscard]] Result decode_result(std::string text, const std::string& file,
                                   const std::string& id);

/// Whether `text` is 64 lower-case hexadecimal digits.
[[nodiscard]] bool is_sha256(std::string_view text);

}  // namespace kernelforge::folder
