// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/error.hpp"
#include "kernelforge/plugin.hpp"

namespace {

using namespace kernelforge;

class OneFinding final : public ProfilerTool {
  public:
    [[nodiscard]] DataRequest needs() const override { return {}; }
    [[nodiscard]] double relevance(const Bottleneck&) const override { return 1.0; }
    [[nodiscard]] std::vector<Finding> analyze(const ProfileInput&) const override {
        Finding finding;
        finding.tool = "one_finding";
        finding.cause = "a finding";
        return {finding};
    }
};

class Echo final : public LlmBackend {
  public:
    explicit Echo(std::string options) : options_(std::move(options)) {}
    [[nodiscard]] ChatReply complete(const ChatRequest& request, std::stop_token) override {
        if (request.messages.empty()) throw Error(ErrorCode::backend_failed, "nothing to echo");
        ChatReply reply;
        reply.content = options_ + request.messages.back().content;
        return reply;
    }

  private:
    std::string options_;
};

std::unique_ptr<ProfilerTool> make_tool(std::string_view, const PluginContext&) {
    return std::make_unique<OneFinding>();
}

std::unique_ptr<LlmBackend> make_echo(std::string_view options, const PluginContext&) {
    return std::make_unique<Echo>(std::string(options));
}

constexpr Factory<ProfilerTool> tools[] = {{"one_finding", "Finds one thing.", make_tool}};
constexpr Factory<LlmBackend> backends[] = {{"echo", "Repeats.", make_echo}};

}  // namespace

KERNELFORGE_PLUGIN(right_test_plugin) = {KERNELFORGE_PLUGIN_HEAD("right", "1.2.3"),
                                         .profiler_tools = tools, .llm_backends = backends};
