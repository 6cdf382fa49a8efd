// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernelforge/plugin.hpp"

namespace kernelforge::test {

/// What the suite needs to know of one implementation of `LlmBackend`.
struct LlmBackendSubject {
    std::string name;
    /// A backend whose completion for expansion e, turn 0, prompt `prompt_of(e)` is
    /// `content_of(e)`, for e from 0 to 7. What it needs lives as long as the returned object.
    std::function<std::shared_ptr<LlmBackend>()> make;
    /// One whose completion takes 30 seconds; empty where there is nothing to wait for.
    std::function<std::shared_ptr<LlmBackend>()> make_slow;
    /// Makes it from options, as a registry does; empty for what is not made from options.
    std::function<void(const std::string& options)> make_from_options;
    /// A key of its options, which a refusal of an unknown key must list.
    std::string known_option;
};

[[nodiscard]] std::string prompt_of(std::uint64_t expansion);
[[nodiscard]] std::string content_of(std::uint64_t expansion);
[[nodiscard]] ChatRequest request_of(std::uint64_t expansion);

/// Every implementation there is.
[[nodiscard]] std::vector<LlmBackendSubject> llm_backend_subjects();

}  // namespace kernelforge::test
