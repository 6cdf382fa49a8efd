// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

#include "builds.hpp"
#include "kernelforge/plugin.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);

namespace kernelforge::test {

const char* const right_scale = R"(//@kernelforge 1
//@launch scale<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
extern "C" __global__ void scale(const float* x, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + w[i];
}
)";

Rig::Rig(const std::string& options) : registry_(std::make_unique<Registry>()) {
    registry_->add(kernelforge_plugin_compiler_nvrtc);
    registry_->add(kernelforge_plugin_evaluator_cuda);
    PluginContext context;
    context.worker_path = worker_path();
    compiler_ = registry_->make<Compiler>("nvrtc", "{}", context);
    evaluator_ = registry_->make<Evaluator>("cuda", options, context);
    const std::vector<DeviceInfo> devices = evaluator_->devices();
    if (devices.empty()) throw Error(ErrorCode::device_unavailable, "no device");
    device_ = devices.front();
}

CompiledCandidate Rig::build(const Task& task, const std::string& source) const {
    const std::vector<std::size_t> workloads = all_workloads(task);
    const Built built =
        build_candidate(*compiler_, task, {source, {}}, "candidate.cu", workloads, device_, {}, {});
    if (!built.ok()) throw Error(ErrorCode::invalid_argument, built.message);
    return built.compiled;
}

EvaluationRequest Rig::request(const std::shared_ptr<const Task>& task, const Run& run) const {
    EvaluationRequest request;
    request.id = "test";
    request.task = task;
    request.workloads = all_workloads(*task);
    request.candidate = build(*task, run.source);
    request.reference = build(*task, task->reference_cuda);
    if (!run.opponent.empty()) request.opponent = build(*task, run.opponent);
    request.depth = run.depth;
    request.seed = 1;
    request.device = device_.index;
    request.time_limit = run.time_limit;
    return request;
}

Evaluation Rig::run(const std::shared_ptr<const Task>& task, const Run& run) const {
    const std::vector<std::size_t> workloads = all_workloads(*task);
    const Built built = build_candidate(*compiler_, *task, {run.source, {}}, "candidate.cu",
                                        workloads, device_, {}, {});
    if (!built.ok()) {
        Evaluation evaluation;
        evaluation.status = built.status;
        evaluation.message = built.message;
        return evaluation;
    }
    return evaluator_->evaluate(request(task, run), {});
}

Rig* rig() {
    static const std::unique_ptr<Rig> shared = []() -> std::unique_ptr<Rig> {
        try {
            return std::make_unique<Rig>();
        } catch (const Error& error) {
            if (error.code() == ErrorCode::device_unavailable) return nullptr;
            throw;
        }
    }();
    return shared.get();
}

std::shared_ptr<Task> scale_task(std::vector<std::int64_t> sizes) {
    auto task = std::make_shared<Task>();
    task->definition.name = "scale";
    task->definition.axes = {{"N", Axis::Kind::variable, 0, "", ""}};
    task->definition.inputs = {{"x", {"N"}, false, DType::float32, ""},
                               {"w", {"N"}, false, DType::float32, ""}};
    task->definition.outputs = {{"y", {"N"}, false, DType::float32, ""}};
    for (const std::int64_t size : sizes) {
        task->workloads.push_back({"w" + std::to_string(size), {{"N", size}}, {}});
    }
    task->reference_cuda = right_scale;
    return task;
}

}  // namespace kernelforge::test
