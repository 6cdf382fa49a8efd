// SPDX-License-Identifier: Apache-2.0
#include "search_greedy/greedy_strategy.hpp"

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

std::unique_ptr<SearchStrategy> greedy(const std::string& options = "{\"drafts\": 0}") {
    return make_greedy_strategy(options, {});
}

NodeSummary root() {
    NodeSummary summary;
    summary.node = {"root"};
    summary.speedup = 1.0;
    summary.leader = true;
    return summary;
}

NodeSummary end_of(const Expansion& expansion, const std::string& node, double speedup,
                   bool leader) {
    NodeSummary summary;
    summary.expansion = expansion.id;
    summary.node = {node};
    summary.parent = expansion.parent;
    summary.speedup = speedup;
    summary.leader = leader;
    return summary;
}

Expansion ask_one(SearchStrategy& strategy) {
    std::vector<Expansion> asked = strategy.ask(1);
    REQUIRE(asked.size() == 1);
    return asked[0];
}

}  // namespace

TEST_CASE("greedy improves the leader with one directive after another", "[greedy]") {
    const auto strategy = greedy();
    strategy->tell(root());
    const std::vector<Expansion> asked = strategy->ask(greedy_directives().size() + 1);
    for (const Expansion& expansion : asked) {
        CHECK(expansion.action == ExpansionAction::improve);
        CHECK(expansion.parent.value == "root");
    }
    CHECK(asked.front().directive == greedy_directives()[0]);
    CHECK(asked[1].directive == greedy_directives()[1]);
    CHECK(asked.back().directive == asked.front().directive);
    strategy->tell(end_of(asked[0], "better", 1.5, true));
    CHECK(ask_one(*strategy).parent.value == "better");
}

TEST_CASE("greedy begins with drafts as the options say", "[greedy]") {
    const auto strategy = greedy("{\"drafts\": 2}");
    strategy->tell(root());
    const std::vector<Expansion> asked = strategy->ask(3);
    CHECK(asked[0].action == ExpansionAction::draft);
    CHECK(asked[0].parent.empty());
    CHECK(asked[1].action == ExpansionAction::draft);
    CHECK(asked[2].parent.value == "root");
}

TEST_CASE("on a plateau greedy tries an elite, a draft and the leader in turn", "[greedy]") {
    const auto strategy = greedy("{\"drafts\": 0, \"plateau\": 2}");
    strategy->tell(root());
    strategy->tell(end_of(ask_one(*strategy), "leader", 2.0, true));
    strategy->tell(end_of(ask_one(*strategy), "slow", 1.2, false));
    strategy->tell(end_of(ask_one(*strategy), "close", 1.9, false));
    const Expansion elite = ask_one(*strategy);
    CHECK(elite.parent.value == "close");
    CHECK(elite.inspirations == std::vector<NodeId>{{"leader"}});
    const Expansion draft = ask_one(*strategy);
    CHECK(draft.action == ExpansionAction::draft);
    CHECK(draft.parent.empty());
    CHECK_THAT(draft.directive, ContainsSubstring("fundamentally different"));
    CHECK(ask_one(*strategy).parent.value == "leader");
    CHECK(ask_one(*strategy).parent.value == "slow");
    strategy->tell(end_of(draft, "new", 3.0, true));
    CHECK(ask_one(*strategy).parent.value == "new");
}

TEST_CASE("greedy does not take what failed for an elite", "[greedy]") {
    const auto strategy = greedy("{\"drafts\": 0, \"plateau\": 1}");
    strategy->tell(root());
    NodeSummary wrong = end_of(ask_one(*strategy), "wrong", 5.0, false);
    wrong.status = EvaluationStatus::wrong_result;
    strategy->tell(wrong);
    CHECK(ask_one(*strategy).parent.value == "root");
}

TEST_CASE("greedy takes its options, and refuses others", "[greedy]") {
    const auto strategy = greedy(R"({"directives": ["a", "b"], "max_expansions": 3, "drafts": 0})");
    strategy->tell(root());
    const std::vector<Expansion> asked = strategy->ask(10);
    REQUIRE(asked.size() == 3);
    CHECK(asked[1].directive == "b");
    CHECK(strategy->ask(1).empty());
    for (const char* options :
         {"{\"directives\": []}", "{\"plateau\": 0}", "{\"speed\": 1}", "[]", "{"}) {
        INFO(options);
        CHECK(error_of([&] { static_cast<void>(greedy(options)); }));
    }
    CHECK_THAT(*error_of([&] { static_cast<void>(greedy("{\"speed\": 1}")); }),
               ContainsSubstring("plateau"));
}
