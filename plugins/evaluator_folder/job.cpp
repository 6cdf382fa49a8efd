// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/job.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "evaluator_folder/format.hpp"
#include "kernelforge/version.hpp"
#include "wire/codec.hpp"

namespace kernelforge::folder {
namespace {

constexpr std::string_view job_format = "kernelforge-job";
constexpr std::string_view result_format = "kernelforge-result";

using Blobs = std::map<std::string, std::string>;

std::string add_blob(Blobs& blobs, std::string bytes) {
    std::string name = sha256_hex(bytes);
    blobs.emplace(name, std::move(bytes));
    return name;
}

/// Machine code or PTX: named always, stored if it is wanted. Empty code has an empty name.
std::string add_code(Blobs& blobs, std::string& code, bool wanted) {
    std::string bytes = std::exchange(code, {});
    if (bytes.empty()) return {};
    return wanted ? add_blob(blobs, std::move(bytes)) : sha256_hex(bytes);
}

/// `path` relative to the task folder, so that a task that was moved makes the same jobs.
std::string without_folder(const std::string& path, const std::string& folder) {
    if (folder.empty() || !path.starts_with(folder)) return path;
    return std::filesystem::path(path).lexically_relative(folder).generic_string();
}

std::string add_task(Blobs& blobs, const Task& original) {
    Task task = original;
    task.reference_cuda_path = without_folder(task.reference_cuda_path, task.folder);
    for (BaselineSpec& baseline : task.baselines) {
        baseline.source_path = without_folder(baseline.source_path, task.folder);
    }
    task.folder.clear();
    return add_blob(blobs, dump_json(wire::encode(task)));
}

/// A compiled candidate, with its machine code as blobs of their own and without what differs
/// between two compilations of the same source.
std::string add_candidate(Blobs& blobs, const CompiledCandidate& original, Artifacts artifacts) {
    CompiledCandidate candidate = original;
    Json cubins = Json::array();
    Json ptxs = Json::array();
    for (CompileResult& build : candidate.builds) {
        cubins.push_back(add_code(blobs, build.cubin, artifacts.cubin));
        ptxs.push_back(add_code(blobs, build.ptx, artifacts.ptx));
        build.log.clear();
        build.message.clear();
        build.diagnostics.clear();
        build.time = {};
        build.from_cache = false;
    }
    Json json = Json::object();
    json["compiled"] = wire::encode(candidate);
    json["cubin"] = std::move(cubins);
    json["ptx"] = std::move(ptxs);
    return add_blob(blobs, dump_json(json));
}

/// What defines the work: kind, request and parts.
std::string id_of(std::string_view kind, const Json& request, const Json& parts) {
    Sha256 hash;
    hash.field(job_format);
    hash.field(std::to_string(format_version));
    hash.field(kind);
    hash.field(dump_json(request));
    hash.field(dump_json(parts));
    return hash.hex();
}

/// `request` is without its large parts.
EncodedJob assemble(std::string_view kind, const Json& request, const Json& parts, const Task& task,
                    Blobs blobs) {
    EncodedJob job;
    job.id = id_of(kind, request, parts);
    job.blobs = std::move(blobs);
    Json json = header(job_format);
    json["id"] = job.id;
    json["kind"] = std::string(kind);
    json["request"] = request;
    json["parts"] = parts;
    json["task_folder"] = task.folder;
    job.text = dump_json(json) + "\n";
    return job;
}

template <class Request>
void require_task(const Request& request) {
    if (!request.task) {
        throw Error(ErrorCode::invalid_argument,
                    "evaluator folder, request " + request.id + ": expected a task, found none");
    }
}

/// One blob as a document that names it in messages.
JsonDocument open_part(const JsonNode& name, const BlobSource& blobs) {
    const std::string sha256 = blob_name(name);
    return {blobs(sha256), "blobs/" + sha256};
}

std::shared_ptr<const Task> read_task(const JsonNode& name, const std::string& folder,
                                      const BlobSource& blobs) {
    const JsonDocument document = open_part(name, blobs);
    Task task = wire::decode<Task>(document.root());
    task.folder = folder;
    return std::make_shared<const Task>(std::move(task));
}

/// Fills in one kind of code of every build from an array of blob names; an empty name is nothing.
void read_code(const JsonNode& names, std::vector<CompileResult>& builds,
               std::string CompileResult::*code, const BlobSource& blobs) {
    if (names.array_size() != builds.size()) {
        names.expected("one element for each of " + std::to_string(builds.size()) + " builds");
    }
    for (std::size_t i = 0; i < builds.size(); ++i) {
        const JsonNode name = names.at(i);
        if (!name.as_string().empty()) builds[i].*code = blobs(blob_name(name));
    }
}

CompiledCandidate read_candidate(const JsonNode& name, const BlobSource& blobs,
                                 Artifacts artifacts) {
    const JsonDocument document = open_part(name, blobs);
    const JsonNode root = document.root();
    root.only_members({"compiled", "cubin", "ptx"});
    auto candidate = wire::decode<CompiledCandidate>(root.at("compiled"));
    if (artifacts.cubin) {
        read_code(root.at("cubin"), candidate.builds, &CompileResult::cubin, blobs);
    }
    if (artifacts.ptx) read_code(root.at("ptx"), candidate.builds, &CompileResult::ptx, blobs);
    return candidate;
}

EvaluationRequest read_evaluation(const JsonNode& root, const BlobSource& blobs,
                                  const std::vector<DeviceInfo>& devices) {
    const JsonNode parts = root.at("parts");
    parts.only_members({"task", "candidate", "reference", "opponent"});
    auto request = wire::decode<EvaluationRequest>(root.at("request"));
    const Artifacts artifacts = artifacts_of(devices, request.device);
    request.task = read_task(parts.at("task"), root.at("task_folder").as_string(), blobs);
    request.candidate = read_candidate(parts.at("candidate"), blobs, artifacts);
    request.reference = read_candidate(parts.at("reference"), blobs, artifacts);
    request.opponent.reset();
    if (const auto opponent = parts.find("opponent")) {
        request.opponent = read_candidate(*opponent, blobs, artifacts);
    }
    return request;
}

CollectRequest read_collection(const JsonNode& root, const BlobSource& blobs,
                               const std::vector<DeviceInfo>& devices) {
    const JsonNode parts = root.at("parts");
    parts.only_members({"task", "candidate"});
    auto request = wire::decode<CollectRequest>(root.at("request"));
    request.task = read_task(parts.at("task"), root.at("task_folder").as_string(), blobs);
    request.candidate =
        read_candidate(parts.at("candidate"), blobs, artifacts_of(devices, request.device));
    return request;
}

void check_id(const JsonNode& root, const std::string& kind, const std::string& id) {
    const JsonNode stated = root.at("id");
    if (stated.as_string() != id) {
        stated.fail(ErrorCode::parse, "expected the id of the file's name, " + id + ", found " +
                                          stated.as_string().substr(0, 80));
    }
    const std::string computed = id_of(kind, root.at("request").json(), root.at("parts").json());
    if (computed != id) {
        stated.fail(ErrorCode::parse,
                    "the content does not belong to this id, its hash is " + computed);
    }
}

}  // namespace

bool is_sha256(std::string_view text) {
    return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

Artifacts artifacts_of(const std::vector<DeviceInfo>& devices, int device) {
    for (const DeviceInfo& info : devices) {
        if (info.index == device) return {.cubin = info.wants_cubin, .ptx = info.wants_ptx};
    }
    return {};
}

EncodedJob encode_job(const EvaluationRequest& request, Artifacts artifacts) {
    require_task(request);
    EvaluationRequest small;
    small.task = std::make_shared<const Task>();
    small.workloads = request.workloads;
    small.hidden = request.hidden;
    small.fresh_worker = request.fresh_worker;
    small.command = request.command;
    if (small.command) {
        small.command->source_path =
            without_folder(small.command->source_path, request.task->folder);
    }
    small.depth = request.depth;
    small.seed = request.seed;
    small.device = request.device;
    small.time_limit = request.time_limit;
    Blobs blobs;
    Json parts = Json::object();
    parts["task"] = add_task(blobs, *request.task);
    parts["candidate"] = add_candidate(blobs, request.candidate, artifacts);
    parts["reference"] = add_candidate(blobs, request.reference, artifacts);
    if (request.opponent) parts["opponent"] = add_candidate(blobs, *request.opponent, artifacts);
    return assemble("evaluate", wire::encode(small), parts, *request.task, std::move(blobs));
}

EncodedJob encode_job(const CollectRequest& request, Artifacts artifacts) {
    require_task(request);
    CollectRequest small;
    small.task = std::make_shared<const Task>();
    small.workloads = request.workloads;
    small.data = request.data;
    small.device = request.device;
    small.time_limit = request.time_limit;
    Blobs blobs;
    Json parts = Json::object();
    parts["task"] = add_task(blobs, *request.task);
    parts["candidate"] = add_candidate(blobs, request.candidate, artifacts);
    return assemble("collect", wire::encode(small), parts, *request.task, std::move(blobs));
}

Job decode_job(std::string text, const std::string& file, const std::string& id,
               const BlobSource& blobs, const std::vector<DeviceInfo>& devices) {
    const JsonDocument document(std::move(text), file);
    const JsonNode root = document.root();
    check_header(root, job_format);
    root.only_members({"format", "version", "id", "kind", "request", "parts", "task_folder"});
    const std::string kind = root.at("kind").as_string();
    if (kind != "evaluate" && kind != "collect") {
        root.at("kind").expected("\"evaluate\" or \"collect\"");
    }
    check_id(root, kind, id);
    if (kind == "evaluate") {
        EvaluationRequest request = read_evaluation(root, blobs, devices);
        request.id = id;
        return request;
    }
    CollectRequest request = read_collection(root, blobs, devices);
    request.id = id;
    return request;
}

std::string encode_result(const std::string& id, const Result& result) {
    Json json = header(result_format);
    json["job"] = id;
    json["written_by"] = KERNELFORGE_VERSION;
    if (const auto* evaluation = std::get_if<Evaluation>(&result)) {
        json["evaluation"] = wire::encode(*evaluation);
    } else if (const auto* profile = std::get_if<ProfileData>(&result)) {
        json["profile"] = wire::encode(*profile);
    } else {
        json["failure"] = std::get<std::string>(result);
    }
    return dump_json(json) + "\n";
}

Result decode_result(std::string text, const std::string& file, const std::string& id) {
    const JsonDocument document(std::move(text), file);
    const JsonNode root = document.root();
    check_header(root, result_format);
    root.only_members(
        {"format", "version", "job", "written_by", "evaluation", "profile", "failure"});
    const JsonNode job = root.at("job");
    if (job.as_string() != id) {
        job.fail(ErrorCode::parse, "expected the result of job " + id + ", found one of job " +
                                       job.as_string().substr(0, 80));
    }
    if (const auto evaluation = root.find("evaluation"))
        return wire::decode<Evaluation>(*evaluation);
    if (const auto profile = root.find("profile")) return wire::decode<ProfileData>(*profile);
    return root.at("failure").as_string();
}

}  // namespace kernelforge::folder
