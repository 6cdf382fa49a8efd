// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernelforge/evaluator.hpp"

namespace kernelforge::contract {

/// One implementation of `Evaluator` in a situation where its requests come to an end without a
/// GPU. An implementation adds itself with a function below, defined in a file of its own, and a
/// line in `evaluator_contract_test.cpp`.
struct EvaluatorUnderTest {
    std::string name;  ///< as in the registry, and in `Evaluation::evaluator`
    /// A new evaluator whose candidates are all right. What it needs lives as long as the pointer.
    std::function<std::shared_ptr<Evaluator>()> make;
    /// A new evaluator whose next candidate never ends. Empty: it cannot be made to.
    std::function<std::shared_ptr<Evaluator>()> make_endless;
    /// A new evaluator whose next candidate ends its worker and whose later ones are right. Empty:
    /// it has no worker here.
    std::function<std::shared_ptr<Evaluator>()> make_crashing;
    /// `evaluate` may answer `pending` instead of a verdict.
    bool may_be_pending = false;
};

[[nodiscard]] EvaluatorUnderTest evaluator_cuda_under_test();
[[nodiscard]] EvaluatorUnderTest evaluator_emulator_under_test();

}  // namespace kernelforge::contract
