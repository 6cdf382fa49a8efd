// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/candidate.hpp"

#include "base/sha256.hpp"

namespace kernelforge {

NodeId node_id(const Candidate& candidate) {
    Sha256 hash;
    // Versioned, so that a later rule cannot give an old id to something else.
    hash.field("kernelforge-node-1");
    hash.field(candidate.source);
    for (const auto& [name, value] : candidate.bindings) {
        hash.field(name);
        hash.field(std::to_string(value));
    }
    return {hash.hex()};
}

}  // namespace kernelforge
