// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernelforge/plugin.hpp"

namespace kernelforge::test {

/// What the suite needs to know of one implementation of `SearchStrategy`.
struct SearchStrategySubject {
    std::string name;
    std::function<std::unique_ptr<SearchStrategy>(const std::string& options)> make;
    std::string
        known_option;  ///< a key of its options, which a refusal of an unknown key must list
};

/// Every implementation there is.
[[nodiscard]] std::vector<SearchStrategySubject> search_strategy_subjects();

}  // namespace kernelforge::test
