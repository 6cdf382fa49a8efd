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
    const auto one = combined_ratio(evaluation_of({{1.21, 1.1, 1.331, 40}}));
    REQUIRE(one);
    CHECK(one->ratio == Approx(1.21));
    CHECK(one->low == Approx(1.1));
    CHECK(one->high == Approx(1.331));
    const auto four =
        combined_ratio(evaluation_of(std::vector<PairedRatio>(4, {1.21, 1.1, 1.331, 40})));
    // Four independent errors of log 1.1: the mean's is half of that.
    CHECK(four->low == Approx(1.21 / std::sqrt(1.1)));
    CHECK(four->high == Approx(1.21 * std::sqrt(1.1)));
    const auto mixed = combined_ratio(evaluation_of({{2.0, 1.9, 2.1, 40}, {0.5, 0.45, 0.55, 10}}));
    CHECK(mixed->ratio == Approx(1.0));
    CHECK(mixed->quads == 10);
}

TEST_CASE("without pairs there is no combined ratio, and without an interval no promotion",
          "[promotion]") {
    Evaluation evaluation = evaluation_of({{1.5, 1.4, 1.6, 40}});
    evaluation.workloads[0].paired.reset();
    CHECK_FALSE(combined_ratio(evaluation));
    CHECK_FALSE(passes_promotion(evaluation));
    CHECK_FALSE(combined_ratio(Evaluation{}));
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK_FALSE(passes_promotion(evaluation_of({{1.5, 0.0, infinity, 4}})));
}

TEST_CASE("a promotion needs the least gain beyond doubt, more of it for short kernels",
          "[promotion]") {
    CHECK(passes_promotion(evaluation_of({{1.01, 1.006, 1.014, 40}}, 100e-6)));
    CHECK_FALSE(passes_promotion(evaluation_of({{1.01, 1.004, 1.016, 40}}, 100e-6)));
    CHECK_FALSE(passes_promotion(evaluation_of({{1.03, 1.02, 1.04, 40}}, 3e-6)));
    CHECK(passes_promotion(evaluation_of({{1.05, 1.04, 1.06, 40}}, 3e-6)));
}

TEST_CASE("a workload that becomes clearly slower forbids a promotion", "[promotion]") {
    CHECK_FALSE(passes_promotion(evaluation_of({{1.5, 1.49, 1.51, 40}, {0.95, 0.94, 0.96, 40}})));
    CHECK(passes_promotion(evaluation_of({{1.5, 1.49, 1.51, 40}, {0.99, 0.97, 1.0, 40}})));
}

TEST_CASE("a screen is worth a promotion when it is right and faster on average", "[promotion]") {
    CHECK(worth_promoting(evaluation_of({{1.01, 0.9, 1.1, 10}})));
    CHECK_FALSE(worth_promoting(evaluation_of({{0.99, 0.9, 1.1, 10}})));
    Evaluation wrong = evaluation_of({{2.0, 1.9, 2.1, 10}});
    wrong.status = EvaluationStatus::wrong_result;
    CHECK_FALSE(worth_promoting(wrong));
    CHECK_FALSE(passes_promotion(wrong));
}

TEST_CASE("a promotion is confirmed by a second evaluation under another id and order",
          "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    const Promotion won =
        promote(evaluator, request_of({.time_ns = 5'000}, {.time_ns = 8'000}), {});
    CHECK(won.promoted);
    CHECK_FALSE(won.pending);
    CHECK_THAT(won.message, ContainsSubstring("1.6000 times the leader's speed"));
    REQUIRE(state->requests.size() == 2);
    CHECK(state->requests[0].id != state->requests[1].id);
    CHECK(state->requests[0].seed != state->requests[1].seed);
    CHECK(state->requests[0].depth == EvaluationDepth::promotion);
    state->requests.clear();
    CHECK_FALSE(
        promote(evaluator, request_of({.time_ns = 9'000}, {.time_ns = 8'000}), {}).promoted);
    CHECK(state->requests.size() == 1);
}

TEST_CASE("both passes are queued at once where answers are pending", "[promotion]") {
    const auto state = std::make_shared<FakeEvaluator::State>();
    FakeEvaluator evaluator(state);
    state->pending = true;
    const EvaluationRequest request = request_of({.time_ns = 5'000}, {.time_ns = 8'000});
    CHECK(promote(evaluator, request, {}).pending);
    CHECK(state->queued.size() == 2);
    state->visit();
    CHECK(promote(evaluator, request, {}).promoted);
    EvaluationRequest alone = request;
    alone.opponent.reset();
    CHECK_THAT(*error_of([&] { static_cast<void>(promote(evaluator, alone, {})); }),
               ContainsSubstring("expected an opponent"));
}

TEST_CASE("the speedup is the geometric mean of baseline over candidate", "[promotion]") {
    Evaluation evaluation = evaluation_of({{1, 1, 1, 1}, {1, 1, 1, 1}}, 10e-6);
    CHECK(*speedup_over(std::vector{20e-6, 80e-6}, evaluation) == Approx(4.0));
    evaluation.workloads[1].timing.reset();
    CHECK_FALSE(speedup_over(std::vector{20e-6, 80e-6}, evaluation));
    CHECK_FALSE(speedup_over(std::vector<double>{}, evaluation));
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
