// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/compiler.hpp"
#include "kernelforge/definition.hpp"
#include "kernelforge/evaluator.hpp"
#include "kernelforge/profile_data.hpp"

namespace kernelforge {

/// Which resource a launch waits for.
enum class BottleneckKind { memory, compute, latency, balanced, launch, unknown };

[[nodiscard]] constexpr std::string_view to_string(BottleneckKind kind) noexcept {
    switch (kind) {
        case BottleneckKind::memory:
            return "memory";
        case BottleneckKind::compute:
            return "compute";
        case BottleneckKind::latency:
            return "latency";
        case BottleneckKind::balanced:
            return "balanced";
        case BottleneckKind::launch:
            return "launch";
        case BottleneckKind::unknown:
            return "unknown";
    }
    return "unknown";
}

/// Position of one workload under the measured roofs.
struct Bottleneck {
    LaunchKey key;
    BottleneckKind kind = BottleneckKind::unknown;
    double memory_fraction = 0.0;   ///< compulsory bytes / time / memory roof, 0 to 1
    double compute_fraction = 0.0;  ///< operations / time / matching compute roof, 0 to 1
    double bound_s = 0.0;           ///< T_SOL; 0 when unknown
    double headroom = 0.0;          ///< time / bound; 0 when unknown
    std::string sentence;           ///< what is said to a person or a model
};

enum class Severity { info, advice, critical };

[[nodiscard]] constexpr std::string_view to_string(Severity severity) noexcept {
    switch (severity) {
        case Severity::info:
            return "info";
        case Severity::advice:
            return "advice";
        case Severity::critical:
            return "critical";
    }
    return "unknown";
}

/// A metric that should move if the advice is right.
struct ExpectedChange {
    enum class Direction { down, up };
    std::string metric;
    Direction direction = Direction::down;
    std::optional<double> factor;  ///< new over old
};

/// One concrete edit.
struct Action {
    std::string edit;     ///< one sentence in the imperative
    std::string example;  ///< a few lines of code, may be empty
};

/// One thing that a profiler tool found.
struct Finding {
    std::string tool;
    std::string cause;  ///< one sentence with the number and the threshold it was held against
    std::string cause_group;  ///< tools that explain the same cause share it
    Severity severity = Severity::info;
    LaunchKey key;
    std::string kernel;
    SourcePosition position;           ///< empty file: unknown
    std::vector<Action> actions;       ///< best first
    std::optional<double> gain_limit;  ///< upper bound of the speedup, ≥ 1
    std::string gain_basis;            ///< what the bound rests on
    std::vector<ExpectedChange> expected;
    std::vector<std::string> forbidden;  ///< what must not be done about it
};

/// What was found about a candidate, ranked, and what could not be measured.
struct Diagnosis {
    std::vector<Bottleneck> bottlenecks;
    std::vector<Finding> findings;
    std::vector<MissingDatum> missing;
};

/// Everything a tool may look at. References are valid during `analyze` only.
struct ProfileInput {
    const Task& task;
    const DeviceInfo& device;
    const CompiledCandidate& candidate;
    const Evaluation& evaluation;
    const ProfileData& data;
    const std::vector<Bottleneck>& bottlenecks;
};

/// Digests data into advice. Pure: same input, same findings; no device, no files.
class ProfilerTool {
  public:
    virtual ~ProfilerTool() = default;

    /// What this tool wants collected. [any]
    [[nodiscard]] virtual DataRequest needs() const = 0;
    /// How much this tool has to say about such a bottleneck, 0 to 1. Ranks, never silences. [any]
    [[nodiscard]] virtual double relevance(const Bottleneck& bottleneck) const = 0;
    /// Looks and reports. A missing datum is a finding "not measurable here: why". [any]
    /// @throws nothing but std::bad_alloc
    [[nodiscard]] virtual std::vector<Finding> analyze(const ProfileInput& input) const = 0;
};

}  // namespace kernelforge
