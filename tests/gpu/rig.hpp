// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "kernelforge/evaluator.hpp"
#include "kernelforge/registry.hpp"
#include "support/catch.hpp"

namespace kernelforge::test {

/// Compiler and evaluator on the first device, shared by the cases of a process.
class Rig {
  public:
    /// `options` of the evaluator.
    explicit Rig(const std::string& options = "{}");

    [[nodiscard]] const DeviceInfo& device() const { return device_; }
    [[nodiscard]] Evaluator& evaluator() const { return *evaluator_; }

    struct Run {
        std::string source;
        std::string opponent = {};  ///< source; empty: none
        EvaluationDepth depth = EvaluationDepth::screen;
        std::chrono::milliseconds time_limit{20'000};
    };
    /// Builds and evaluates on all workloads of the task. A candidate that cannot be built gives an
    /// evaluation with that status.
    [[nodiscard]] Evaluation run(const std::shared_ptr<const Task>& task, const Run& run) const;
    /// The request of `run`, for other uses.
    [[nodiscard]] EvaluationRequest request(const std::shared_ptr<const Task>& task,
                                            const Run& run) const;
    [[nodiscard]] CompiledCandidate build(const Task& task, const std::string& source) const;

  private:
    std::unique_ptr<Registry> registry_;
    std::unique_ptr<Compiler> compiler_;
    std::unique_ptr<Evaluator> evaluator_;
    DeviceInfo device_;
};

/// Null where there is no GPU; then no case runs (main.cpp).
[[nodiscard]] Rig* rig();

/// y = 2 x + w over N float32 elements, for each of the sizes.
[[nodiscard]] std::shared_ptr<Task> scale_task(std::vector<std::int64_t> sizes);

/// What `scale_task` wants, with one thread an element.
extern const char* const right_scale;

}  // namespace kernelforge::test
