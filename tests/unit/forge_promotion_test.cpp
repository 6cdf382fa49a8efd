// SPDX-License-Identifier: Apache-2.0
#include "forge_promotion.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/fakes.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

/// Four workloads of equal weight.
Task task() {
    Task task = fake_task();
    task.workloads.resize(4);
    return task;
}

Evaluation evaluation_of(std::vector<PairedRatio> ratios, double seconds = 100e-6) {
    Evaluation evaluation;
    evaluation.status = EvaluationStatus::ok;
    for (std::size_t i = 0; i < ratios.size(); ++i) {
        WorkloadResult result;
        result.workload = i;
        result.timing = Timing{};
        result.timing->median_s = seconds;
        result.paired = ratios[i];
        evaluation.workloads.push_back(result);
    }
    return evaluation;
}

EvaluationRequest request_of(const FakeFate& candidate, const FakeFate& opponent) {
    EvaluationRequest request;
    request.task = std::make_shared<const Task>(fake_task());
    request.workloads = {0, 1};
    request.candidate.candidate.source = fake_source(candidate);
    request.opponent.emplace();
    request.opponent->candidate.source = fake_source(opponent);
    return request;
}

}  // namespace

TEST_CASE("the combined ratio is the geometric mean, its interval narrows with workloads",
          "[promotion]") {
    const auto one = combined_ratio(task(), evaluation_of({{1.21, 1.1, 1.331, 40}}));
    REQUIRE(one);
    CHECK(one->ratio == Approx(1.21));
    CHECK(one->low == Approx(1.1));
    CHECK(one->high == Approx(1.331));
    const auto four =
        combined_ratio(task(), evaluation_of(std::vector<PairedRatio>(4, {1.21, 1.1, 1.331, 40})));
    // Four independent errors of log 1.1: the mean's is half of that.
    CHECK(four->low == Approx(1.21 / std::sqrt(1.1)));
    CHECK(four->high == Approx(1.21 * std::sqrt(1.1)));
    const auto mixed =
        combined_ratio(task(), evaluation_of({{2.0, 1.9, 2.1, 40}, {0.5, 0.45, 0.55, 10}}));
    CHECK(mixed->ratio == Approx(1.0));
    CHECK(mixed->quads == 10);
}

TEST_CASE("without pairs there is no combined ratio, and without an interval no promotion",
          "[promotion]") {
    Evaluation evaluation = evaluation_of({{1.5, 1.4, 1.6, 40}});
    evaluation.workloads[0].paired.reset();
    CHECK_FALSE(combined_ratio(task(), evaluation));
    CHECK_FALSE(passes_promotion(task(), evaluation));
    CHECK_FALSE(combined_ratio(task(), Evaluation{}));
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK_FALSE(passes_promotion(task(), evaluation_of({{1.5, 0.0, infinity, 4}})));
}

TEST_CASE("a promotion needs the least gain beyond doubt, more of it for short kernels",
          "[promotion]") {
    CHECK(passes_promotion(task(), evaluation_of({{1.01, 1.006, 1.014, 40}}, 100e-6)));
    CHECK_FALSE(passes_promotion(task(), evaluation_of({{1.01, 1.004, 1.016, 40}}, 100e-6)));
    CHECK_FALSE(passes_promotion(task(), evaluation_of({{1.03, 1.02, 1.04, 40}}, 3e-6)));
    CHECK(passes_promotion(task(), evaluation_of({{1.05, 1.04, 1.06, 40}}, 3e-6)));
}

TEST_CASE("a workload that becomes clearly slower forbids a promotion", "[promotion]") {
    CHECK_FALSE(
        passes_promotion(task(), evaluation_of({{1.5, 1.49, 1.51, 40}, {0.95, 0.94, 0.96, 40}})));
    CHECK(passes_promotion(task(), evaluation_of({{1.5, 1.49, 1.51, 40}, {0.99, 0.97, 1.0, 40}})));
}

TEST_CASE("a screen is worth a promotion when it is right and faster on average", "[promotion]") {
    CHECK(worth_promoting(task(), evaluation_of({{1.01, 0.9, 1.1, 10}})));
    CHECK_FALSE(worth_promoting(task(), evaluation_of({{0.99, 0.9, 1.1, 10}})));
    Evaluation wrong = evaluation_of({{2.0, 1.9, 2.1, 10}});
    wrong.status = EvaluationStatus::wrong_result;
    CHECK_FALSE(worth_promoting(task(), wrong));
    CHECK_FALSE(passes_promotion(task(), wrong));
}

