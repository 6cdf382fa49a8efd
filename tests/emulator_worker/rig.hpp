// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.hpp"
#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/registry.hpp"

namespace kernelforge::test {

/// A compiler and a worker in the role `emulate`, asked over its channel.
class EmulatorRig {
  public:
    /// `words` follow the role.
    explicit EmulatorRig(const std::vector<std::string>& words = {});
    ~EmulatorRig();

    [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }
    struct Run {
        std::string source;
        EvaluationDepth depth = EvaluationDepth::check;
        std::string opponent = "";
        std::chrono::milliseconds time_limit{60'000};
    };
    /// The evaluation, or what the compiler said as one.
    [[nodiscard]] Evaluation judge(const std::shared_ptr<const Task>& task, const Run& run);
    [[nodiscard]] Evaluation ask(const EvaluationRequest& request);

  private:
    [[nodiscard]] std::string exchange(const std::string& message);

    std::unique_ptr<Registry> registry_;
    std::unique_ptr<Compiler> compiler_;
    std::unique_ptr<Subprocess> worker_;
    DeviceInfo device_;
};

}  // namespace kernelforge::test
