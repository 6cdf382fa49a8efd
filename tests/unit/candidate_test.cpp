// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/candidate.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace kernelforge;

TEST_CASE("a candidate's id is a SHA-256 in lower-case hexadecimal digits", "[candidate]") {
    const NodeId id = node_id({"__global__ void k() {}\n", {}});
    CHECK(id.value.size() == 64);
    CHECK(id.value.find_first_not_of("0123456789abcdef") == std::string::npos);
    CHECK_FALSE(id.empty());
    CHECK(id == node_id({"__global__ void k() {}\n", {}}));
}

TEST_CASE("a candidate's id is the same on every machine", "[candidate]") {
    // computed with Python: hashlib.sha256 over the fields, each behind its length as <Q.
    CHECK(node_id({"a", {{"T", 1}}}).value ==
          "9601eaaa7e6731edc022c5837aeb7330eb318867098950afaadcdf9f70632d33");
}

TEST_CASE("source, tunable names and tunable values all change a candidate's id", "[candidate]") {
    const std::vector<Candidate> candidates{
        {"a", {}},          {"b", {}},
        {"a", {{"T", 1}}},  {"a", {{"T", 2}}},
        {"a", {{"U", 1}}},  {"a", {{"T1", 1}}},
        {"a", {{"T", 11}}}, {"aT", {{"1", 1}}},
        {"a", {{"T", -1}}}, {"a", {{"T", 1}, {"U", 1}}},
        {"", {}},           {std::string("a\0", 2), {}},
    };
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        for (std::size_t j = i + 1; j < candidates.size(); ++j) {
            INFO(i << " and " << j);
            CHECK(node_id(candidates[i]) != node_id(candidates[j]));
        }
    }
}
