// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>

#include "kernelforge/export.hpp"

namespace kernelforge {

/// Values of tunables (`//@tune`). A tunable that is absent takes its first listed value.
using Bindings = std::map<std::string, std::int64_t>;

/// Untrusted device code with its launch plan: the text of one `.cu` file, whose `//@` comment
/// lines are the plan (docs/candidate_format.md).
struct Candidate {
    std::string source;
    Bindings bindings;

    friend bool operator==(const Candidate&, const Candidate&) = default;
};

/// Identity of a node: SHA-256 over source and bindings, 64 lower-case hexadecimal digits.
/// Empty means "none".
struct NodeId {
    std::string value;

    [[nodiscard]] bool empty() const noexcept { return value.empty(); }
    friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

/// The identity of a candidate. The same text and bindings give the same id on every machine.
[[nodiscard]] KERNELFORGE_EXPORT NodeId node_id(const Candidate& candidate);

}  // namespace kernelforge
