// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "kernelforge/evaluator.hpp"

namespace kernelforge::test {

/// A well-formed request on a task of two workloads (y = x, one axis), whose builds are empty: for
/// evaluators that only pass it on.
[[nodiscard]] inline EvaluationRequest small_request(std::string id) {
    auto task = std::make_shared<Task>();
    task->definition.name = "copy";
    Axis axis;
    axis.name = "N";
    task->definition.axes.push_back(axis);
    TensorSpec x;
    x.name = "x";
    x.shape = {"N"};
    task->definition.inputs.push_back(x);
    TensorSpec y = x;
    y.name = "y";
    task->definition.outputs.push_back(y);
    for (const std::int64_t n : {16, 1000}) {
        Workload workload;
        workload.uuid = "n" + std::to_string(n);
        workload.axes["N"] = n;
        task->workloads.push_back(workload);
    }
    EvaluationRequest request;
    request.id = std::move(id);
    request.task = task;
    request.workloads = {0, 1};
    request.candidate.candidate.source = "//@kernelforge 1\n";
    request.candidate.builds.resize(1);
    request.candidate.build_of_workload = {0, 0};
    request.reference = request.candidate;
    return request;
}

[[nodiscard]] inline CollectRequest small_collection(std::string id) {
    const EvaluationRequest request = small_request(std::move(id));
    CollectRequest collect;
    collect.id = request.id;
    collect.task = request.task;
    collect.workloads = request.workloads;
    collect.candidate = request.candidate;
    return collect;
}

/// Writes the script of kernelforge_fake_worker into `folder`.
inline void write_fake_script(const std::filesystem::path& folder, const std::string& work,
                              const std::string& devices = "") {
    std::ofstream(folder / "work") << work;
    std::ofstream(folder / "devices") << devices;
}

}  // namespace kernelforge::test
