// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/forge.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>

#include "archive.hpp"
#include "base/files.hpp"
#include "base/json_text.hpp"
#include "builds.hpp"
#include "support/catch.hpp"
#include "support/forge_world.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;
using namespace std::chrono_literals;

namespace {

std::vector<NodeRecord> nodes_of(const ForgeWorld& world) {
    std::vector<NodeRecord> nodes;
    for (const ArchiveRecord& record : read_archive(world.options.run_folder).records) {
        const auto* node = std::get_if<NodeRecord>(&record);
        if (node != nullptr && node->expansion) nodes.push_back(*node);
    }
    return nodes;
}

std::filesystem::path file_in(const ForgeWorld& world, const char* name) {
    return std::filesystem::path(world.options.run_folder) / name;
}

NodeSummary only_tell(const FakeFate& fate) {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, fate);
    static_cast<void>(world.run());
    CHECK(world.told_once_each());
    return world.tell(0);
}

NodeSummary tell_of_text(const std::string& text) {
    ForgeWorld world;
    world.expansions = 1;
    world.llm->replies[{0, 0}] = text;
    static_cast<void>(world.run());
    return world.tell(0);
}

}  // namespace

TEST_CASE("a run finds the fastest right candidate and says so", "[forge]") {
    ForgeWorld world;
    world.expansions = 3;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    world.reply(2, {.time_ns = 6'000});
    const ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::nothing_to_ask);
    CHECK(result.evaluations == 3);
    CHECK(result.expansions == 3);
    REQUIRE(result.speedup);
    CHECK(*result.speedup == Approx(2.0));
    REQUIRE(result.best.variants.size() == 1);
    CHECK(result.best.variants[0].candidate.source == fake_source({.time_ns = 5'000}));
    CHECK(read_file(result.best_path) == fake_source({.time_ns = 5'000}));
    CHECK(result.best_node == node_id(result.best.variants[0].candidate));
    CHECK(result.usage.input_tokens == 300);
    CHECK(result.usage.output_tokens == 150);
    CHECK(*result.usage.cost_usd == Approx(0.75));
    CHECK(result.device.name == "Fake H200");
    REQUIRE(result.workloads.size() == 2);
    CHECK(result.workloads[1].uuid == "large");
    CHECK(*result.workloads[1].best_s == Approx(10e-6));
    CHECK(*result.workloads[1].speedup == Approx(2.0));
    CHECK(result.workloads[0].baselines_s[0].first == "portable");
    CHECK(*result.workloads[0].headroom > 1.0);
}

TEST_CASE("a strategy is told of the baseline, then once of each expansion", "[forge]") {
    ForgeWorld world;
    world.expansions = 3;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    world.reply(2, {.time_ns = 6'000});
    static_cast<void>(world.run());
    const auto& tells = world.strategy->tells;
    REQUIRE(tells.size() == 4);
    CHECK_FALSE(tells[0].expansion);
    CHECK(tells[0].leader);
    CHECK(tells[1].leader);
    CHECK(tells[2].leader);
    CHECK_FALSE(tells[3].leader);
    CHECK(tells[3].status == EvaluationStatus::ok);
    CHECK(*tells[3].speedup == Approx(10.0 / 6.0));
    CHECK(tells[3].parent == tells[2].node);
    CHECK(tells[3].change_class == "tiling");
    CHECK(world.told_once_each());
}

TEST_CASE("run.json says what came out, and holds no path", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    static_cast<void>(world.run());
    const std::string text = read_file(file_in(world, "run.json"));
    const Json json = Json::parse(text);
    CHECK(json["format"] == "kernelforge-run");
    CHECK(json["version"] == 1);
    CHECK(json["state"] == "ended");
    CHECK(json["result"]["stop_reason"] == "nothing_to_ask");
    CHECK(json["result"]["best_file"] == "best.cu");
    CHECK(json["result"]["workloads"][0]["baselines_s"]["portable"].get<double>() == Approx(10e-6));
    CHECK(text.find(world.folder.path().string()) == std::string::npos);
}

TEST_CASE("nothing that beats the baseline gives an empty solution", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 12'000});
    const ForgeResult result = world.run();
    CHECK(result.best.variants.empty());
    CHECK(result.best_path.empty());
    CHECK(*result.speedup == Approx(1.0));
    CHECK_FALSE(std::filesystem::exists(file_in(world, "best.cu")));
}

TEST_CASE("a candidate that was only lucky in the screen does not lead", "[forge]") {
    const NodeSummary tell = only_tell({.time_ns = 9'900, .slower_in_promotion = 5});
    CHECK(tell.status == EvaluationStatus::ok);
    CHECK_FALSE(tell.leader);
    CHECK(*tell.speedup < 1.0);
}

TEST_CASE("every verdict of the evaluator reaches the strategy", "[forge]") {
    for (const EvaluationStatus status :
         {EvaluationStatus::launch_error, EvaluationStatus::crashed, EvaluationStatus::timed_out,
          EvaluationStatus::wrong_result, EvaluationStatus::unstable, EvaluationStatus::rejected}) {
        const NodeSummary tell = only_tell({.time_ns = 5'000, .status = status});
        INFO(to_string(status));
        CHECK(tell.outcome == ExpansionOutcome::evaluated);
        CHECK(tell.status == status);
        CHECK_FALSE(tell.speedup);
        CHECK_FALSE(tell.leader);
        CHECK_THAT(tell.message, ContainsSubstring("says the fake"));
    }
}

TEST_CASE("what fails before evaluation is told with its cause", "[forge]") {
    const NodeSummary compile = only_tell({.status = EvaluationStatus::compile_error});
    CHECK(compile.status == EvaluationStatus::compile_error);
    CHECK_THAT(compile.message, ContainsSubstring("candidate.cu:4:15: identifier \"fake\""));
    const NodeSummary plan = only_tell({.status = EvaluationStatus::plan_error});
    CHECK(plan.status == EvaluationStatus::plan_error);
    CHECK_THAT(plan.message, ContainsSubstring("candidate.cu:2"));
    const NodeSummary spills = only_tell({.spill_bytes = 5000});
    CHECK(spills.outcome == ExpansionOutcome::guarded);
    CHECK_THAT(spills.message, ContainsSubstring("spills: kernel scale: 5000 bytes"));
    const NodeSummary prose = tell_of_text("I am sorry, I have no idea.");
    CHECK(prose.outcome == ExpansionOutcome::no_candidate);
    CHECK(prose.node.empty());
    CHECK_FALSE(prose.message.empty());
    std::string printing = fake_source({});
    printing.insert(printing.find("y[at]"), "printf(\"%d\", i);\n");
    const NodeSummary guarded = tell_of_text("```cuda\n" + printing + "```\n");
    CHECK(guarded.outcome == ExpansionOutcome::guarded);
    CHECK_THAT(guarded.message, ContainsSubstring("`printf` is not allowed"));
}

TEST_CASE("a declined request and an oversized candidate end their expansions", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.llm->status = ChatStatus::refused;
    world.reply(0, {});
    static_cast<void>(world.run());
    CHECK(world.tell(0).outcome == ExpansionOutcome::no_candidate);
    ForgeWorld large;
    large.expansions = 1;
    large.options.max_source_bytes = 100;
    large.reply(0, {.time_ns = 1});
    static_cast<void>(large.run());
    CHECK(large.tell(0).outcome == ExpansionOutcome::guarded);
    CHECK_THAT(large.tell(0).message, ContainsSubstring("size: "));
}

TEST_CASE("a candidate that is known is not evaluated again", "[forge]") {
    ForgeWorld world;
    world.expansions = 4;
    world.reply(0, {.time_ns = 8'000, .cubin = "one"});
    world.llm->replies[{1, 0}] =
        "```cuda\n// hello\n" + fake_source({.time_ns = 8'000, .cubin = "one"}) + "```";
    world.reply(2, {.time_ns = 7'000, .cubin = "one"});
    world.reply(3, {.time_ns = 10'000});
    const ForgeResult result = world.run();
    CHECK(result.evaluations == 1);
    CHECK(world.tell(1).outcome == ExpansionOutcome::duplicate);
    CHECK(world.tell(1).node == world.tell(0).node);
    CHECK_THAT(world.tell(1).message, ContainsSubstring("the same text"));
    CHECK(world.tell(2).outcome == ExpansionOutcome::duplicate);
    CHECK_THAT(world.tell(2).message, ContainsSubstring("the same machine code"));
    CHECK(world.tell(3).node == node_id({fake_source({.time_ns = 10'000}), {}}));
    CHECK(world.told_once_each());
}

TEST_CASE("compile errors and wrong results are repaired within one expansion", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.options.max_repairs = 2;
    world.reply(0, {.time_ns = 5'001, .status = EvaluationStatus::compile_error}, 0);
    world.reply(0, {.time_ns = 5'002, .status = EvaluationStatus::wrong_result}, 1);
    world.reply(0, {.time_ns = 5'000}, 2);
    const ForgeResult result = world.run();
    CHECK(*result.speedup == Approx(2.0));
    CHECK(world.tell(0).leader);
    CHECK(world.told_once_each());
    CHECK(result.evaluations == 2);
    const std::string compile = world.llm->last_message({0, 1});
    CHECK_THAT(compile, ContainsSubstring("line 4: identifier \"fake\" is undefined"));
    CHECK_THAT(compile, ContainsSubstring("4 | constexpr int fake_status"));
    const std::string wrong = world.llm->last_message({0, 2});
    CHECK_THAT(wrong, ContainsSubstring("output y"));
    CHECK_THAT(wrong, ContainsSubstring("[0, 17]"));
    CHECK(world.llm->requests[{0, 2}].messages.size() == 6);
    const std::vector<NodeRecord> nodes = nodes_of(world);
    REQUIRE(nodes.size() == 3);
    CHECK_FALSE(nodes[0].final);
    CHECK_FALSE(nodes[1].final);
    CHECK(nodes[2].final);
    CHECK(nodes[1].parent == nodes[0].id);
    CHECK(nodes[2].parent == nodes[1].id);
    CHECK(nodes[2].action == ExpansionAction::repair);
}

TEST_CASE("repairs end after max_repairs, and the best end of an expansion is told", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.options.max_repairs = 1;
    world.reply(0, {.status = EvaluationStatus::wrong_result}, 0);
    world.llm->replies[{0, 1}] = "I give up.";
    static_cast<void>(world.run());
    CHECK(world.tell(0).outcome == ExpansionOutcome::evaluated);
    CHECK(world.tell(0).status == EvaluationStatus::wrong_result);
    CHECK(world.llm->total_answered() == 2);
    CHECK(world.told_once_each());
}

TEST_CASE("a plan error is quoted to the model", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.options.max_repairs = 1;
    world.reply(0, {.status = EvaluationStatus::plan_error}, 0);
    world.reply(0, {.time_ns = 5'000}, 1);
    static_cast<void>(world.run());
    CHECK_THAT(world.llm->last_message({0, 1}),
               ContainsSubstring("2 | //@launch scale<<<(rows), (4096)>>>"));
    CHECK(world.tell(0).leader);
}

TEST_CASE("each kind of budget ends a run", "[forge]") {
    ForgeWorld world;
    world.expansions = 100;
    world.llm->otherwise = [](const ChatRequest& request) {
        return fake_reply(
            {.time_ns = 9'000 - 100 * static_cast<std::int64_t>(request.key.expansion)});
    };
    SECTION("evaluations") {
        world.options.budget.evaluations = 5;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.evaluations == 5);
        CHECK(result.expansions == 5);
        CHECK(result.message == "5 of 5 evaluations are used");
    }
    SECTION("tokens") {
        world.options.budget.tokens = 450;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 3);
        CHECK(result.message == "450 of 450 tokens are used");
    }
    SECTION("money") {
        world.options.budget.cost_usd = 0.9;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 4);
        CHECK_THAT(result.message, ContainsSubstring("USD"));
    }
    SECTION("time") {
        world.options.budget.time = 0s;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 0);
    }
    SECTION("rounds") {
        world.options.generations = 3;
        world.options.max_rounds = 2;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 6);
        CHECK(result.message == "2 rounds are done");
    }
    CHECK(world.told_once_each());
}

TEST_CASE("a raised budget goes on where the run ended", "[forge]") {
    ForgeWorld world;
    world.expansions = 100;
    world.options.max_repairs = 1;
    world.llm->otherwise = [](const ChatRequest& request) {
        FakeFate fate{.time_ns = 9'000 - 100 * static_cast<std::int64_t>(request.key.expansion)};
        if (request.key.turn == 0 && request.key.expansion % 2 == 1)
            fate.status = EvaluationStatus::wrong_result;
        return fake_reply(fate);
    };
    for (const std::int64_t budget : {2, 3, 7}) {
        world.options.budget.evaluations = budget;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.evaluations == budget);
    }
    CHECK(world.llm->most_answered() == 1);
    CHECK(world.told_once_each());
}

TEST_CASE("a model that never brings a candidate is not asked for ever", "[forge]") {
    ForgeWorld world;
    world.expansions = 1000;
    world.llm->otherwise = [](const ChatRequest&) { return std::string("no idea"); };
    const ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::budget);
    CHECK(result.expansions == 20);
    CHECK_THAT(result.message, ContainsSubstring("nothing to evaluate"));
}

TEST_CASE("headroom and target end a run once the leader is there", "[forge]") {
    ForgeWorld world;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 4'000});
    SECTION("target") {
        world.options.target_speedup = 2.0;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::target);
        CHECK(result.expansions == 2);
    }
    SECTION("headroom") {
        world.options.stop_headroom = 35.0;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::headroom);
        CHECK(result.expansions == 2);
    }
}

TEST_CASE("completions that are pending suspend a run, with generations and without", "[forge]") {
    const bool rounds = GENERATE(true, false);
    const bool same_forge = GENERATE(true, false);
    ForgeWorld world;
    (rounds ? world.options.generations : world.options.max_in_flight) = 3;
    world.expansions = 4;
    world.llm->pending = true;
    for (std::uint64_t i = 0; i < 4; ++i)
        world.reply(i, {.time_ns = 9'000 - 1'000 * static_cast<std::int64_t>(i)});
    auto forge = std::make_unique<Forge>(world.forge());
    std::vector<std::string> messages;
    for (int visit = 0; visit < 6; ++visit) {
        const ForgeResult result = forge->run(world.task);
        messages.push_back(result.message);
        if (result.stop_reason != StopReason::waiting_for_completions) break;
        world.llm->deliver();
        if (!same_forge) {
            forge.reset();
            forge = std::make_unique<Forge>(world.forge());
        }
    }
    CHECK(messages ==
          std::vector<std::string>{"waiting for 3 completions; answer them, then run again",
                                   "waiting for 1 completion; answer it, then run again",
                                   "the search strategy has nothing more to ask"});
    CHECK(world.llm->most_answered() == 1);
    CHECK(world.tell(3).leader);
    CHECK(world.told_once_each());
}

TEST_CASE("with generations one visit of the device evaluates a whole round", "[forge]") {
    ForgeWorld world;
    world.options.generations = 3;
    world.expansions = 3;
    world.evaluator->pending = true;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    world.reply(2, {.time_ns = 7'000});
    ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::waiting_for_evaluations);
    CHECK(result.message ==
          "waiting for 1 evaluation; run again once a worker has served it");  // the baseline
    world.evaluator->visit();
    result = world.run();
    CHECK(result.stop_reason == StopReason::waiting_for_evaluations);
    CHECK(result.message == "waiting for 3 evaluations; run again once a worker has served them");
    world.evaluator->visit();
    result = world.run();
    CHECK(result.stop_reason == StopReason::nothing_to_ask);
    CHECK(*result.speedup == Approx(2.0));
    CHECK(world.tell(1).leader);
    CHECK_FALSE(world.tell(0).leader);
    CHECK_FALSE(world.tell(2).leader);
    CHECK(world.llm->most_answered() == 1);
}

TEST_CASE("without generations a pending evaluation suspends the run", "[forge]") {
    ForgeWorld world;
    world.expansions = 2;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    world.evaluator->pending = true;
    int visits = 0;
    ForgeResult result = world.run();
    while (result.stop_reason == StopReason::waiting_for_evaluations && visits < 10) {
        CHECK(result.message == "waiting for 1 evaluation; run again once a worker has served it");
        world.evaluator->visit();
        ++visits;
        result = world.run();
    }
    CHECK(visits == 3);
    CHECK(*result.speedup == Approx(2.0));
}

TEST_CASE("with generations repairs are the next turns of the same round", "[forge]") {
    ForgeWorld world;
    world.options.generations = 2;
    world.options.max_repairs = 1;
    world.expansions = 2;
    world.llm->pending = true;
    world.reply(0, {.time_ns = 8'000, .status = EvaluationStatus::wrong_result});
    world.reply(0, {.time_ns = 4'000}, 1);
    world.reply(1, {.time_ns = 5'000});
    CHECK(world.run().message == "waiting for 2 completions; answer them, then run again");
    world.llm->deliver();
    CHECK(world.run().message == "waiting for 1 completion; answer it, then run again");
    CHECK(world.strategy->tells.size() == 1);
    world.llm->deliver();
    const ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::nothing_to_ask);
    CHECK(world.tell(0).leader);
    CHECK_FALSE(world.tell(1).leader);
    CHECK(world.told_once_each());
}

TEST_CASE("a failed model call costs its expansion, three in a row end the run", "[forge]") {
    ForgeWorld world;
    world.expansions = 6;
    for (std::uint64_t i = 0; i < 6; ++i)
        world.reply(i, {.time_ns = 9'000 - 100 * static_cast<std::int64_t>(i)});
    world.llm->errors = {{{1, 0}, ErrorCode::backend_failed}};
    SECTION("one") {
        CHECK(world.run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(1).outcome == ExpansionOutcome::failed);
        CHECK(world.tell(2).leader);
    }
    SECTION("three") {
        world.llm->errors[{2, 0}] = ErrorCode::backend_failed;
        world.llm->errors[{3, 0}] = ErrorCode::backend_failed;
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::backend_failed);
        CHECK_THAT(result.message, ContainsSubstring("fake model: no answer"));
        CHECK(world.tell(0).leader);
        world.llm->errors.clear();
        CHECK(world.run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(2).outcome == ExpansionOutcome::failed);
        CHECK(world.tell(3).leader);
    }
    SECTION("a repair that is not recorded") {
        world.llm->errors.clear();
        world.options.max_repairs = 1;
        world.reply(1, {.status = EvaluationStatus::wrong_result});
        world.llm->errors[{1, 1}] = ErrorCode::not_found;
        CHECK(world.run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(1).status == EvaluationStatus::wrong_result);
        CHECK(world.tell(2).leader);
    }
    SECTION("a missing secret") {
        world.llm->errors[{1, 0}] = ErrorCode::not_found;
        CHECK(world.run().stop_reason == StopReason::backend_failed);
        world.llm->errors.clear();
        CHECK(world.run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(1).leader);
    }
    CHECK(world.told_once_each());
}

TEST_CASE("an evaluator that fails is asked once more, three failures in a row end the run",
          "[forge]") {
    ForgeWorld world;
    world.expansions = 2;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    world.evaluator->throws = GENERATE(true, false);
    const int failures = GENERATE(1, 2, 3);
    world.on_event = [&](const ForgeEvent& event) {
        if (event.kind == ForgeEvent::Kind::baseline) world.evaluator->fail_next = failures;
    };
    const ForgeResult result = world.run();
    if (failures == 1) {
        CHECK(result.stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(0).leader);
    } else if (failures == 2) {
        CHECK(world.tell(0).status == EvaluationStatus::evaluator_failed);
        CHECK(world.tell(1).leader);
    } else {
        CHECK(result.stop_reason == StopReason::evaluator_failed);
        CHECK_THAT(result.message, ContainsSubstring("three times in a row"));
        world.on_event = {};
        CHECK(world.run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world.tell(1).leader);
    }
    CHECK(world.llm->most_answered() == 1);
}

TEST_CASE("a stop ends a run within a second and keeps everything", "[forge]") {
    ForgeWorld world;
    world.expansions = 3;
    for (std::uint64_t i = 0; i < 3; ++i)
        world.reply(i, {.time_ns = 9'000 - 1'000 * static_cast<std::int64_t>(i)});
    std::stop_source stop;
    SECTION("in a model call") {
        world.llm->on_complete = [&](const ChatRequest& request) {
            if (request.key.expansion == 1) stop.request_stop();
        };
        world.llm->duration = 20ms;
    }
    SECTION("in an evaluation") {
        world.evaluator->on_evaluate = [&](const EvaluationRequest& request) {
            if (request.opponent) stop.request_stop();
        };
    }
    SECTION("in a callback") {
        world.on_event = [&](const ForgeEvent& event) {
            if (event.kind == ForgeEvent::Kind::compiled) stop.request_stop();
        };
    }
    const auto begin = std::chrono::steady_clock::now();
    const ForgeResult stopped = world.run(stop.get_token());
    CHECK(std::chrono::steady_clock::now() - begin < 1s);
    CHECK(stopped.stop_reason == StopReason::stopped);
    world.on_event = {};
    world.evaluator->on_evaluate = {};
    world.llm->on_complete = {};
    const ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::nothing_to_ask);
    CHECK(result.evaluations == 3);
    CHECK(*result.speedup == Approx(10.0 / 7.0));
    CHECK(world.llm->most_answered() == 1);
}

TEST_CASE("a stop while jobs run for long returns within a second", "[forge]") {
    ForgeWorld world;
    world.options.max_in_flight = 4;
    world.expansions = 8;
    world.llm->otherwise = [](const ChatRequest&) { return fake_reply({.time_ns = 5'000}); };
    std::stop_source stop;
    std::jthread stopper;
    const auto stop_after = [&] {
        stopper = std::jthread([&] {
            std::this_thread::sleep_for(30ms);
            stop.request_stop();
        });
    };
    SECTION("model calls") {
        world.llm->duration = 60s;
    }
    SECTION("compilations") {
        world.on_event = [&](const ForgeEvent& event) {
            if (event.kind == ForgeEvent::Kind::replied) world.compiler->duration = 60s;
        };
    }
    SECTION("evaluations") {
        world.on_event = [&](const ForgeEvent& event) {
            if (event.kind == ForgeEvent::Kind::compiled) world.evaluator->duration = 60s;
        };
    }
    stop_after();
    const auto begin = std::chrono::steady_clock::now();
    CHECK(world.run(stop.get_token()).stop_reason == StopReason::stopped);
    CHECK(std::chrono::steady_clock::now() - begin < 1s);
}

TEST_CASE("model calls and compilations run side by side up to max_in_flight", "[forge]") {
    const auto run = [](std::size_t in_flight) {
        auto world = std::make_unique<ForgeWorld>();
        world->options.max_in_flight = in_flight;
        world->options.max_repairs = 1;
        world->expansions = 12;
        world->llm->duration = 3ms;
        world->compiler->duration = 1ms;
        world->llm->otherwise = [](const ChatRequest& request) {
            FakeFate fate{.time_ns =
                              9'000 - 100 * static_cast<std::int64_t>(request.key.expansion)};
            if (request.key.turn == 0 && request.key.expansion % 4 == 1)
                fate.status = EvaluationStatus::compile_error;
            if (request.key.turn == 0 && request.key.expansion % 4 == 2)
                fate.status = EvaluationStatus::wrong_result;
            return fake_reply(fate);
        };
        CHECK(world->run().stop_reason == StopReason::nothing_to_ask);
        CHECK(world->told_once_each());
        CHECK(world->llm->most_answered() == 1);
        return world;
    };
    const auto one = run(1);
    CHECK(one->llm->most_running == 1);
    const auto four = run(4);
    CHECK(four->llm->most_running > 1);
    CHECK(four->llm->most_running <= 4);
    const auto again = run(4);
    REQUIRE(again->strategy->tells.size() == four->strategy->tells.size());
    for (std::size_t i = 0; i < four->strategy->tells.size(); ++i) {
        CHECK(again->strategy->tells[i].node == four->strategy->tells[i].node);
        CHECK(again->strategy->tells[i].expansion == four->strategy->tells[i].expansion);
    }
}

TEST_CASE("baselines are measured, and one that cannot be is reported", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    world.task.baselines.push_back(
        {.name = "eager", .kind = BaselineSpec::Kind::command, .command = {"python3", "eager.py"}});
    world.task.baselines.push_back(
        {.name = "broken",
         .source = fake_source({.time_ns = 1, .status = EvaluationStatus::crashed})});
    world.task.baselines.push_back({.name = "better", .source = fake_source({.time_ns = 7'000})});
    const ForgeResult result = world.run();
    const auto& baselines = result.workloads.at(0).baselines_s;
    REQUIRE(baselines.size() == 3);
    CHECK(baselines[0] == std::pair<std::string, double>("portable", 10e-6));
    CHECK(baselines[1].first == "eager");
    CHECK(baselines[2].first == "better");
    CHECK(*result.speedup == Approx(2.0));
    CHECK(std::any_of(world.events.begin(), world.events.end(), [](const ForgeEvent& event) {
        return event.kind == ForgeEvent::Kind::baseline &&
               event.status == EvaluationStatus::crashed;
    }));
    const int calls = static_cast<int>(world.evaluator->calls.size());
    static_cast<void>(world.run());
    CHECK(static_cast<int>(world.evaluator->calls.size()) == calls);
}

TEST_CASE("what a run cannot start with is refused in one sentence", "[forge]") {
    ForgeWorld world;
    SECTION("no device") {
        world.evaluator->devices.clear();
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring("no usable GPU: the evaluator has no device 0"));
    }
    SECTION("no reference") {
        world.task.reference_cuda.clear();
        CHECK(*error_of([&] { static_cast<void>(world.run()); }) ==
              "task scale: definition.json needs \"kernelforge\": {\"reference_cuda\": ...}; "
              "running the PyTorch reference is not supported yet");
    }
    SECTION("a reference that does not compile") {
        world.task.reference_cuda = fake_source({.status = EvaluationStatus::compile_error});
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring("its reference cannot be used"));
    }
    SECTION("sources that do not compile are named as they were read, seen from the task") {
        const std::string broken = fake_source({.status = EvaluationStatus::compile_error});
        world.task.folder = "/tasks/scale";
        world.task.reference_cuda_path = "/tasks/scale/truth.cu";
        world.task.baselines[0].source_path = "/tasks/scale/sub/today.cu";
        world.task.baselines[0].source = broken;
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring(" sub/today.cu:4:15: identifier"));
        world.task.baselines[0].source_path = "/elsewhere/today.cu";
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring(" /elsewhere/today.cu:4:15: identifier"));
        world.task.reference_cuda = broken;
        world.options.run_folder += "2";  // another task by its hash
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring(" truth.cu:4:15: identifier"));
    }
    SECTION("a portable baseline that is wrong") {
        world.task.baselines[0].source = fake_source({.status = EvaluationStatus::wrong_result});
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring("its baseline portable must be right, found wrong_result"));
    }
    SECTION("another task's run") {
        world.expansions = 0;
        static_cast<void>(world.run());
        world.task.workloads.pop_back();
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring("it holds a run with task_sha256"));
    }
    SECTION("another seed") {
        world.expansions = 0;
        static_cast<void>(world.run());
        world.options.seed = 7;
        CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
                   ContainsSubstring("it holds a run with seed 0, this one has 7"));
    }
    SECTION("another task for the same forge") {
        world.expansions = 0;
        Forge forge = world.forge();
        static_cast<void>(forge.run(world.task));
        Task other = world.task;
        other.workloads.pop_back();
        CHECK_THAT(*error_of([&] { static_cast<void>(forge.run(other)); }),
                   ContainsSubstring("another task"));
    }
    SECTION("a missing part, an option out of range") {
        CHECK_THAT(*error_of([&] { Forge({}, world.options); }),
                   ContainsSubstring("expected a compiler"));
        world.options.max_in_flight = 0;
        CHECK_THAT(*error_of([&] { static_cast<void>(world.forge()); }),
                   ContainsSubstring("max_in_flight"));
    }
}

TEST_CASE("a strategy that asks otherwise than recorded is reported", "[forge]") {
    ForgeWorld world;
    world.expansions = 2;
    world.reply(0, {.time_ns = 8'000});
    world.reply(1, {.time_ns = 5'000});
    static_cast<void>(world.run());
    world.strategy->edit = [](Expansion& expansion) { expansion.directive += "!"; };
    CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
               ContainsSubstring("the search strategy now asks for"));
    world.strategy->edit = {};
    world.expansions = 1;
    CHECK_THAT(*error_of([&] { static_cast<void>(world.run()); }),
               ContainsSubstring("asks for nothing"));
}

TEST_CASE("a usage that is absurd does not lift the budget", "[forge]") {
    ForgeWorld world;
    world.expansions = 100;
    world.options.budget.evaluations.reset();
    world.llm->otherwise = [](const ChatRequest& request) {
        return fake_reply(
            {.time_ns = 9'000 - 10 * static_cast<std::int64_t>(request.key.expansion)});
    };
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    SECTION("tokens that overflow") {
        world.options.budget.tokens = 1'000;
        world.llm->usage = {most, most, most, {}};
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 1);
        CHECK_THAT(result.message, ContainsSubstring("of 1000 tokens are used"));
        CHECK(result.usage.input_tokens == most);
    }
    SECTION("tokens that overflow together") {
        world.options.budget.tokens = most;
        world.llm->usage = {most / 2 + 1, {}, most / 4, {}};
        CHECK(world.run().expansions == 2);
    }
    SECTION("tokens below 0") {
        world.expansions = 3;
        world.llm->usage = {-5, most, std::numeric_limits<std::int64_t>::min(), {}};
        const ForgeResult result = world.run();
        CHECK_FALSE(result.usage.input_tokens);
        CHECK_FALSE(result.usage.output_tokens);
        CHECK(result.usage.cached_input_tokens == most);
    }
    SECTION("a cost that is no number or below 0") {
        world.expansions = 2;
        world.llm->usage.cost_usd = GENERATE(std::numeric_limits<double>::quiet_NaN(), -1.0);
        CHECK_FALSE(world.run().usage.cost_usd);
    }
    SECTION("a cost without end") {
        world.options.budget.cost_usd = 1.0;
        world.llm->usage.cost_usd = std::numeric_limits<double>::infinity();
        const ForgeResult result = world.run();
        CHECK(result.stop_reason == StopReason::budget);
        CHECK(result.expansions == 1);
        CHECK(result.usage.cost_usd == std::numeric_limits<double>::max());
    }
}

TEST_CASE("a budget out of range is refused by its name, and one of 0 asks nothing", "[forge]") {
    const auto refusal = [](const auto& change) {
        ForgeWorld world;
        change(world.options.budget);
        return error_of([&] { static_cast<void>(world.forge()); }).value_or("");
    };
    CHECK_THAT(refusal([](Budget& budget) { budget.evaluations = -1; }),
               ContainsSubstring("budget.evaluations"));
    CHECK_THAT(refusal([](Budget& budget) { budget.tokens = -1; }),
               ContainsSubstring("budget.tokens"));
    CHECK_THAT(refusal([](Budget& budget) { budget.cost_usd = -0.5; }),
               ContainsSubstring("budget.cost_usd"));
    CHECK_THAT(
        refusal([](Budget& budget) { budget.cost_usd = std::numeric_limits<double>::quiet_NaN(); }),
        ContainsSubstring("budget.cost_usd"));
    CHECK_THAT(refusal([](Budget& budget) { budget.time = -1s; }),
               ContainsSubstring("budget.time"));
    CHECK_THAT(refusal([](Budget& budget) { budget.time = std::chrono::seconds::max(); }),
               ContainsSubstring("budget.time"));
    ForgeWorld world;
    world.options.budget.evaluations = 0;
    const ForgeResult result = world.run();
    CHECK(result.stop_reason == StopReason::budget);
    CHECK(world.llm->total_answered() == 0);
}

TEST_CASE("an implausible verdict is the evaluator's failure", "[forge]") {
    const double time = GENERATE(0.0, -1e-6, std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity());
    const bool baseline = GENERATE(true, false);
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    world.evaluator->edit = [&](const EvaluationRequest& request, Evaluation& evaluation) {
        if (request.opponent.has_value() == baseline) return;
        evaluation.workloads.at(1).timing->median_s = time;
    };
    const ForgeResult result = world.run();
    if (baseline) {
        CHECK(result.stop_reason == StopReason::evaluator_failed);
        CHECK_THAT(result.message, ContainsSubstring("implausible verdict: workload 1"));
        CHECK(world.llm->total_answered() == 0);
        world.evaluator->edit = {};
        CHECK(*world.run().speedup == Approx(2.0));
    } else {
        CHECK(world.tell(0).status == EvaluationStatus::evaluator_failed);
        CHECK_THAT(world.tell(0).message, ContainsSubstring("implausible verdict: workload 1"));
        CHECK(*result.speedup == Approx(1.0));
    }
}

TEST_CASE("an archived verdict that is implausible is a damaged archive", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    static_cast<void>(world.run());
    const std::filesystem::path archive = file_in(world, "archive.jsonl");
    std::string text = read_file(archive);
    const std::string good = "\"workload\":1,\"status\"";
    const bool baseline = GENERATE(true, false);
    const std::size_t at = baseline ? text.find(good) : text.rfind(good);
    REQUIRE(at != std::string::npos);
    text.replace(at, good.size(), "\"workload\":99,\"status\"");
    write_file_atomically(archive, text);
    CHECK_THAT(error_of([&] { static_cast<void>(world.run()); }).value_or(""),
               ContainsSubstring("implausible verdict: workload 99 was not asked for"));
}

TEST_CASE("a failed compilation says its error once", "[forge]") {
    CompileResult build;
    build.status = CompileStatus::error;
    build.diagnostics.push_back(
        {CompileDiagnostic::Severity::error, {"a.cu", 6, 9}, "identifier \"y\" is undefined"});
    build.message = "a.cu:6:9: identifier \"y\" is undefined";
    CHECK(describe_failure(build) == build.message);
    build.message = "1 error";
    CHECK(describe_failure(build) == "1 error: a.cu:6:9: identifier \"y\" is undefined");
}

TEST_CASE("a run that waits says so in one event", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    const auto said = [&](const std::string& message) {
        return std::count_if(world.events.begin(), world.events.end(),
                             [&](const ForgeEvent& event) { return event.message == message; });
    };
    (GENERATE(true, false) ? world.llm->pending : world.evaluator->pending) = true;
    const ForgeResult waiting = world.run();
    CHECK(said(waiting.message) == 1);
    CHECK(world.events.back().kind == ForgeEvent::Kind::waiting);
    world.llm->pending = world.evaluator->pending = false;
    const ForgeResult ended = world.run();
    CHECK(said(ended.message) == 1);
    CHECK(world.events.back().kind == ForgeEvent::Kind::stopped);
}

TEST_CASE("a result is reported over the best baseline too, by name", "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    BaselineSpec library;
    library.name = "library";
    library.kind = BaselineSpec::Kind::cublaslt;
    library.source = fake_source({.time_ns = 4'000});
    BaselineSpec slow = library;
    slow.name = "slow";
    slow.kind = BaselineSpec::Kind::cuda;
    slow.source = fake_source({.time_ns = 20'000});
    world.task.baselines.push_back(library);
    world.task.baselines.push_back(slow);
    const ForgeResult result = world.run();
    CHECK(*result.speedup == Approx(2.0));
    CHECK(result.best_baseline == "library");
    CHECK(*result.speedup_over_best == Approx(0.8));
    CHECK(result.workloads[0].baselines_s.size() == 3);
    const std::string file = read_file(world.options.run_folder + "/run.json", 1 << 20);
    CHECK_THAT(file, ContainsSubstring("\"best_baseline\": \"library\""));
    // A baseline that lacks a workload is no opponent for the whole.
    ForgeWorld partial;
    partial.expansions = 1;
    partial.reply(0, {.time_ns = 5'000});
    partial.task.baselines.push_back(library);
    partial.evaluator->edit = [](const EvaluationRequest& request, Evaluation& evaluation) {
        if (request.candidate.candidate.source == fake_source({.time_ns = 4'000})) {
            evaluation.status = EvaluationStatus::evaluator_failed;
        }
    };
    const ForgeResult other = partial.run();
    CHECK(other.best_baseline == "portable");
    CHECK(*other.speedup_over_best == Approx(2.0));
}

TEST_CASE("findings of a sanitizer keep a faster candidate from leading, and it may be repaired",
          "[forge]") {
    ForgeWorld world;
    world.expansions = 1;
    world.options.max_repairs = 1;
    world.reply(0, {.time_ns = 5'000});
    world.reply(0, {.time_ns = 6'000}, 1);
    world.evaluator->edit = [](const EvaluationRequest& request, Evaluation& evaluation) {
        if (request.depth != EvaluationDepth::sanitize) return;
        if (request.candidate.candidate.source != fake_source({.time_ns = 5'000})) return;
        evaluation.sanitizer[0].status = SanitizerResult::Status::findings;
        evaluation.sanitizer[0].message = "Invalid __global__ write in scale at candidate.cu:9";
    };
    const ForgeResult result = world.run();
    CHECK_THAT(world.llm->last_message({0, 1}),
               ContainsSubstring("Invalid __global__ write in scale at candidate.cu:9"));
    CHECK(*result.speedup == Approx(10.0 / 6.0));
    REQUIRE(result.sanitizer.size() == 3);
    CHECK(result.sanitizer[0].status == SanitizerResult::Status::clean);
}

TEST_CASE("a sanitizer that is missing is a warning, said once, and in the result", "[forge]") {
    ForgeWorld world;
    world.expansions = 2;
    world.reply(0, {.time_ns = 5'000});
    world.reply(1, {.time_ns = 4'000});
    for (SanitizerResult& tool : world.evaluator->sanitizer) {
        tool.status = SanitizerResult::Status::unavailable;
        tool.message = "no such program";
    }
    const ForgeResult result = world.run();
    CHECK(*result.speedup == Approx(2.5));
    CHECK(result.sanitizer[1].status == SanitizerResult::Status::unavailable);
    const auto warnings = std::count_if(
        world.events.begin(), world.events.end(),
        [](const ForgeEvent& event) { return event.kind == ForgeEvent::Kind::warning; });
    CHECK(warnings == 3);  // one a tool
}

TEST_CASE("every judgement of a candidate meets hidden shapes, others in each pass", "[forge]") {
    ForgeWorld world;
    world.task.axis_ranges = {{"rows", {1, 100}}};
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    const ForgeResult result = world.run();
    CHECK(*result.speedup == Approx(2.0));
    std::vector<std::vector<Workload>> drawn;
    for (const EvaluationRequest& request : world.evaluator->requests) {
        if (!request.opponent) continue;
        const std::size_t count = request.workloads.size() + request.hidden.size();
        CHECK(request.candidate.build_of_workload.size() == count);
        CHECK(request.reference.build_of_workload.size() == count);
        CHECK(request.opponent->build_of_workload.size() == count);
        drawn.push_back(request.hidden);
    }
    REQUIRE(drawn.size() == 3);
    CHECK(drawn[0].size() == 1);
    CHECK(drawn[1].size() == 4);
    CHECK(drawn[2].size() == 4);
    CHECK(drawn[1][0].axes != drawn[2][0].axes);
}

TEST_CASE("a candidate that is wrong on a hidden shape hears which", "[forge]") {
    ForgeWorld world;
    world.task.axis_ranges = {{"rows", {7, 7}}};
    world.expansions = 1;
    world.options.max_repairs = 1;
    world.reply(0, {.time_ns = 5'000});
    world.reply(0, {.time_ns = 6'000}, 1);
    world.evaluator->edit = [](const EvaluationRequest& request, Evaluation& evaluation) {
        if (!request.opponent) return;
        if (request.candidate.candidate.source != fake_source({.time_ns = 5'000})) return;
        evaluation.hidden.at(0).status = EvaluationStatus::wrong_result;
        evaluation.hidden.at(0).message = "output y is wrong";
    };
    const ForgeResult result = world.run();
    CHECK_THAT(world.llm->last_message({0, 1}),
               ContainsSubstring("on another shape, rows=7: output y is wrong"));
    CHECK(*result.speedup == Approx(10.0 / 6.0));
}

TEST_CASE("on an emulated device a run is about small shapes and says that times are modelled",
          "[forge]") {
    ForgeWorld world;
    world.task.emulator_workloads = {world.task.workloads[0]};
    world.task.emulator_workloads[0].axes["rows"] = 3;
    DeviceInfo& device = world.evaluator->devices.at(0);
    device.emulated = true;
    device.name = "emulator";
    device.roofs = {};
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    const ForgeResult result = world.run();
    REQUIRE(result.workloads.size() == 1);
    CHECK(result.workloads[0].axes == "rows=3");
    CHECK_FALSE(result.workloads[0].bound_s);
    CHECK_FALSE(result.workloads[0].headroom);
    CHECK(result.device.emulated);
    CHECK_FALSE(result.evaluator.empty());
    CHECK_FALSE(result.best.variants.empty());
    int promotions = 0;
    for (const EvaluationRequest& request : world.evaluator->requests) {
        CHECK(request.task->workloads.size() == 1);
        CHECK(request.depth != EvaluationDepth::sanitize);
        if (request.depth == EvaluationDepth::promotion) ++promotions;
    }
    CHECK(promotions == 1);
    const std::string run = read_file(world.folder.path() / "run" / "run.json", 1 << 20);
    CHECK(run.find("\"times\": \"modelled (static)\"") != std::string::npos);
    const auto says = [&](const std::string& text) {
        return std::any_of(world.events.begin(), world.events.end(), [&](const ForgeEvent& event) {
            return event.message.find(text) != std::string::npos;
        });
    };
    CHECK(says("times are modelled (static)"));
    CHECK(says("emulator workloads take the place"));
    CHECK(says("bound and headroom are left out"));
    const std::string prompt = world.llm->requests.at({0, 0}).messages.back().content;
    CHECK(prompt.find("leader, modelled (static)") != std::string::npos);
    CHECK(prompt.find("bound") == std::string::npos);
}

TEST_CASE("a run that was begun on an emulated device is not gone on with on another", "[forge]") {
    ForgeWorld world;
    world.evaluator->devices.at(0).emulated = true;
    world.evaluator->devices.at(0).name = "emulator";
    world.expansions = 1;
    world.reply(0, {.time_ns = 5'000});
    (void)world.run();
    world.evaluator->devices.at(0).emulated = false;
    world.evaluator->devices.at(0).name = "GPU";
    CHECK_THAT(*error_of([&] { (void)world.run(); }),
               ContainsSubstring("it holds a run with device \"emulator\", this one has \"GPU\""));
}
