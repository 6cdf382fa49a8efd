// SPDX-License-Identifier: Apache-2.0
#pragma once

// One include for Catch2 v2 and v3.
#ifdef KERNELFORGE_CATCH_3
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) {
    return Catch::Matchers::Contains(text);
}
#endif
