// SPDX-License-Identifier: Apache-2.0
#include "roofs_file.hpp"

#include <time.h>

#include <filesystem>
#include <system_error>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cuda {
namespace {

/// The uuid comes from a driver, but a file name must stay one.
std::string file_name_part(const std::string& text) {
    std::string result;
    for (const char c : text) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        result += plain || c == '-' ? c : '_';
    }
    return result;
}

std::string utc_now() {
    const std::time_t now = ::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[32] = {};
    const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return {text, size};
}

}  // namespace

std::string roofs_path(const std::string& cache_folder, const DeviceInfo& device) {
    if (cache_folder.empty() || device.uuid.empty()) return {};
    return (std::filesystem::path(cache_folder) / "roofs" /
            (file_name_part(device.uuid) + "+" + std::to_string(device.driver_version) + ".json"))
        .string();
}

std::optional<Roofs> read_roofs(const std::string& path) {
    // A name that leads nowhere, such as a loop of links, holds no roofs either.
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return std::nullopt;
    const JsonDocument document(read_file(path, 64 * 1024), path);
    const JsonNode root = document.root();
    root.only_members({"version", "device", "uuid", "driver_version", "measured", "roofs"});
    (void)root.at("version").as_integer(1, 1);
    return wire::decode<Roofs>(root.at("roofs"));
}

void write_roofs(const std::string& path, const DeviceInfo& device, const Roofs& roofs) {
    make_folder(std::filesystem::path(path).parent_path());
    const Json json = {{"version", 1},          {"device", device.name},
                       {"uuid", device.uuid},   {"driver_version", device.driver_version},
                       {"measured", utc_now()}, {"roofs", wire::encode(roofs)}};
    write_file_atomically(path, dump_json(json) + "\n");
}

}  // namespace kernelforge::cuda