TEST_CASE("a promotion is confirmed by a second evaluation under another id and order",
          "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    const Promotion won =
        promote(evaluator, request_of({.time_ns = 5'000}, {.time_ns = 8'000}), {}, {});
    CHECK(won.promoted);
    CHECK_FALSE(won.pending);
    CHECK_THAT(won.message, ContainsSubstring("1.6000 times the leader's speed"));
    REQUIRE(state->requests.size() == 3);
    const EvaluationRequest& first = state->requests[0];
    const EvaluationRequest& second = state->requests[2];
    CHECK(first.id != second.id);
    CHECK(first.seed != second.seed);
    CHECK(first.depth == EvaluationDepth::promotion);
    CHECK(second.depth == EvaluationDepth::promotion);
    CHECK_FALSE(first.fresh_worker);
    CHECK(second.fresh_worker);
    CHECK(state->requests[1].depth == EvaluationDepth::sanitize);
    CHECK_FALSE(state->requests[1].opponent);
    state->requests.clear();
    CHECK_FALSE(
        promote(evaluator, request_of({.time_ns = 9'000}, {.time_ns = 8'000}), {}, {}).promoted);
    CHECK(state->requests.size() == 1);
}

TEST_CASE("modelled times are promoted in one pass, by a gain of one percent", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    const auto run = [&](std::int64_t time_ns) {
        state->requests.clear();
        return promote(evaluator, request_of({.time_ns = time_ns}, {.time_ns = 10'000}), {}, {},
                       Provenance::modelled_static);
    };
    const Promotion won = run(9'890);
    CHECK(won.promoted);
    CHECK(state->requests.size() == 1);
    CHECK_THAT(won.message, ContainsSubstring("times the leader's speed, modelled (static)"));
    CHECK(won.message.find("interval") == std::string::npos);
    CHECK_FALSE(run(9'910).promoted);
    state->pending = true;
    CHECK(run(9'000).pending);
    CHECK(state->queued.size() == 1);
}

TEST_CASE("findings of a tool stop a promotion before its second pass", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    state->sanitizer[1] = {"racecheck", SanitizerResult::Status::findings,
                           "hazard in kernel scale"};
    const Promotion refused =
        promote(evaluator, request_of({.time_ns = 5'000}, {.time_ns = 8'000}), {}, {});
    CHECK_FALSE(refused.promoted);
    CHECK(refused.evaluation.status == EvaluationStatus::rejected);
    CHECK(refused.evaluation.rule == "compute-sanitizer racecheck");
    CHECK(refused.message == "compute-sanitizer racecheck: hazard in kernel scale");
    CHECK(refused.evaluation.sanitizer.size() == 3);
    CHECK(state->requests.size() == 2);
}

TEST_CASE("tools that are missing or fail warn and do not stop a promotion", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    state->sanitizer[0] = {"memcheck", SanitizerResult::Status::unavailable, "not found"};
    state->sanitizer[2] = {"initcheck", SanitizerResult::Status::failed, "no verdict in 60 s"};
    const EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    const Promotion won = promote(evaluator, request, {}, {});
    CHECK(won.promoted);
    REQUIRE(won.warnings.size() == 2);
    CHECK(won.warnings[0] == "sanitizer: memcheck unavailable: not found");
    CHECK(won.warnings[1] == "sanitizer: initcheck failed: no verdict in 60 s");
    CHECK(won.evaluation.sanitizer[0].status == SanitizerResult::Status::unavailable);
    state->sanitizer.clear();
    const Promotion bare = promote(evaluator, request, {}, {});
    CHECK(bare.promoted);
    CHECK(bare.warnings.size() == 1);
}

TEST_CASE("a wrong result under a tool stops a promotion", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    state->edit = [](const EvaluationRequest& request, Evaluation& evaluation) {
        if (request.depth != EvaluationDepth::sanitize) return;
        evaluation.status = EvaluationStatus::wrong_result;
        evaluation.message = "y differs";
    };
    const Promotion refused =
        promote(evaluator, request_of({.time_ns = 5'000}, {.time_ns = 8'000}), {}, {});
    CHECK_FALSE(refused.promoted);
    CHECK(refused.evaluation.status == EvaluationStatus::wrong_result);
    CHECK(refused.message == "under compute-sanitizer: y differs");
}

TEST_CASE("what cannot be built for the shapes of the tools, or is rejected there, does not lead",
          "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    const EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    const AddHidden unbuilt = [](EvaluationRequest& own) -> std::optional<Evaluation> {
        if (own.depth != EvaluationDepth::sanitize) return std::nullopt;
        Evaluation evaluation;
        evaluation.status = EvaluationStatus::compile_error;
        evaluation.message = "on another shape, rows=2: #error";
        return evaluation;
    };
    const Promotion refused = promote(evaluator, request, unbuilt, {});
    CHECK_FALSE(refused.promoted);
    CHECK(refused.evaluation.status == EvaluationStatus::compile_error);
    CHECK(refused.message == "on another shape, rows=2: #error");
    state->edit = [](const EvaluationRequest& own, Evaluation& evaluation) {
        if (own.depth != EvaluationDepth::sanitize) return;
        evaluation.status = EvaluationStatus::rejected;
        evaluation.rule = "local rule";
        evaluation.message = "not here";
    };
    const Promotion rejected = promote(evaluator, request, {}, {});
    CHECK_FALSE(rejected.promoted);
    CHECK(rejected.evaluation.rule == "local rule");
}

TEST_CASE("both passes are queued at once where answers are pending", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    state->pending = true;
    const EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    CHECK(promote(evaluator, request, {}, {}).pending);
    CHECK(state->queued.size() == 3);
    state->visit();
    CHECK(promote(evaluator, request, {}, {}).promoted);
    EvaluationRequest alone = request;
    alone.opponent.reset();
    CHECK_THAT(*error_of([&] { static_cast<void>(promote(evaluator, alone, {}, {})); }),
               ContainsSubstring("expected an opponent"));
}

TEST_CASE("the speedup is the geometric mean of baseline over candidate", "[promotion]") {
    Evaluation evaluation = evaluation_of({{1, 1, 1, 1}, {1, 1, 1, 1}}, 10e-6);
    CHECK(*speedup_over(task(), std::vector{20e-6, 80e-6}, evaluation) == Approx(4.0));
    evaluation.workloads[1].timing.reset();
    CHECK_FALSE(speedup_over(task(), std::vector{20e-6, 80e-6}, evaluation));
    CHECK_FALSE(speedup_over(task(), std::vector<double>{}, evaluation));
}

TEST_CASE("ratios, speedups and least gains are weighted by the workloads", "[promotion]") {
    Task weighted = task();
    weighted.workloads[0].weight = 3.0;
    const auto combined =
        combined_ratio(weighted, evaluation_of({{2.0, 1.9, 2.1, 40}, {0.5, 0.45, 0.55, 10}}));
    CHECK(combined->ratio == Approx(std::sqrt(2.0)));
    // The first's error counts three times as much: log(2/1.9) * 3/4 and log(0.5/0.45) / 4.
    CHECK(std::log(combined->ratio / combined->low) ==
          Approx(std::hypot(0.75 * std::log(2.0 / 1.9), 0.25 * std::log(0.5 / 0.45))));
    Evaluation evaluation = evaluation_of({{1, 1, 1, 1}, {1, 1, 1, 1}}, 10e-6);
    CHECK(*speedup_over(weighted, std::vector{20e-6, 320e-6}, evaluation) == Approx(4.0));
    evaluation.workloads[0].timing->median_s = 2e-6;
    CHECK(combined_least_gain(weighted, evaluation) ==
          Approx(std::pow(1.03, 0.75) * std::pow(1.01, 0.25) - 1.0));
}

TEST_CASE("a failure on a hidden shape is the verdict, and names the shape", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    request.hidden = {{"hidden", {{"rows", 7}}, {}}, {"hidden", {{"rows", 65}}, {}}};
    CHECK(evaluate_as_status(evaluator, request, "screen", {}).status == EvaluationStatus::ok);
    state->edit = [](const EvaluationRequest&, Evaluation& evaluation) {
        evaluation.hidden[1].status = EvaluationStatus::wrong_result;
        evaluation.hidden[1].message = "output y is wrong";
    };
    const Evaluation wrong = evaluate_as_status(evaluator, request, "screen", {});
    CHECK(wrong.status == EvaluationStatus::wrong_result);
    CHECK(wrong.message == "on another shape, rows=65: output y is wrong");
    state->edit = [](const EvaluationRequest&, Evaluation& evaluation) {
        evaluation.hidden.pop_back();
    };
    const Evaluation missing = evaluate_as_status(evaluator, request, "screen", {});
    CHECK(missing.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(missing.message, ContainsSubstring("expected verdicts on 2 hidden shapes, found 1"));
    state->edit = [](const EvaluationRequest&, Evaluation& evaluation) {
        evaluation.hidden[1].hidden = 0;
    };
    CHECK_THAT(evaluate_as_status(evaluator, request, "screen", {}).message,
               ContainsSubstring("is there twice"));
}

TEST_CASE("a verdict on hidden shapes that were not asked for is implausible at every depth",
          "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    state->edit = [](const EvaluationRequest&, Evaluation& evaluation) {
        evaluation.status = EvaluationStatus::ok;
        evaluation.hidden.resize(1);
        evaluation.hidden[0].hidden = 1'000'000;
        evaluation.hidden[0].status = EvaluationStatus::wrong_result;
    };
    for (const EvaluationDepth depth :
         {EvaluationDepth::screen, EvaluationDepth::sanitize, EvaluationDepth::admission}) {
        request.depth = depth;
        CHECK_THAT(evaluate_as_status(evaluator, request, "x", {}).message,
                   ContainsSubstring("hidden shape 1000000 was not asked for"));
    }
}

TEST_CASE("a request's id depends on what decides its answer", "[promotion]") {
    const EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    EvaluationRequest other = request;
    CHECK(request_id(request, "screen") == request_id(other, "screen"));
    other.opponent->candidate.source += " ";
    CHECK(request_id(request, "screen") != request_id(other, "screen"));
    other = request;
    other.workloads = {0};
    CHECK(request_id(request, "screen") != request_id(other, "screen"));
    other = request;
    other.hidden = {{"hidden", {{"rows", 7}}, {}}};
    CHECK(request_id(request, "screen") != request_id(other, "screen"));
    other = request;
    other.fresh_worker = true;
    CHECK(request_id(request, "screen") != request_id(other, "screen"));
}

TEST_CASE("a verdict that cannot be true is the evaluator's failure", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    const auto verdict = [&](const std::function<void(Evaluation&)>& edit) {
        state->edit = [&](const EvaluationRequest&, Evaluation& evaluation) { edit(evaluation); };
        const Evaluation evaluation = evaluate_as_status(evaluator, request, "screen", {});
        if (evaluation.status == EvaluationStatus::evaluator_failed) {
            CHECK(evaluation.workloads.empty());
            CHECK_THAT(evaluation.message, ContainsSubstring("implausible verdict"));
        }
        return evaluation.status;
    };
    const EvaluationStatus failed = EvaluationStatus::evaluator_failed;
    CHECK(verdict([](Evaluation&) {}) == EvaluationStatus::ok);
    CHECK(verdict([](Evaluation& e) { e.workloads[0].timing->median_s = 0.0; }) == failed);
    CHECK(verdict([](Evaluation& e) { e.workloads[0].timing.reset(); }) == failed);
    CHECK(verdict([](Evaluation& e) { e.workloads.pop_back(); }) == failed);
    CHECK(verdict([](Evaluation& e) { e.workloads[1].workload = 2; }) == failed);
    CHECK(verdict([](Evaluation& e) { e.workloads[1].workload = 0; }) == failed);
    CHECK(verdict([](Evaluation& e) { e.workloads[1].opponent_timing->median_s = -1.0; }) ==
          failed);
    CHECK(verdict([](Evaluation& e) {
              e.workloads[1].paired->ratio = std::numeric_limits<double>::infinity();
          }) == failed);
    CHECK(verdict([](Evaluation& e) {
              e.workloads[1].paired->low = 0.0;  // too few pairs
              e.workloads[1].paired->high = std::numeric_limits<double>::infinity();
          }) == EvaluationStatus::ok);
    request.depth = EvaluationDepth::check;
    CHECK(verdict([](Evaluation& e) { e.workloads[0].timing.reset(); }) == EvaluationStatus::ok);
}
