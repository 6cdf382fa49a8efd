// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/job_folder.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "evaluator_folder/device_text.hpp"
#include "evaluator_folder/format.hpp"
#include "wire/codec.hpp"

namespace kernelforge::folder {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view folder_format = "kernelforge-folder";
constexpr std::string_view devices_format = "kernelforge-devices";
/// A job without its parts is about a kilobyte.
constexpr std::size_t max_job_bytes = std::size_t{4} << 20;
constexpr std::size_t max_file_bytes = std::size_t{256} << 20;

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

/// The id in `ID.json`; nothing for any other name, such as a temporary file.
std::optional<std::string> id_of_file(const fs::path& path) {
    if (path.extension() != ".json" || !is_sha256(path.stem().string())) return std::nullopt;
    return path.stem().string();
}

/// Ids with the time at which their file was written. A folder that is missing is empty.
std::vector<std::pair<fs::file_time_type, std::string>> list(const fs::path& folder) {
    std::vector<std::pair<fs::file_time_type, std::string>> found;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const auto id = id_of_file(it->path());
        if (!id) continue;
        std::error_code gone;
        const auto time = fs::last_write_time(it->path(), gone);
        if (!gone) found.emplace_back(time, *id);
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        throw Error(ErrorCode::io, "cannot list " + folder.string() + ": " + error.message());
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace

Json header(std::string_view format) {
    Json json = Json::object();
    json["format"] = std::string(format);
    json["version"] = format_version;
    return json;
}

void check_header(const JsonNode& root, std::string_view format) {
    const JsonNode found = root.at("format");
    if (found.as_string() != format) found.expected("\"" + std::string(format) + "\"");
    const JsonNode version = root.at("version");
    if (version.as_integer() != format_version) {
        version.fail(ErrorCode::unsupported,
                     "expected format version " + std::to_string(format_version) + ", found " +
                         std::to_string(version.as_integer()) +
                         ": run the same version of kernelforge on both sides of the folder");
    }
}

std::string blob_name(const JsonNode& node) {
    std::string name = node.as_string();
    if (!is_sha256(name)) node.expected("64 lower-case hexadecimal digits");
    return name;
}

void JobFolder::create() {
    make_folder(path_);
    for (const char* const part : {"jobs", "results", "claims", "blobs"}) make_folder(path_ / part);
    if (is_there(path_ / "folder.json")) {
        check();
    } else {
        write_file_atomically(path_ / "folder.json", dump_json(header(folder_format)) + "\n");
    }
}

void JobFolder::check() const {
    const fs::path file = path_ / "folder.json";
    if (!is_there(file)) return;
    const JsonDocument document(read_file(file, max_job_bytes), file.string());
    check_header(document.root(), folder_format);
}

std::optional<std::vector<DeviceInfo>> JobFolder::devices() const {
    const fs::path file = path_ / "devices.json";
    if (!is_there(file)) return std::nullopt;
    const JsonDocument document(read_file(file, max_job_bytes), file.string());
    const JsonNode root = document.root();
    check_header(root, devices_format);
    root.only_members({"format", "version", "devices"});
    const JsonNode list_node = root.at("devices");
    std::vector<DeviceInfo> devices;
    for (std::size_t i = 0; i < list_node.array_size(); ++i) {
        devices.push_back(read_device(list_node.at(i)));
    }
    return devices;
}

void JobFolder::write_devices(const std::vector<DeviceInfo>& devices) const {
    Json json = header(devices_format);
    json["devices"] = Json::array();
    for (const DeviceInfo& device : devices) json["devices"].push_back(wire::encode(device));
    write_file_atomically(path_ / "devices.json", dump_json(json) + "\n");
}

void JobFolder::write_job(const EncodedJob& job) {
    for (const auto& [sha256, bytes] : job.blobs) write_blob(sha256, bytes);
    const fs::path file = path_ / "jobs" / (job.id + ".json");
    if (!is_there(file)) write_file_atomically(file, job.text);
}

void JobFolder::write_blob(const std::string& sha256, const std::string& bytes) {
    {
        const std::lock_guard lock(mutex_);
        if (good_blobs_.contains(sha256)) return;
    }
    const fs::path file = path_ / "blobs" / sha256;
    if (!is_there(file) || read_file(file, max_file_bytes) != bytes) {
        write_file_atomically(file, bytes);
    }
    const std::lock_guard lock(mutex_);
    good_blobs_.insert(sha256);
}

std::string JobFolder::read_blob(const std::string& sha256) const {
    std::string bytes = read_file(path_ / "blobs" / sha256, max_file_bytes);
    if (sha256_hex(bytes) != sha256) {
        throw Error(ErrorCode::not_found,
                    "blobs/" + sha256 + ": damaged, the content does not belong to the name");
    }
    return bytes;
}

std::vector<std::string> JobFolder::open_jobs() const {
    std::set<std::string> done;
    for (auto& [time, id] : list(path_ / "results")) done.insert(std::move(id));
    std::vector<std::string> open;
    for (auto& [time, id] : list(path_ / "jobs")) {
        if (!done.contains(id)) open.push_back(std::move(id));
    }
    return open;
}

Job JobFolder::read_job(const std::string& id, const std::vector<DeviceInfo>& devices) const {
    const std::string name = "jobs/" + id + ".json";
    const BlobSource blobs = [this](const std::string& sha256) { return read_blob(sha256); };
    return decode_job(read_file(path_ / name, max_job_bytes), name, id, blobs, devices);
}

bool JobFolder::has_result(const std::string& id) const {
    return is_there(result_file(id));
}

std::optional<Result> JobFolder::read_result(const std::string& id) const {
    if (!has_result(id)) return std::nullopt;
    const fs::path file = result_file(id);
    return decode_result(read_file(file, max_file_bytes), file.string(), id);
}

void JobFolder::write_result(const std::string& id, const Result& result) const {
    write_file_atomically(result_file(id), encode_result(id, result));
}

}  // namespace kernelforge::folder
