// SPDX-License-Identifier: Apache-2.0
// A profiler tool: looks at what was launched and says when most of the device stays idle.
#include <kernelforge/plugin.hpp>

namespace {

using namespace kernelforge;

class LaunchAdvice final : public ProfilerTool {
  public:
    DataRequest needs() const override { return {}; }  // the evaluation itself is enough

    double relevance(const Bottleneck& bottleneck) const override {
        return bottleneck.kind == BottleneckKind::latency ? 1.0 : 0.2;
    }

    std::vector<Finding> analyze(const ProfileInput& input) const override {
        std::vector<Finding> findings;
        for (const WorkloadResult& result : input.evaluation.workloads) {
            for (std::size_t i = 0; i < result.launches.size(); ++i) {
                const LaunchFacts& launch = result.launches[i];
                const std::int64_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
                if (blocks >= input.device.multiprocessors) continue;
                Finding finding;
                finding.tool = "launch_advice";
                finding.cause = std::to_string(blocks) + " blocks leave some of the " +
                                std::to_string(input.device.multiprocessors) +
                                " multiprocessors idle (threshold: one block each)";
                finding.cause_group = "parallelism";
                finding.severity = Severity::advice;
                finding.key = {result.workload, i};
                finding.kernel = launch.kernel;
                finding.actions = {{"Split the work of one block over several.", ""}};
                finding.gain_limit =
                    static_cast<double>(input.device.multiprocessors) / static_cast<double>(blocks);
                finding.gain_basis = "multiprocessors over blocks";
                findings.push_back(std::move(finding));
            }
        }
        return findings;
    }
};

std::unique_ptr<ProfilerTool> make(std::string_view, const PluginContext&) {
    return std::make_unique<LaunchAdvice>();
}

constexpr Factory<ProfilerTool> tools[] = {
    {"launch_advice", "Says when a launch leaves multiprocessors idle.", make}};

}  // namespace

KERNELFORGE_PLUGIN(launch_advice) = {KERNELFORGE_PLUGIN_HEAD("launch_advice", "1.0"),
                                     .profiler_tools = tools};
