// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kernelforge/plugin.hpp"
#include "kernelforge/search_strategy.hpp"

namespace kernelforge {

/// The directives that rotate unless the options name others, in order.
[[nodiscard]] std::span<const std::string_view> greedy_directives() noexcept;

/// Options (docs/forge.md, "The greedy strategy"): `directives` array of texts, at least one;
/// `plateau` tells without a new leader, 3; `drafts` first expansions that start from nothing, 1;
/// `max_expansions` after which nothing is asked, 0 for no limit.
/// @throws Error parse, invalid_argument
[[nodiscard]] std::unique_ptr<SearchStrategy> make_greedy_strategy(std::string_view options,
                                                                   const PluginContext& context);

}  // namespace kernelforge
