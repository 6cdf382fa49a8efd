// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "evaluator_folder/job_folder.hpp"
#include "kernelforge/evaluator.hpp"

namespace kernelforge::folder {

struct FolderOptions {
    std::string folder;                     ///< of jobs and results; created when missing
    std::chrono::duration<double> wait{0};  ///< how long `evaluate` and `collect` wait for a result
    std::optional<DeviceInfo> device;       ///< assumed until a worker has visited
};

/// Options as JSON text: docs/folder_evaluator.md. @throws Error parse, invalid_argument
[[nodiscard]] FolderOptions parse_options(std::string_view json);

/// An evaluator whose jobs are done by whoever serves the folder. Any thread may call it.
class FolderEvaluator final : public Evaluator {
  public:
    explicit FolderEvaluator(FolderOptions options);

    /// @throws Error not_found while no worker has visited and no device is assumed
    [[nodiscard]] std::vector<DeviceInfo> devices() override;
    /// `pending` while there is no result. @throws Error io, parse and unsupported (a result that
    /// is damaged, of another version, or cannot be the answer to this request)
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request,
                                      std::stop_token stop) override;
    /// While there is no result: one missing datum "profile", "queued; ask again …".
    /// @throws Error as `evaluate`; worker_failed when the worker could not do it
    [[nodiscard]] ProfileData collect(const CollectRequest& request, std::stop_token stop) override;

  private:
    [[nodiscard]] Artifacts artifacts(int device) const;
    [[nodiscard]] std::optional<Result> ask(const EncodedJob& job, const std::stop_token& stop);
    [[nodiscard]] std::string queued(const EncodedJob& job) const;

    FolderOptions options_;
    JobFolder folder_;
};

}  // namespace kernelforge::folder
