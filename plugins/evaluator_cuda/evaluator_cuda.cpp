// SPDX-License-Identifier: Apache-2.0
#include "cuda_evaluator.hpp"
#include "kernelforge/plugin.hpp"
#include "kernelforge/version.hpp"

namespace {

std::unique_ptr<kernelforge::Evaluator> create(std::string_view options,
                                               const kernelforge::PluginContext& context) {
    return std::make_unique<kernelforge::cuda::CudaEvaluator>(
        kernelforge::cuda::parse_options(options), context);
}

constexpr kernelforge::Factory<kernelforge::Evaluator> evaluators[] = {
    {"cuda", "runs candidates on the GPUs of this machine, in worker processes", create},
};

}  // namespace

KERNELFORGE_PLUGIN(evaluator_cuda) = {
    KERNELFORGE_PLUGIN_HEAD("evaluator_cuda", KERNELFORGE_VERSION), .evaluators = evaluators};
