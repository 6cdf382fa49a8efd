// SPDX-License-Identifier: Apache-2.0
#include "evaluator_folder/folder_evaluator.hpp"
#include "kernelforge/plugin.hpp"
#include "kernelforge/version.hpp"

namespace {

std::unique_ptr<kernelforge::Evaluator> create(std::string_view options,
                                               const kernelforge::PluginContext&) {
    return std::make_unique<kernelforge::folder::FolderEvaluator>(
        kernelforge::folder::parse_options(options));
}

constexpr kernelforge::Factory<kernelforge::Evaluator> evaluators[] = {
    {"folder", "writes jobs into a folder that a worker elsewhere serves", create},
};

}  // namespace

KERNELFORGE_PLUGIN(evaluator_folder) = {
    KERNELFORGE_PLUGIN_HEAD("evaluator_folder", KERNELFORGE_VERSION), .evaluators = evaluators};
