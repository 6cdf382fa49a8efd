// SPDX-License-Identifier: Apache-2.0
#include "greedy_strategy.hpp"
#include "kernelforge/plugin.hpp"

namespace {

constexpr kernelforge::Factory<kernelforge::SearchStrategy> strategies[] = {
    {"greedy",
     "improves the leader with one directive after another; on a plateau tries elites and drafts",
     kernelforge::make_greedy_strategy}};

}  // namespace

KERNELFORGE_PLUGIN(search_greedy) = {KERNELFORGE_PLUGIN_HEAD("search_greedy", "0.1.0"),
                                     .search_strategies = strategies};
