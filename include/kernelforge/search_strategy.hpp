// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernelforge/candidate.hpp"
#include "kernelforge/evaluator.hpp"

namespace kernelforge {

enum class ExpansionAction { draft, improve, repair, tune };

[[nodiscard]] constexpr std::string_view to_string(ExpansionAction action) noexcept {
    switch (action) {
        case ExpansionAction::draft:
            return "draft";
        case ExpansionAction::improve:
            return "improve";
        case ExpansionAction::repair:
            return "repair";
        case ExpansionAction::tune:
            return "tune";
    }
    return "unknown";
}

/// What to try next. One expansion leads to one or more model turns and ends in exactly one tell.
struct Expansion {
    std::uint64_t id = 0;  ///< chosen by the strategy, unique within the run
    ExpansionAction action = ExpansionAction::improve;
    NodeId parent;                     ///< empty for a draft
    std::string role;                  ///< who asks, for a team of agents; may be empty
    std::string thread;                ///< conversation to continue; empty: a fresh one
    std::string directive;             ///< a sentence or two for the model; may be empty
    std::vector<NodeId> inspirations;  ///< other nodes to show
    std::string memory_query;          ///< what to look up in the search memory; may be empty
};

/// How an expansion ended.
enum class ExpansionOutcome {
    evaluated,     ///< there is a node; look at its status
    duplicate,     ///< the candidate was known already; `node` names it
    no_candidate,  ///< the reply held no usable candidate
    guarded,       ///< a guard refused it before evaluation
    failed,        ///< no reply could be had
};

[[nodiscard]] constexpr std::string_view to_string(ExpansionOutcome outcome) noexcept {
    switch (outcome) {
        case ExpansionOutcome::evaluated:
            return "evaluated";
        case ExpansionOutcome::duplicate:
            return "duplicate";
        case ExpansionOutcome::no_candidate:
            return "no_candidate";
        case ExpansionOutcome::guarded:
            return "guarded";
        case ExpansionOutcome::failed:
            return "failed";
    }
    return "unknown";
}

/// What a strategy learns.
struct NodeSummary {
    std::optional<std::uint64_t> expansion;  ///< absent for a node that was given (a baseline)
    ExpansionOutcome outcome = ExpansionOutcome::evaluated;
    NodeId node;  ///< empty when there is none
    NodeId parent;
    EvaluationStatus status = EvaluationStatus::ok;  ///< when evaluated
    std::optional<double> speedup;  ///< geometric mean over workloads, over the baseline
    bool leader = false;            ///< this node is now the leader
    std::string change_class;
    std::string message;  ///< one sentence, empty when all is well
};

/// Decides what to try. Its state is rebuilt by replaying tells, so it must depend on nothing else.
/// Implementations: `greedy`.
class SearchStrategy {
  public:
    virtual ~SearchStrategy() = default;

    /// Up to `max_count` expansions that may be worked on at once; empty: nothing to ask before the
    /// next tell, or, when nothing is outstanding, ever. [control]
    [[nodiscard]] virtual std::vector<Expansion> ask(std::size_t max_count) = 0;
    /// One result; every expansion gets exactly one. [control]
    virtual void tell(const NodeSummary& summary) = 0;
};

}  // namespace kernelforge
