// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluator_worker/device_workers.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/plugin.hpp"

namespace kernelforge::cuda {

struct CudaOptions {
    std::optional<std::vector<int>> devices;    ///< only these; absent: all there are
    std::vector<std::string> worker_arguments;  ///< appended to `kernelforge-worker --role measure`
    bool remeasure_roofs = false;               ///< once, instead of taking kept ones
    /// The `compute-sanitizer` program. Empty: the one of the toolkit that this was built with, or
    /// of /usr/local/cuda; where there is none, depth sanitize says so.
    std::string compute_sanitizer;
    /// Beyond a request's own limit, for a worker that answers at its limit. Not in the JSON form.
    std::chrono::milliseconds margin{10'000};
    /// For each tool of compute-sanitizer, from its start to its end. Not in the JSON form.
    std::chrono::milliseconds sanitizer_limit{60'000};
};

/// Options as JSON text: `devices`, `worker_arguments`, `remeasure_roofs`, `plugins` (paths of
/// plugins with comparators), `library_folders` (where to look for cuBLASLt and cuDNN first; both
/// become worker arguments), `compute_sanitizer`; all may be absent.
/// @throws Error parse
[[nodiscard]] CudaOptions parse_options(std::string_view json);

/// Runs candidates in a `kernelforge-worker --role measure` child for each device, started when it
/// is first needed. No CUDA call is made in this process. Any thread may call; calls for one device
/// wait for each other.
class CudaEvaluator final : public Evaluator {
  public:
    CudaEvaluator(CudaOptions options, PluginContext context);
    ~CudaEvaluator() override;

    /// The devices that the worker sees and the options allow, with roofs (measured now when there
    /// are none kept). Empty without a driver. [any]
    [[nodiscard]] std::vector<DeviceInfo> devices() override;
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request,
                                      std::stop_token stop) override;
    [[nodiscard]] ProfileData collect(const CollectRequest& request, std::stop_token stop) override;

  private:
    [[nodiscard]] Evaluation sanitize(const EvaluationRequest& request,
                                      const std::stop_token& stop) const;
    [[nodiscard]] std::vector<DeviceInfo> list();
    void add_roofs(DeviceInfo& device);
    [[nodiscard]] std::optional<Roofs> measured_roofs(int device);

    CudaOptions options_;
    PluginContext context_;
    worker_host::DeviceWorkers workers_;
    std::mutex devices_mutex_;  // guards known_devices_
    std::optional<std::vector<DeviceInfo>> known_devices_;
};

}  // namespace kernelforge::cuda
