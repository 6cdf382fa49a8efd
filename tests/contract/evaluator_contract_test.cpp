// SPDX-License-Identifier: Apache-2.0
#include "evaluator_contract.hpp"

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/fake_evaluation.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::contract;
using namespace std::chrono_literals;
using test::small_collection;
using test::small_request;

namespace {

std::vector<EvaluatorUnderTest> implementations() {
    return {evaluator_cuda_under_test(), evaluator_emulator_under_test()};
}

/// Runs `f` for every implementation and says which one a failure belongs to.
template <class F>
void for_each_evaluator(F&& f) {
    for (const EvaluatorUnderTest& implementation : implementations()) {
        INFO("evaluator " << implementation.name);
        f(implementation);
    }
}

bool finished(const EvaluatorUnderTest& implementation, EvaluationStatus status) {
    return status == EvaluationStatus::ok ||
           (implementation.may_be_pending && status == EvaluationStatus::pending);
}

}  // namespace

TEST_CASE("every evaluator answers with the request's id, its own name and one result a workload",
          "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        const auto evaluator = implementation.make();
        for (const char* id : {"a", "b"}) {
            const EvaluationRequest request = small_request(id);
            const Evaluation evaluation = evaluator->evaluate(request, {});
            INFO(evaluation.message);
            CHECK(finished(implementation, evaluation.status));
            CHECK(evaluation.id == id);
            CHECK(evaluation.evaluator == implementation.name);
            if (evaluation.status != EvaluationStatus::ok) continue;
            CHECK(evaluation.message.empty());
            REQUIRE(evaluation.workloads.size() == request.workloads.size());
            for (std::size_t i = 0; i < request.workloads.size(); ++i) {
                CHECK(evaluation.workloads[i].workload == request.workloads[i]);
            }
        }
    });
}

TEST_CASE("every evaluator speaks of each hidden shape once, and refuses one without a build",
          "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        const auto evaluator = implementation.make();
        EvaluationRequest request = small_request("a");
        request.hidden = {request.task->workloads[1], request.task->workloads[0]};
        CHECK_THROWS_AS(evaluator->evaluate(request, {}), Error);
        for (CompiledCandidate* side : {&request.candidate, &request.reference}) {
            side->build_of_workload = {0, 0, 0, 0};
        }
        const Evaluation evaluation = evaluator->evaluate(request, {});
        INFO(evaluation.message);
        CHECK(finished(implementation, evaluation.status));
        if (evaluation.status != EvaluationStatus::ok) return;
        REQUIRE(evaluation.hidden.size() == 2);
        CHECK(evaluation.hidden[0].hidden == 0);
        CHECK(evaluation.hidden[1].hidden == 1);
    });
}

TEST_CASE("every evaluator lists devices with distinct indices, at least one slot and an artifact",
          "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        const auto evaluator = implementation.make();
        std::set<int> indices;
        for (const DeviceInfo& device : evaluator->devices()) {
            CHECK(indices.insert(device.index).second);
            CHECK(device.slots >= 1);
            CHECK((device.wants_cubin || device.wants_ptx));
            CHECK_FALSE(device.arch.empty());
        }
    });
}

TEST_CASE("every evaluator refuses a request that contradicts itself", "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        const auto evaluator = implementation.make();
        const auto code = [&](auto change) {
            EvaluationRequest request = small_request("a");
            change(request);
            try {
                (void)evaluator->evaluate(request, {});
            } catch (const Error& error) {
                return error.code();
            }
            return ErrorCode::internal;
        };
        CHECK(code([](auto& r) { r.task = nullptr; }) == ErrorCode::invalid_argument);
        CHECK(code([](auto& r) { r.workloads.clear(); }) == ErrorCode::invalid_argument);
        CHECK(code([](auto& r) { r.workloads = {7}; }) == ErrorCode::invalid_argument);
    });
}

TEST_CASE("every evaluator answers cancelled when a stop came before", "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        const auto evaluator = implementation.make();
        std::stop_source source;
        source.request_stop();
        const Evaluation evaluation = evaluator->evaluate(small_request("a"), source.get_token());
        CHECK((evaluation.status == EvaluationStatus::cancelled ||
               finished(implementation, evaluation.status)));
        CHECK(evaluation.id == "a");
        // It is not spoiled by it.
        CHECK(finished(implementation, evaluator->evaluate(small_request("b"), {}).status));
    });
}

TEST_CASE(
    "every evaluator ends an endless candidate at its time limit and within a second of a stop",
    "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        if (!implementation.make_endless) return;
        EvaluationRequest request = small_request("a");
        request.time_limit = 100ms;
        const auto limited = implementation.make_endless();
        const Evaluation late = limited->evaluate(request, {});
        CHECK(late.status == EvaluationStatus::timed_out);
        CHECK_FALSE(late.message.empty());
        CHECK(limited->evaluate(small_request("b"), {}).status == EvaluationStatus::ok);

        const auto stopped = implementation.make_endless();
        std::stop_source source;
        std::jthread stopper([&] {
            std::this_thread::sleep_for(50ms);
            source.request_stop();
        });
        const auto start = std::chrono::steady_clock::now();
        CHECK(stopped->evaluate(small_request("a"), source.get_token()).status ==
              EvaluationStatus::cancelled);
        CHECK(std::chrono::steady_clock::now() - start < 1050ms);
        CHECK(stopped->evaluate(small_request("b"), {}).status == EvaluationStatus::ok);
    });
}

TEST_CASE("every evaluator turns a candidate that kills its worker into a verdict and goes on",
          "[contract]") {
    for_each_evaluator([](const EvaluatorUnderTest& implementation) {
        if (!implementation.make_crashing) return;
        const auto evaluator = implementation.make_crashing();
        const Evaluation crashed = evaluator->evaluate(small_request("a"), {});
        CHECK(crashed.status == EvaluationStatus::crashed);
        CHECK_FALSE(crashed.message.empty());
        CHECK(evaluator->evaluate(small_request("b"), {}).status == EvaluationStatus::ok);
        const auto collecting = implementation.make_crashing();
        CHECK(test::error_of([&] { (void)collecting->collect(small_collection("a"), {}); }));
        CHECK(collecting->evaluate(small_request("b"), {}).status == EvaluationStatus::ok);
    });
}
