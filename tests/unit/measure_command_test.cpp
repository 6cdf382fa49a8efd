// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "worker/measure_evaluate.hpp"

using namespace kernelforge;
using namespace kernelforge::worker;

namespace {

EvaluationRequest request_of(const std::vector<std::string>& command) {
    auto task = std::make_shared<Task>();
    task->workloads = {{"a", {{"N", 1}}, {}}, {"b", {{"N", 2}}, {}}};
    task->folder = "/";
    EvaluationRequest request;
    request.id = "1";
    request.task = task;
    request.workloads = {0, 1};
    request.command = BaselineSpec{};
    request.command->name = "outside";
    request.command->kind = BaselineSpec::Kind::command;
    request.command->command = command;
    request.time_limit = std::chrono::milliseconds(5'000);
    return request;
}

}  // namespace

TEST_CASE("a command's lines become times in the order of the request", "[measure]") {
    const std::vector<WorkloadResult> results =
        command_results(request_of({}),
                        "warming up\n{\"uuid\":\"b\",\"median_s\":2e-5,\"samples\":7}\n"
                        "{\"uuid\":\"a\",\"median_s\":1e-5,\"samples\":5}\n");
    REQUIRE(results.size() == 2);
    REQUIRE(results[0].timing);
    CHECK(results[0].timing->median_s == 1e-5);
    CHECK(results[0].timing->samples == 5);
    CHECK(results[0].timing->clock == "command");
    REQUIRE(results[1].timing);
    CHECK(results[1].timing->median_s == 2e-5);
}

TEST_CASE("a workload without a usable line is a failure of the evaluator", "[measure]") {
    const auto message_of_b = [](const std::string& output) {
        const std::vector<WorkloadResult> results = command_results(request_of({}), output);
        CHECK(results[1].status == EvaluationStatus::evaluator_failed);
        CHECK_FALSE(results[1].timing);
        return results[1].message;
    };
    CHECK_THAT(message_of_b(""), ContainsSubstring("no line"));
    CHECK_THAT(message_of_b("{\"uuid\":\"b\"}"), ContainsSubstring("median_s"));
    CHECK_THAT(message_of_b("{\"uuid\":\"b\",\"median_s\":0}"), ContainsSubstring("above 0"));
    CHECK_THAT(message_of_b("{\"uuid\":\"b\",\"median_s\":"), ContainsSubstring("command output"));
    CHECK_THAT(message_of_b("{\"uuid\":\"a\",\"median_s\":1}\n{\"uuid\":\"a\",\"median_s\":2}"),
               ContainsSubstring("once"));
}

TEST_CASE("a command runs with a file of workloads and its failure is told", "[measure]") {
    const std::string print_lines =
        "test \"$0\" = --workloads && grep -q '\"uuid\":\"a\"' \"$1\" &&"
        " echo '{\"uuid\":\"a\",\"median_s\":1}' && echo '{\"uuid\":\"b\",\"median_s\":1}'";
    CHECK(run_command_baseline(request_of({"sh", "-c", print_lines})).status ==
          EvaluationStatus::ok);

    const Evaluation failed =
        run_command_baseline(request_of({"sh", "-c", "echo first >&2; echo no torch >&2; exit 4"}));
    CHECK(failed.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(failed.message, ContainsSubstring("exit code 4"));
    CHECK_THAT(failed.message, ContainsSubstring("no torch"));
    CHECK_THAT(failed.message, !ContainsSubstring("first"));
    CHECK(failed.workloads.size() == 2);

    const Evaluation absent = run_command_baseline(request_of({"/nonexistent/program"}));
    CHECK(absent.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(absent.message, ContainsSubstring("/nonexistent/program"));

    EvaluationRequest slow = request_of({"sh", "-c", "sleep 30"});
    slow.time_limit = std::chrono::milliseconds(200);
    CHECK_THAT(run_command_baseline(slow).message, ContainsSubstring("200 ms"));
}

TEST_CASE("the first failing workload gives an evaluation its status and names its axes",
          "[measure]") {
    const EvaluationRequest request = request_of({});
    Evaluation evaluation;
    evaluation.workloads.resize(2);
    evaluation.workloads[1].workload = 1;
    summarize_workloads(*request.task, evaluation);
    CHECK(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.message.empty());
    evaluation.workloads[1].status = EvaluationStatus::wrong_result;
    evaluation.workloads[1].message = "output y is wrong";
    summarize_workloads(*request.task, evaluation);
    CHECK(evaluation.status == EvaluationStatus::wrong_result);
    CHECK(evaluation.message == "on N=2: output y is wrong");
}

TEST_CASE("hidden shapes fail an evaluation after its workloads and name their axes", "[measure]") {
    const EvaluationRequest request = request_of({});
    std::vector<Workload> hidden(2);
    hidden[0].axes["N"] = 37;
    hidden[1].axes["N"] = 41;
    Evaluation evaluation;
    evaluation.workloads.resize(1);
    evaluation.hidden.resize(2);
    evaluation.hidden[0].refused = true;
    evaluation.hidden[1].hidden = 1;
    summarize_workloads(*request.task, evaluation, hidden);
    CHECK(evaluation.status == EvaluationStatus::ok);
    evaluation.hidden[1].status = EvaluationStatus::crashed;
    evaluation.hidden[1].message = "kernel k failed";
    summarize_workloads(*request.task, evaluation, hidden);
    CHECK(evaluation.status == EvaluationStatus::crashed);
    CHECK(evaluation.message == "on hidden N=41: kernel k failed");
}
