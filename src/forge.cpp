// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/forge.hpp"

#include <chrono>
#include <utility>

#include "forge_run.hpp"

namespace kernelforge {
namespace {

void require(bool condition, const char* message) {
    if (!condition) throw Error(ErrorCode::invalid_argument, message);
}

/// 0 is in range: nothing may be asked, the run stops at once.
void check(const Budget& budget) {
    require(!budget.evaluations || *budget.evaluations >= 0,
            "forge: budget.evaluations: expected at least 0");
    require(!budget.tokens || *budget.tokens >= 0, "forge: budget.tokens: expected at least 0");
    require(!budget.cost_usd || *budget.cost_usd >= 0.0,
            "forge: budget.cost_usd: expected at least 0");
    constexpr std::chrono::seconds longest = std::chrono::years(10);
    require(!budget.time || (budget.time->count() >= 0 && *budget.time <= longest),
            "forge: budget.time: expected 0 seconds to 10 years");
}

void check(const ForgeParts& parts, const ForgeOptions& options) {
    require(parts.compiler != nullptr, "forge: expected a compiler, found none");
    require(parts.evaluator != nullptr, "forge: expected an evaluator, found none");
    require(parts.llm != nullptr, "forge: expected an LLM backend, found none");
    require(parts.strategy != nullptr, "forge: expected a search strategy, found none");
    for (const auto& tool : parts.tools) {
        require(tool != nullptr, "forge: expected profiler tools, found a null one");
    }
    require(!options.run_folder.empty(), "forge: run_folder: expected a path, found none");
    check(options.budget);
    require(options.max_in_flight >= 1 && options.max_in_flight <= 1024,
            "forge: max_in_flight: expected 1 to 1024");
    require(options.generations <= 1024, "forge: generations: expected at most 1024");
    require(options.max_repairs >= 0, "forge: max_repairs: expected at least 0");
    require(options.stop_headroom >= 0.0, "forge: stop_headroom: expected at least 0");
    require(!options.target_speedup || *options.target_speedup > 0.0,
            "forge: target_speedup: expected more than 0");
    require(options.compile_time_limit.count() > 0,
            "forge: compile_time_limit: expected more than 0");
    require(options.evaluation_time_limit.count() > 0,
            "forge: evaluation_time_limit: expected more than 0");
    require(options.max_output_tokens > 0, "forge: max_output_tokens: expected more than 0");
}

}  // namespace

struct Forge::State {
    ForgeParts parts;
    ForgeOptions options;
    /// The run that goes on with the next call; made by the first. The strategy knows its tells, so
    /// a forge serves one task.
    std::unique_ptr<ForgeRun> run;
    std::string task_name;
    bool failed = false;  ///< an exception left the strategy between two tells
};

Forge::Forge(ForgeParts parts, ForgeOptions options) {
    check(parts, options);
    state_ = std::make_unique<State>();
    state_->parts = std::move(parts);
    state_->options = std::move(options);
}

Forge::~Forge() = default;
Forge::Forge(Forge&&) noexcept = default;
Forge& Forge::operator=(Forge&&) noexcept = default;

ForgeResult Forge::run(const Task& task, std::stop_token stop) {
    State& state = *state_;
    if (state.failed) {
        throw Error(
            ErrorCode::invalid_argument,
            "forge: a run ended with an error; make a new forge to go on with its run folder");
    }
    auto run = std::make_unique<ForgeRun>(state.parts, state.options, task);
    if (state.run == nullptr) {
        state.run = std::move(run);
    } else if (run->task_hash() != state.run->task_hash()) {
        throw Error(ErrorCode::invalid_argument, "forge: it has run task " + state.task_name +
                                                     ", found task " + task.definition.name +
                                                     "; make a new forge for another task");
    }
    state.task_name = task.definition.name;
    try {
        return state.run->run(stop);
    } catch (...) {
        state.failed = true;
        state.run.reset();  // gives the run folder back
        throw;
    }
}

}  // namespace kernelforge
