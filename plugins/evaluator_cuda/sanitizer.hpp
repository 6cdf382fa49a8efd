// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "evaluator_worker/worker_process.hpp"
#include "kernelforge/evaluator.hpp"

// One run of a worker under one tool of compute-sanitizer.

namespace kernelforge::cuda {

/// The program to run: `configured` when that is not empty, else the one of the toolkit that was
/// built with, else the one in /usr/local/cuda. Empty: there is none.
[[nodiscard]] std::string find_sanitizer(const std::string& configured);

struct SanitizerRun {
    SanitizerResult result;
    worker_host::Exchange exchange;  ///< with the worker
};

/// Starts `program --tool TOOL … worker…`, sends the request, lets the worker end, and reads the
/// log. A tool that gives no verdict by `deadline` is `failed`; what its log says by then counts.
/// @throws Error io (no temporary folder), invalid_argument (the request is too long)
[[nodiscard]] SanitizerRun run_sanitizer(const std::string& program, const std::string& tool,
                                         const std::vector<std::string>& worker,
                                         const EvaluationRequest& request,
                                         std::chrono::steady_clock::time_point deadline,
                                         const std::stop_token& stop);

/// Adds one tool's run to the verdict of all: findings make it `rejected` by rule
/// "compute-sanitizer TOOL", a result that is wrong under a tool makes it `wrong_result`; what was
/// computed on each shape is kept from the first answer.
void add_sanitized(Evaluation& evaluation, const SanitizerRun& run,
                   const std::function<Evaluation(const std::string&)>& decode);

}  // namespace kernelforge::cuda
