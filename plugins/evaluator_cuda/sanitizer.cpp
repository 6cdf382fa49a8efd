// SPDX-License-Identifier: Apache-2.0
#include "sanitizer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "kernelforge/error.hpp"
#include "sanitizer_log.hpp"
#include "wire/codec.hpp"

namespace kernelforge::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using worker_host::Exchange;
using worker_host::WorkerProcess;

constexpr std::size_t most_log_bytes = std::size_t{4} << 20;

std::vector<std::string> command(const std::string& program, const std::string& tool,
                                 const std::string& log, const std::vector<std::string>& worker) {
    // Candidates are compiled with line tables; host frames would only show our own functions.
    std::vector<std::string> argv = {program, "--tool",           tool,  "--log-file",
                                     log,     "--error-exitcode", "86",  "--launch-timeout",
                                     "60",    "--print-limit",    "100", "--show-backtrace",
                                     "device"};
    // A worker asks the driver for things that may be missing; that is no error of a candidate.
    if (tool == "memcheck") argv.insert(argv.end(), {"--report-api-errors", "no"});
    argv.insert(argv.end(), worker.begin(), worker.end());
    return argv;
}

/// The log's beginning; nothing where there is none, which the verdict says. What a candidate makes
/// long is still read: its first findings are there, and without a summary it is not clean.
std::string read_log(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(most_log_bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

/// Why the worker's end tells nothing about what a tool did not find; empty when it does.
std::string why_incomplete(const Exchange& exchange, bool ended) {
    switch (exchange.outcome) {
        case Exchange::Outcome::answered:
            return ended ? "" : "the tool did not end in time";
        case Exchange::Outcome::timed_out:
            return "no verdict within the time limit";
        case Exchange::Outcome::stopped:
            return "a stop was requested";
        default:
            return "the worker under the tool ended with " + exchange.detail;
    }
}

}  // namespace

std::string find_sanitizer(const std::string& configured) {
    if (!configured.empty()) return configured;
    for (const char* place : {
#ifdef KERNELFORGE_COMPUTE_SANITIZER
             KERNELFORGE_COMPUTE_SANITIZER,
#endif
             "/usr/local/cuda/bin/compute-sanitizer",
             "/usr/local/cuda/compute-sanitizer/compute-sanitizer"}) {
        if (::access(place, X_OK) == 0) return place;
    }
    return "";
}

SanitizerRun run_sanitizer(const std::string& program, const std::string& tool,
                           const std::vector<std::string>& worker, const EvaluationRequest& request,
                           Clock::time_point deadline, const std::stop_token& stop) {
    const TemporaryFolder folder;
    const std::string log_file = (folder.path() / "log").string();
    SanitizerRun run;
    run.result.tool = tool;
    bool ended = false;
    try {
        WorkerProcess process(command(program, tool, log_file, worker));
        run.exchange =
            process.ask(wire::message("evaluate", wire::encode(request)), deadline, stop);
        ended = process.finish(deadline);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::io) throw;
        run.result.status = SanitizerResult::Status::unavailable;
        run.result.message = error.what();
        return run;
    }
    run.result = judge_log(tool, parse_sanitizer_log(read_log(log_file)),
                           kernel_names(request.candidate), why_incomplete(run.exchange, ended));
    return run;
}

void add_sanitized(Evaluation& evaluation, const SanitizerRun& run,
                   const std::function<Evaluation(const std::string&)>& decode) {
    const bool answered = run.exchange.outcome == Exchange::Outcome::answered;
    if (run.result.status == SanitizerResult::Status::findings) {
        evaluation.status = EvaluationStatus::rejected;
        evaluation.rule = "compute-sanitizer " + run.result.tool;
        evaluation.message = fmt::format("{}: {}", evaluation.rule, run.result.message);
    }
    if (!answered) return;
    Evaluation answer;
    try {
        answer = decode(run.exchange.answer);
    } catch (const Error& error) {
        SanitizerResult& kept = evaluation.sanitizer.back();
        if (kept.status == SanitizerResult::Status::findings) return;
        kept.status = SanitizerResult::Status::failed;
        kept.message = error.what();
        return;
    }
    evaluation.device = answer.device;
    if (evaluation.workloads.empty() && evaluation.hidden.empty()) {
        evaluation.workloads = answer.workloads;
        evaluation.hidden = answer.hidden;
    }
    SanitizerResult& kept = evaluation.sanitizer.back();
    // A tool that saw nothing run has no verdict.
    if (answer.status != EvaluationStatus::ok && kept.status == SanitizerResult::Status::clean) {
        kept.status = SanitizerResult::Status::failed;
        kept.message =
            fmt::format("the run under it is {}: {}", to_string(answer.status), answer.message);
    }
    if (evaluation.status == EvaluationStatus::ok &&
        answer.status == EvaluationStatus::wrong_result) {
        evaluation.status = answer.status;
        evaluation.message = fmt::format("{}: {}", run.result.tool, answer.message);
    }
}

}  // namespace kernelforge::cuda
