// SPDX-License-Identifier: Apache-2.0
// The first line is a job file, each further line a blob, given out in the order in which the
// reader asks. The same text is also read as a result.
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "evaluator_folder/job.hpp"
#include "kernelforge/error.hpp"

namespace {

using namespace kernelforge;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines(1);
    for (const char c : text) {
        if (c == '\n') {
            lines.emplace_back();
        } else {
            lines.back() += c;
        }
    }
    return lines;
}

/// @returns the message of the error, empty when the job was read
std::string read_job(const std::string& text, const std::string& id,
                     const std::vector<std::string>& lines) {
    std::size_t next = 0;
    const auto blobs = [&](const std::string&) {
        if (lines.size() < 2) throw Error(ErrorCode::not_found, "no blob");
        return lines[1 + next++ % (lines.size() - 1)];
    };
    try {
        (void)folder::decode_job(text, "job", id, blobs, {});
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string input(reinterpret_cast<const char*>(data), size);
    const std::vector<std::string> lines = lines_of(input);
    const std::string any_id(64, '0');
    try {
        (void)folder::decode_result(lines[0], "result", any_id);
    } catch (const Error&) {
    }
    // No mutation finds a hash, so the reader's own complaint gives the id with which to get
    // further.
    Json job = Json::parse(lines[0], nullptr, false);
    if (!job.is_object()) return 0;
    job["id"] = any_id;
    const std::string message =
        read_job(job.dump(-1, ' ', false, Json::error_handler_t::replace), any_id, lines);
    const std::string_view marker = "its hash is ";
    const std::size_t at = message.find(marker);
    if (at == std::string::npos) return 0;
    const std::string id = message.substr(at + marker.size(), 64);
    job["id"] = id;
    (void)read_job(job.dump(-1, ' ', false, Json::error_handler_t::replace), id, lines);
    return 0;
}
