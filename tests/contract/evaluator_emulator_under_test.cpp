// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"
#include "evaluator_contract.hpp"
#include "evaluator_emulator/emulator_evaluator.hpp"
#include "support/fake_evaluation.hpp"

namespace kernelforge::contract {
namespace {

struct WithFolder {
    explicit WithFolder(const std::string& script) {
        test::write_fake_script(folder.path(), script);
        emulator_host::EmulatorOptions options;
        options.worker = KERNELFORGE_FAKE_WORKER;
        options.worker_arguments = {"--script", folder.path().string()};
        options.margin = std::chrono::milliseconds(100);
        evaluator = std::make_unique<emulator_host::EmulatorEvaluator>(options, PluginContext());
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

EvaluatorUnderTest evaluator_emulator_under_test() {
    return {.name = "emulator",
            .make = [] { return with_script(""); },
            .make_endless = [] { return with_script("hang\n"); },
            .make_crashing = [] { return with_script("die 11\n"); }};
}

}  // namespace kernelforge::contract
