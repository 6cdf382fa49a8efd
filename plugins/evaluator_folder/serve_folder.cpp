// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/serve_folder.hpp"

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "evaluator_folder/claims.hpp"
#include "evaluator_folder/job_folder.hpp"

namespace kernelforge {
namespace {

using folder::Claims;
using folder::Job;
using folder::JobFolder;
using folder::Result;

/// A job that ended its worker so often is not tried again.
constexpr int max_attempts = 3;

std::string short_id(const std::string& id) {
    return "job " + id.substr(0, 12);
}

/// Gives the claim up when it goes out of scope.
class HeldClaim {
  public:
    HeldClaim(const Claims& claims, const std::string& id) : claims_(claims), id_(id) {}
    ~HeldClaim() { claims_.release(id_); }
    HeldClaim(const HeldClaim&) = delete;
    HeldClaim& operator=(const HeldClaim&) = delete;

  private:
    const Claims& claims_;
    const std::string& id_;
};

std::string describe(const Result& result) {
    if (const auto* evaluation = std::get_if<Evaluation>(&result)) {
        std::string text(to_string(evaluation->status));
        if (!evaluation->message.empty()) text += ": " + evaluation->message;
        return text;
    }
    if (const auto* profile = std::get_if<ProfileData>(&result)) {
        return "profiled " + std::to_string(profile->launches.size()) + " launches, " +
               std::to_string(profile->missing.size()) + " data missing";
    }
    return "failed: " + std::get<std::string>(result);
}

std::string seconds_since(std::chrono::steady_clock::time_point start) {
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    char text[32];
    std::snprintf(text, sizeof text, "%.2f s", time.count());
    return text;
}

/// One visit.
class Visit {
  public:
    Visit(Evaluator& evaluator, const std::string& path, const ServeOptions& options,
          std::stop_token stop)
        : evaluator_(evaluator),
          folder_(path),
          options_(options),
          stop_(std::move(stop)),
          claims_(prepare(folder_)) {}

    ServeSummary run() {
        write_devices();
        std::mutex mutex;
        std::condition_variable_any never;
        while (!finished()) {
            if (pass() || finished()) continue;
            if (!options_.watch) break;
            std::unique_lock lock(mutex);
            never.wait_for(lock, stop_, options_.poll_interval, [] { return false; });
        }
        for (const std::string& id : skipped_) summary_.skipped += folder_.has_result(id) ? 0 : 1;
        return summary_;
    }

  private:
    /// Makes the layout. @returns the folder of claims
    static std::filesystem::path prepare(JobFolder& folder) {
        if (!std::filesystem::is_directory(folder.path())) {
            throw Error(ErrorCode::not_found,
                        "job folder " + folder.path().string() + ": expected a folder, found none");
        }
        folder.create();
        return folder.claims();
    }

    void line(const std::string& text) const {
        if (options_.on_line) options_.on_line(text);
    }

    void write_devices() {
        devices_ = evaluator_.devices();
        if (devices_.empty()) {
            throw Error(ErrorCode::device_unavailable,
                        "no usable GPU here: the worker of job folder " + folder_.path().string() +
                            " needs one; kernelforge doctor says more");
        }
        folder_.write_devices(devices_);
        for (const DeviceInfo& device : devices_) {
            line("device " + std::to_string(device.index) + ": " + device.name);
        }
    }

    [[nodiscard]] bool finished() const {
        return stop_.stop_requested() ||
               (options_.max_jobs != 0 &&
                summary_.evaluated + summary_.failed >= options_.max_jobs);
    }

    /// Goes through the open jobs once. @returns whether any was done
    bool pass() {
        bool any = false;
        for (const std::string& id : folder_.open_jobs()) {
            if (finished()) break;
            any = take(id) || any;
        }
        return any;
    }

    /// Says once why a job is left.
    void skip(const std::string& id, const std::string& why) {
        if (skipped_.insert(id).second) line(short_id(id) + " is left: " + why);
    }

    /// @returns whether the job has a result now that is ours
    bool take(const std::string& id) {
        const Claims::Attempt attempt = claims_.take(id);
        if (!attempt.taken) {
            std::string why = attempt.holder + " works on it";
            if (attempt.elsewhere) why += "; delete claims/" + id + " when that worker is gone";
            skip(id, why);
            return false;
        }
        const HeldClaim claim(claims_, id);
        if (folder_.has_result(id)) return false;  // came in since the folder was listed
        const auto start = std::chrono::steady_clock::now();
        const std::optional<Result> result = work(id, attempt.attempt);
        if (!result) return false;
        folder_.write_result(id, *result);
        skipped_.erase(id);
        ++(std::holds_alternative<std::string>(*result) ? summary_.failed : summary_.evaluated);
        line(short_id(id) + " " + describe(*result) + " (" + seconds_since(start) + ")");
        return true;
    }

    /// The result, or nothing when the job stays open.
    std::optional<Result> work(const std::string& id, int attempt) {
        if (attempt > max_attempts) {
            return "its worker ended " + std::to_string(attempt - 1) +
                   " times while it did this job, it is not tried again";
        }
        std::optional<Job> job;
        try {
            job = folder_.read_job(id, devices_);
        } catch (const Error& error) {
            // A file that is missing or cannot be read may be repaired; the others can be done.
            const bool repairable =
                error.code() == ErrorCode::not_found || error.code() == ErrorCode::io;
            if (!repairable) return std::string(error.what());
            skip(id, error.what());
            return std::nullopt;
        }
        try {
            return perform(*job);
        } catch (const Error& error) {
            if (stop_.stop_requested() || error.code() == ErrorCode::cancelled) return std::nullopt;
            // Without a device every further job would fail the same way.
            if (error.code() == ErrorCode::device_unavailable) throw;
            return std::string(error.what());
        } catch (const std::exception& error) {
            return "the evaluator failed: " + std::string(error.what());
        }
    }

    std::optional<Result> perform(const Job& job) {
        if (const auto* request = std::get_if<CollectRequest>(&job)) {
            ProfileData data = evaluator_.collect(*request, stop_);
            // What a stop cut short is no result.
            if (stop_.stop_requested()) return std::nullopt;
            return data;
        }
        Evaluation evaluation = evaluator_.evaluate(std::get<EvaluationRequest>(job), stop_);
        if (evaluation.status == EvaluationStatus::cancelled ||
            evaluation.status == EvaluationStatus::pending) {
            return std::nullopt;
        }
        return evaluation;
    }

    Evaluator& evaluator_;
    JobFolder folder_;
    const ServeOptions& options_;
    std::stop_token stop_;
    Claims claims_;
    std::vector<DeviceInfo> devices_;
    ServeSummary summary_;
    std::set<std::string> skipped_;
};

}  // namespace

ServeSummary serve_folder(Evaluator& evaluator, const std::string& folder,
                          const ServeOptions& options, std::stop_token stop) {
    return Visit(evaluator, folder, options, std::move(stop)).run();
}

}  // namespace kernelforge
