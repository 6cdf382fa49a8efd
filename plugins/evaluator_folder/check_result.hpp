// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernelforge/evaluator.hpp"

namespace kernelforge::folder {

/// Refuses an evaluation that cannot be the answer to the request: workloads that were not asked
/// for, impossible times or ratios, and `ok` without the times that the depth asks for. `file` is
/// the result's name in messages. @throws Error parse
void check_result(const Evaluation& evaluation, const EvaluationRequest& request,
                  const std::string& file);

}  // namespace kernelforge::folder
