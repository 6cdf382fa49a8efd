// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive.hpp"
#include "kernelforge/forge.hpp"
#include "kernelforge/llm_backend.hpp"

// What a model reads (docs/forge.md, "The prompt"). Pure and deterministic: the same input gives
// the same bytes. Holds no path, secret, seed, nor anything by which the referee chooses its
// inputs.

namespace kernelforge {

/// Diagnostics that a repair prompt quotes at most.
inline constexpr std::size_t max_quoted_diagnostics = 10;
/// Past attempts that a prompt mentions at most.
inline constexpr std::size_t max_lessons = 6;

/// Everything that the first prompt of an expansion shows. References are valid during the call
/// only.
struct PromptInput {
    const Task& task;
    const DeviceInfo& device;
    std::string_view guide;
    Feedback feedback = Feedback::findings;
    /// One a workload of the task; `best_s` is the leader's time.
    std::span<const WorkloadSummary> workloads;
    const Expansion& expansion;
    const NodeRecord* parent = nullptr;  ///< null: write a first candidate
    std::vector<const NodeRecord*> inspirations;
    std::vector<const NodeRecord*> attempts;  ///< past ones that led nowhere, oldest first
};

/// The same bytes for every task and every prompt, so that services can cache it: who the model is,
/// the candidate format, the rules, the reply format.
[[nodiscard]] std::string system_text();

/// System text and first user message.
[[nodiscard]] std::vector<ChatMessage> first_messages(const PromptInput& input);

/// What went wrong with a turn, for the next one: at most `max_quoted_diagnostics` diagnostics with
/// the candidate's lines quoted, or the first wrong output in one sentence, or the message.
[[nodiscard]] std::string repair_text(const Task& task, const NodeRecord& failed);

/// Past attempts in one line each: change class, plan, outcome.
[[nodiscard]] std::string lesson_line(const NodeRecord& attempt);

}  // namespace kernelforge
