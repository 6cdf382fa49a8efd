// SPDX-License-Identifier: Apache-2.0
#include "contract/search_strategy_contract.hpp"

#include <set>

#include "search_greedy/greedy_strategy.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace kernelforge::test {

std::vector<SearchStrategySubject> search_strategy_subjects() {
    return {{"greedy", [](const std::string& options) { return make_greedy_strategy(options, {}); },
             "plateau"}};
}

}  // namespace kernelforge::test

namespace {

NodeSummary root() {
    NodeSummary summary;
    summary.node = {"root"};
    summary.speedup = 1.0;
    summary.leader = true;
    return summary;
}

/// How the n-th expansion ends in these tests: every outcome, and now and then a new leader.
NodeSummary end_of(const Expansion& expansion, std::uint64_t n) {
    NodeSummary summary;
    summary.expansion = expansion.id;
    summary.parent = expansion.parent;
    summary.outcome = static_cast<ExpansionOutcome>(n % 5);
    if (summary.outcome != ExpansionOutcome::evaluated) {
        summary.message = "it ended otherwise";
        return summary;
    }
    summary.node = {"node" + std::to_string(n)};
    if (n % 3 == 1) {
        summary.status = EvaluationStatus::wrong_result;
        return summary;
    }
    summary.speedup = 1.0 + 0.01 * static_cast<double>(n);
    summary.leader = n % 4 == 0;
    return summary;
}

std::string describe(const Expansion& expansion) {
    std::string text = std::to_string(expansion.id) + " " +
                       std::string(to_string(expansion.action)) + " " + expansion.parent.value +
                       " " + expansion.directive;
    for (const NodeId& node : expansion.inspirations) text += " " + node.value;
    return text;
}

/// Asks and tells, `width` at once.
std::vector<Expansion> play(SearchStrategy& strategy, std::size_t rounds, std::size_t width) {
    strategy.tell(root());
    std::vector<Expansion> all;
    for (std::size_t round = 0; round < rounds; ++round) {
        const std::vector<Expansion> asked = strategy.ask(width);
        for (const Expansion& expansion : asked) {
            strategy.tell(end_of(expansion, all.size()));
            all.push_back(expansion);
        }
    }
    return all;
}

}  // namespace

TEST_CASE("every search strategy asks for something after the root is told",
          "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const auto strategy = subject.make("{}");
        strategy->tell(root());
        CHECK_FALSE(strategy->ask(1).empty());
    }
}

TEST_CASE("no search strategy asks for more than it may", "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const auto strategy = subject.make("{}");
        strategy->tell(root());
        CHECK(strategy->ask(0).empty());
        for (const std::size_t count : {1, 3, 17}) CHECK(strategy->ask(count).size() <= count);
    }
}

TEST_CASE("every search strategy gives each expansion an id of its own", "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const std::vector<Expansion> all = play(*subject.make("{}"), 20, 3);
        std::set<std::uint64_t> ids;
        for (const Expansion& expansion : all) ids.insert(expansion.id);
        CHECK(ids.size() == all.size());
    }
}

TEST_CASE("every search strategy names only nodes that it was told are right",
          "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const auto strategy = subject.make("{}");
        strategy->tell(root());
        std::set<std::string> told = {"root"};
        for (std::uint64_t n = 0; n < 60; ++n) {
            for (const Expansion& expansion : strategy->ask(1)) {
                if (expansion.action == ExpansionAction::improve)
                    CHECK_FALSE(expansion.parent.empty());
                if (!expansion.parent.empty()) CHECK(told.contains(expansion.parent.value));
                for (const NodeId& node : expansion.inspirations) CHECK(told.contains(node.value));
                const NodeSummary summary = end_of(expansion, n);
                if (summary.speedup) told.insert(summary.node.value);
                strategy->tell(summary);
            }
        }
    }
}

TEST_CASE("every search strategy repeats itself under the same tells", "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        for (const std::size_t width : {1, 4}) {
            const std::vector<Expansion> first = play(*subject.make("{}"), 20, width);
            const std::vector<Expansion> second = play(*subject.make("{}"), 20, width);
            REQUIRE(first.size() == second.size());
            for (std::size_t i = 0; i < first.size(); ++i)
                CHECK(describe(first[i]) == describe(second[i]));
        }
    }
}

TEST_CASE("every search strategy asks the same one by one as at once", "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const auto at_once = subject.make("{}");
        const auto one_by_one = subject.make("{}");
        at_once->tell(root());
        one_by_one->tell(root());
        for (const Expansion& expected : at_once->ask(5)) {
            const std::vector<Expansion> found = one_by_one->ask(1);
            REQUIRE(found.size() == 1);
            CHECK(describe(found[0]) == describe(expected));
        }
    }
}

TEST_CASE("every search strategy refuses unknown options and lists the known ones",
          "[contract][strategy]") {
    for (const auto& subject : search_strategy_subjects()) {
        INFO(subject.name);
        const auto message =
            error_of([&] { static_cast<void>(subject.make("{\"no_such_option\": 1}")); });
        REQUIRE(message);
        CHECK_THAT(*message, ContainsSubstring("no_such_option"));
        CHECK_THAT(*message, ContainsSubstring(subject.known_option));
        CHECK(error_of([&] { static_cast<void>(subject.make("not JSON")); }));
    }
}
