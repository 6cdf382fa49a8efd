// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluator_worker/device_workers.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/plugin.hpp"

namespace kernelforge::emulator_host {

struct EmulatorOptions {
    std::string worker;  ///< the worker program; empty: the host's, or the one beside this program
    std::vector<std::string> worker_arguments;  ///< appended to `kernelforge-worker --role emulate`
    int threads = 0;                            ///< of the worker; 0: one a processor
    bool check = true;                          ///< look for faults that hardware hides
    /// Writable memory of the worker. Half of it is the device's memory; the checker's shadow, up
    /// to four times what a candidate touches, and the program itself have the rest.
    std::uint64_t memory_limit_bytes = std::uint64_t{8} << 30U;
    /// Of one evaluation, where the request allows more. Absent: the request's.
    std::optional<std::chrono::milliseconds> time_limit;
    /// Beyond a request's own limit, for a worker that answers at its limit. Not in the JSON form.
    std::chrono::milliseconds margin{10'000};
};

/// Options as JSON text: `worker`, `worker_arguments`, `threads` (0 to 256), `check`,
/// `memory_limit_mib` (at least 256), `time_limit_s`, `plugins` (paths of plugins with
/// comparators); all may be absent. @throws Error parse
[[nodiscard]] EmulatorOptions parse_options(std::string_view json);

/// Executes candidates on the CPU in a `kernelforge-worker --role emulate` child, started when it
/// is first needed and again after it died. Times are modelled and say so. Any thread may call;
/// calls wait for each other.
class EmulatorEvaluator final : public Evaluator {
  public:
    EmulatorEvaluator(EmulatorOptions options, PluginContext context);
    ~EmulatorEvaluator() override;

    /// The emulated device: `emulated`, without roofs. [any]
    [[nodiscard]] std::vector<DeviceInfo> devices() override;
    /// Depth sanitize is depth check under the emulator's own checker, whose word is in
    /// `Evaluation::sanitizer`. A command brings a process of its own, whose times would be
    /// measured ones: it is rejected by rule
    /// "not_emulated".
    [[nodiscard]] Evaluation evaluate(const EvaluationRequest& request,
                                      std::stop_token stop) override;
    [[nodiscard]] ProfileData collect(const CollectRequest& request, std::stop_token stop) override;

  private:
    [[nodiscard]] Evaluation sanitize(EvaluationRequest request, const std::stop_token& stop);

    EmulatorOptions options_;
    worker_host::DeviceWorkers workers_;
    std::mutex devices_mutex_;  // guards known_devices_
    std::optional<std::vector<DeviceInfo>> known_devices_;
};

}  // namespace kernelforge::emulator_host
