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

std::string candidate(const std::string& body, const std::string& plan) {
    return head + plan + R"(//@launch f<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
extern "C" __global__ void f(const float* x, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
)" + body + "\n}\n";
}

std::shared_ptr<Task> scale_task(const std::vector<std::int64_t>& sizes) {
    auto task = std::make_shared<Task>();
    task->definition.name = "scale";
    task->definition.axes = {{"N", Axis::Kind::variable, 0, "", ""}};
    task->definition.inputs = {{"x", {"N"}, false, DType::float32, ""},
                               {"w", {"N"}, false, DType::float32, ""}};
    task->definition.outputs = {{"y", {"N"}, false, DType::float32, ""}};
    for (const std::int64_t size : sizes) {
        task->workloads.push_back({"w" + std::to_string(size), {{"N", size}}, {}});
    }
    task->reference_cuda = candidate(right_body);
    return task;
}

Requests::Requests() : registry_(std::make_unique<Registry>()) {
    registry_->add(kernelforge_plugin_compiler_nvrtc);
    PluginContext context;
    context.worker_path = worker_path();
    compiler_ = registry_->make<Compiler>("nvrtc", "{}", context);
}

Requests::~Requests() = default;

Evaluation Requests::judged(const std::shared_ptr<const Task>& task, const Run& run,
                            const DeviceInfo& device, const Judge& judge) {
    const std::vector<std::size_t> workloads = all_workloads(*task);
    const auto build = [&](const std::string& source) {
        return build_candidate(*compiler_, *task, {source, {}}, "candidate.cu", workloads, device,
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
    return judge(request);
}

EmulatorRig::EmulatorRig(const std::vector<std::string>& words) {
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
    return requests_.judged(task, run, device_,
                            [&](const EvaluationRequest& request) { return ask(request); });
}

}  // namespace kernelforge::test
