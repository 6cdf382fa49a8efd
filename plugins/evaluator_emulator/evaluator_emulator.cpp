// SPDX-License-Identifier: Apache-2.0
#include "emulator_evaluator.hpp"
#include "kernelforge/plugin.hpp"
#include "kernelforge/version.hpp"

namespace {

std::unique_ptr<kernelforge::Evaluator> create(std::string_view options,
                                               const kernelforge::PluginContext& context) {
    return std::make_unique<kernelforge::emulator_host::EmulatorEvaluator>(
        kernelforge::emulator_host::parse_options(options), context);
}

constexpr kernelforge::Factory<kernelforge::Evaluator> evaluators[] = {
    {"emulator", "executes and checks candidates on the CPU, without a GPU; times are modelled",
     create},
};

}  // namespace

KERNELFORGE_PLUGIN(evaluator_emulator) = {
    KERNELFORGE_PLUGIN_HEAD("evaluator_emulator", KERNELFORGE_VERSION), .evaluators = evaluators};
