// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

#include "base/json_text.hpp"
#include "builds.hpp"
#include "kernelforge/plugin.hpp"
#include "support/support.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);

namespace kernelforge::test {

EmulatorRig::EmulatorRig(const std::vector<std::string>& words)
    : registry_(std::make_unique<Registry>()) {
    registry_->add(kernelforge_plugin_compiler_nvrtc);
    PluginContext context;
    context.worker_path = worker_path();
    compiler_ = registry_->make<Compiler>("nvrtc", "{}", context);
    SubprocessOptions options;
    options.argv = {worker_path(), "--role", "emulate"};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    options.channel = true;
    worker_ = std::make_unique<Subprocess>(std::move(options));
    const JsonDocument document(exchange(wire::message("devices", Json::object())), "answer");
    device_ = wire::decode<DeviceInfo>(document.root().at("body").at(std::size_t{0}));
}

EmulatorRig::~EmulatorRig() = default;

std::string EmulatorRig::exchange(const std::string& message) {
    wire::Channel channel(worker_->channel());
    channel.send(message);
    auto received = channel.receive(std::chrono::steady_clock::now() + std::chrono::minutes(5));
    if (received.outcome == wire::Channel::Outcome::message) return received.message;
    const auto ended =
        worker_->wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(1));
    throw Error(ErrorCode::worker_failed,
                "the worker gave no answer: " + (ended ? ended->describe() : "it still runs"));
}

Evaluation EmulatorRig::ask(const EvaluationRequest& request) {
    const JsonDocument document(exchange(wire::message("evaluate", wire::encode(request))),
                                "answer");
    const std::string type = document.root().at("type").as_string();
    if (type != "evaluation") {
        throw Error(ErrorCode::worker_failed, dump_json(document.root().at("body").json()));
    }
    return wire::decode<Evaluation>(document.root().at("body"));
}

Evaluation EmulatorRig::judge(const std::shared_ptr<const Task>& task, const Run& run) {
    const std::vector<std::size_t> workloads = all_workloads(*task);
    const auto build = [&](const std::string& source) {
        return build_candidate(*compiler_, *task, {source, {}}, "candidate.cu", workloads, device_,
                               {}, {});
    };
    const Built built = build(run.source);
    if (!built.ok()) {
        Evaluation evaluation;
        evaluation.status = built.status;
        evaluation.message = built.message;
        return evaluation;
    }
    EvaluationRequest request;
    request.id = "test";
    request.task = task;
    request.workloads = workloads;
    request.candidate = built.compiled;
    request.reference = build(task->reference_cuda).compiled;
    if (!run.opponent.empty()) request.opponent = build(run.opponent).compiled;
    request.depth = run.depth;
    request.seed = 1;
    request.time_limit = run.time_limit;
    return ask(request);
}

}  // namespace kernelforge::test
