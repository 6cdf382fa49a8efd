// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"
#include "evaluator_contract.hpp"
#include "evaluator_cuda/cuda_evaluator.hpp"
#include "support/fake_evaluation.hpp"

namespace kernelforge::contract {
namespace {

struct WithFolder {
    explicit WithFolder(const std::string& script) {
        test::write_fake_script(folder.path(), script);
        cuda::CudaOptions options;
        options.worker_arguments = {"--script", folder.path().string()};
        options.margin = std::chrono::milliseconds(100);
        PluginContext context;
        context.worker_path = KERNELFORGE_FAKE_WORKER;
        evaluator = std::make_unique<cuda::CudaEvaluator>(options, context);
    }
    TemporaryFolder folder;
    std::unique_ptr<Evaluator> evaluator;
};

std::shared_ptr<Evaluator> with_script(const std::string& script) {
    auto all = std::make_shared<WithFolder>(script);
    Evaluator* evaluator = all->evaluator.get();
    return {std::move(all), evaluator};  // shares the folder's lifetime
}

}  // namespace

EvaluatorUnderTest evaluator_cuda_under_test() {
    return {.name = "cuda",
            .make = [] { return with_script(""); },
            .make_endless = [] { return with_script("hang\n"); },
            .make_crashing = [] { return with_script("die 11\n"); }};
}

}  // namespace kernelforge::contract
