// SPDX-License-Identifier: Apache-2.0
#include <kernelforge/plugin.hpp>

namespace {

using namespace kernelforge;

class Registers final : public ProfilerTool {
  public:
    DataRequest needs() const override { return {}; }
    double relevance(const Bottleneck&) const override { return 0.5; }
    std::vector<Finding> analyze(const ProfileInput&) const override { return {}; }
};

std::unique_ptr<ProfilerTool> make(std::string_view, const PluginContext&) {
    return std::make_unique<Registers>();
}

constexpr Factory<ProfilerTool> tools[] = {{"registers", "Looks at registers.", make}};

}  // namespace

KERNELFORGE_PLUGIN(my_tools) = {KERNELFORGE_PLUGIN_HEAD("my_tools", "1.0"),
                                .profiler_tools = tools};
