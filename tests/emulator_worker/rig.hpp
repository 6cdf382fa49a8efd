// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/registry.hpp"

namespace kernelforge::test {

/// The first line of a candidate.
inline constexpr const char* head = "//@kernelforge 1\n";
/// A kernel `f(x, w, y, n)` with this body, of 256 threads a block; `i` is a thread's element.
[[nodiscard]] std::string candidate(const std::string& body, const std::string& plan = "");
/// y = 2 x + w, with a workload of each size.
[[nodiscard]] std::shared_ptr<Task> scale_task(const std::vector<std::int64_t>& sizes);
/// A body that is right for it.
inline constexpr const char* right_body = "    if (i < n) y[i] = 2.0f * x[i] + w[i];";

struct Run {
    std::string source;
    EvaluationDepth depth = EvaluationDepth::check;
    std::string opponent = "";
    std::chrono::milliseconds time_limit{60'000};
};
using Judge = std::function<Evaluation(const EvaluationRequest&)>;

/// Makes requests of candidates' texts.
class Requests {
  public:
    Requests();
    ~Requests();
    /// What `judge` says, or the compiler as an evaluation.
    [[nodiscard]] Evaluation judged(const std::shared_ptr<const Task>& task, const Run& run,
                                    const DeviceInfo& device, const Judge& judge);

  private:
    std::unique_ptr<Registry> registry_;
    std::unique_ptr<Compiler> compiler_;
};

/// A worker in the role `emulate`, asked over its channel.
class EmulatorRig {
  public:
    /// `words` follow the role.
    explicit EmulatorRig(const std::vector<std::string>& words = {});
    ~EmulatorRig();

    [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }
    /// The evaluation, or what the compiler said as one.
    [[nodiscard]] Evaluation judge(const std::shared_ptr<const Task>& task, const Run& run);
    [[nodiscard]] Evaluation ask(const EvaluationRequest& request);

  private:
    [[nodiscard]] std::string exchange(const std::string& message);

    Requests requests_;
    std::unique_ptr<Subprocess> worker_;
    DeviceInfo device_;
};

}  // namespace kernelforge::test
