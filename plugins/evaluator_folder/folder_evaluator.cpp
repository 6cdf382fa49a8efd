// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/folder_evaluator.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/json_text.hpp"
#include "evaluator_folder/check_result.hpp"
#include "evaluator_folder/device_text.hpp"

namespace kernelforge::folder {
namespace {

using Clock = std::chrono::steady_clock;

/// The folder may be mounted from elsewhere, so it is not asked more often than this.
constexpr std::chrono::milliseconds poll_interval{200};
constexpr double longest_wait_s = 30.0 * 24 * 3600;

}  // namespace

FolderOptions parse_options(std::string_view json) {
    const JsonDocument document(std::string(json), "options of evaluator folder");
    const JsonNode root = document.root();
    root.only_members({"folder", "wait_seconds", "device"});
    FolderOptions options;
    options.folder = root.at("folder").as_string();
    if (options.folder.empty()) root.at("folder").expected("a path");
    const double wait_s = root.number_or("wait_seconds", 0.0);
    if (wait_s < 0 || wait_s > longest_wait_s) {
        root.at("wait_seconds").expected("seconds from 0 to 2592000");
    }
    options.wait = std::chrono::duration<double>(wait_s);
    if (const auto device = root.find("device")) options.device = read_assumed_device(*device);
    return options;
}

FolderEvaluator::FolderEvaluator(FolderOptions options)
    : options_(std::move(options)), folder_(options_.folder) {
    folder_.check();
}

std::vector<DeviceInfo> FolderEvaluator::devices() {
    if (auto devices = folder_.devices()) return *devices;
    if (options_.device) return {*options_.device};
    const std::string folder = folder_.path().string();
    throw Error(ErrorCode::not_found,
                "job folder " + folder +
                    ": no devices.json, because no worker has visited yet: run `kernelforge worker "
                    "--folder " +
                    folder +
                    "` where the GPU is, or give the option \"device\" with the device to assume");
}

/// What the device that will do the job cannot use is not stored.
Artifacts FolderEvaluator::artifacts(int device) const {
    if (const auto devices = folder_.devices()) return artifacts_of(*devices, device);
    if (options_.device) return artifacts_of({*options_.device}, device);
    return {};
}

/// The result, when it is there or comes while we wait; otherwise the job is in the folder.
std::optional<Result> FolderEvaluator::ask(const EncodedJob& job, const std::stop_token& stop) {
    if (auto result = folder_.read_result(job.id)) return result;
    folder_.create();
    folder_.write_job(job);
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.wait);
    std::mutex mutex;
    std::condition_variable_any never;
    while (!stop.stop_requested()) {
        if (auto result = folder_.read_result(job.id)) return result;
        const auto left = deadline - Clock::now();
        if (left <= Clock::duration{0}) break;
        std::unique_lock lock(mutex);
        never.wait_for(lock, stop, std::min<Clock::duration>(left, poll_interval),
                       [] { return false; });
    }
    return std::nullopt;
}

std::string FolderEvaluator::queued(const EncodedJob& job) const {
    const std::string folder = folder_.path().string();
    return "queued as job " + job.id.substr(0, 12) + " in " + folder +
           ", ask again after `kernelforge worker --folder " + folder + "` has run";
}

Evaluation FolderEvaluator::evaluate(const EvaluationRequest& request, std::stop_token stop) {
    const EncodedJob job = encode_job(request, artifacts(request.device));
    const auto result = ask(job, stop);
    Evaluation evaluation;
    if (!result) {
        const bool stopped = stop.stop_requested();
        evaluation.status = stopped ? EvaluationStatus::cancelled : EvaluationStatus::pending;
        evaluation.message = stopped ? "stopped while waiting for a result" : queued(job);
    } else if (const auto* found = std::get_if<Evaluation>(&*result)) {
        evaluation = *found;
        check_result(evaluation, request, folder_.result_file(job.id).string());
    } else if (const auto* failure = std::get_if<std::string>(&*result)) {
        evaluation.message = *failure;  // the default status is evaluator_failed
    } else {
        throw Error(ErrorCode::parse,
                    "results/" + job.id + ".json: expected an evaluation, found a profile");
    }
    evaluation.id = request.id;
    if (evaluation.evaluator.empty()) evaluation.evaluator = "folder";
    return evaluation;
}

ProfileData FolderEvaluator::collect(const CollectRequest& request, std::stop_token stop) {
    const EncodedJob job = encode_job(request, artifacts(request.device));
    const auto result = ask(job, stop);
    if (!result) {
        ProfileData data;
        data.missing.push_back({.what = "profile", .why = queued(job)});
        return data;
    }
    if (const auto* found = std::get_if<ProfileData>(&*result)) return *found;
    if (const auto* failure = std::get_if<std::string>(&*result)) {
        throw Error(ErrorCode::worker_failed, *failure);
    }
    throw Error(ErrorCode::parse,
                "results/" + job.id + ".json: expected a profile, found an evaluation");
}

}  // namespace kernelforge::folder
