// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "builds.hpp"
#include "rig.hpp"
#include "support/support.hpp"

// Times: plausible, honest to factors, the same for the same code.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

/// About `rounds` times 3 us of arithmetic whatever the size.
std::string busy(int rounds) {
    return "//@kernelforge 1\n//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)\n"
           "extern \"C\" __global__ void k(const float* x, const float* w, float* y, long long n) "
           "{\n    const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
           "    if (i >= n) return;\n    float a = x[i];\n"
           "    for (int k = 0; k < " +
           std::to_string(rounds * 1000) +
           "; ++k) a = fmaf(a, 0.999f, 1e-3f);\n"
           "    y[i] = 2.0f * x[i] + w[i] + (a == 12345.0f ? 1.0f : 0.0f);\n}\n";
}

void print(const char* what, const WorkloadResult& result) {
    if (!result.timing) return;
    std::printf("%s: median %.2f us, p10 %.2f, p90 %.2f, %d samples, %s\n", what,
                result.timing->median_s * 1e6, result.timing->p10_s * 1e6,
                result.timing->p90_s * 1e6, result.timing->samples, result.timing->clock.c_str());
    if (!result.paired) return;
    std::printf("  ratio %.4f [%.4f, %.4f], %d quads\n", result.paired->ratio, result.paired->low,
                result.paired->high, result.paired->quads);
}

}  // namespace

TEST_CASE("the same code against itself gives an interval around 1", "[gpu]") {
    for (const std::int64_t size : {1'000, 4'000'000}) {
        const Evaluation evaluation =
            rig()->run(scale_task({size}), {right_scale, right_scale, EvaluationDepth::promotion});
        INFO(evaluation.message);
        REQUIRE(evaluation.status == EvaluationStatus::ok);
        const WorkloadResult& result = evaluation.workloads[0];
        print("A/A", result);
        REQUIRE(result.paired);
        CHECK(result.paired->quads == 40);
        CHECK(result.paired->low <= 1.005);
        CHECK(result.paired->high >= 0.995);
        // A clock that ticks at 32 ns tells little about a kernel of a microsecond.
        if (size > 1'000) CHECK(result.paired->high - result.paired->low < 0.1);
    }
}

TEST_CASE("twice the work takes twice the time", "[gpu]") {
    const Evaluation evaluation =
        rig()->run(scale_task({100'000}), {busy(10), busy(20), EvaluationDepth::screen});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    print("1 : 2", evaluation.workloads[0]);
    REQUIRE(evaluation.workloads[0].paired);
    CHECK(evaluation.workloads[0].paired->ratio == Approx(2.0).epsilon(0.1));
    CHECK(evaluation.workloads[0].paired->low > 1.5);
}

TEST_CASE("a stream of bytes takes the time that its bytes need", "[gpu]") {
    const std::int64_t size = 64'000'000;
    const Evaluation evaluation = rig()->run(scale_task({size}), {right_scale});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    const WorkloadResult& result = evaluation.workloads[0];
    print("768 MB", result);
    const Roofs& roofs = rig()->device().roofs;
    REQUIRE(roofs.read_bytes_per_s);
    const double bytes = 3.0 * 4.0 * static_cast<double>(size);
    CHECK(result.timing->median_s > bytes / (*roofs.read_bytes_per_s * 1.1));
    CHECK(result.timing->median_s < 4.0 * bytes / *roofs.read_bytes_per_s);
    REQUIRE(result.launches.size() == 1);
    REQUIRE(result.launches[0].mean_s);
    CHECK(*result.launches[0].mean_s == Approx(result.timing->trimmed_mean_s).epsilon(0.01));
}

TEST_CASE("roofs are measured and ordered", "[gpu]") {
    const Roofs& roofs = rig()->device().roofs;
    REQUIRE(roofs.read_bytes_per_s);
    REQUIRE(roofs.copy_bytes_per_s);
    REQUIRE(roofs.write_bytes_per_s);
    REQUIRE(roofs.fp32_flop_per_s);
    REQUIRE(roofs.bf16_flop_per_s);
    REQUIRE(roofs.empty_kernel_s);
    std::printf("read %.3g copy %.3g write %.3g B/s, fp32 %.3g bf16 %.3g FLOP/s, empty %.2f us\n",
                *roofs.read_bytes_per_s, *roofs.copy_bytes_per_s, *roofs.write_bytes_per_s,
                *roofs.fp32_flop_per_s, *roofs.bf16_flop_per_s, *roofs.empty_kernel_s * 1e6);
    CHECK(*roofs.read_bytes_per_s > 1e11);
    CHECK(*roofs.bf16_flop_per_s > *roofs.fp32_flop_per_s);
    CHECK(*roofs.empty_kernel_s < 2e-5);
}

TEST_CASE("without CUPTI times come from events", "[gpu]") {
    const Rig events(R"({"worker_arguments": ["--no-cupti"]})");
    const std::shared_ptr<Task> task = scale_task({4'000'000});
    const Evaluation by_events = events.run(task, {right_scale});
    const Evaluation by_cupti = rig()->run(task, {right_scale});
    REQUIRE(by_events.status == EvaluationStatus::ok);
    REQUIRE(by_cupti.status == EvaluationStatus::ok);
    print("events", by_events.workloads[0]);
    print("cupti", by_cupti.workloads[0]);
    CHECK(by_events.workloads[0].timing->clock == "events");
    CHECK(by_cupti.workloads[0].timing->clock == "cupti");
    CHECK(by_events.workloads[0].timing->median_s ==
          Approx(by_cupti.workloads[0].timing->median_s).epsilon(0.25));
}

TEST_CASE("a command baseline reports its own times", "[gpu]") {
    EvaluationRequest request;
    request.id = "command";
    request.task = scale_task({10});
    request.workloads = {0};
    request.command = BaselineSpec{};
    request.command->kind = BaselineSpec::Kind::command;
    request.command->command = {"sh", "-c",
                                R"(echo '{"uuid": "w10", "median_s": 0.25, "samples": 3}')"};
    const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.workloads[0].timing->median_s == 0.25);
    CHECK(evaluation.workloads[0].timing->clock == "command");
    request.command->command = {"sh", "-c", "echo no torch here >&2; exit 3"};
    const Evaluation failed = rig()->evaluator().evaluate(request, {});
    CHECK(failed.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(failed.message, ContainsSubstring("no torch here"));
}

TEST_CASE("screen of an add_rmsnorm candidate with a warm worker", "[gpu][screen]") {
    auto task = std::make_shared<Task>(
        load_task((source_folder() / "examples/tasks/add_rmsnorm").string()));
    std::erase_if(task->workloads, [](const Workload& workload) {
        const std::int64_t rows = workload.axes.at("T");
        return rows != 1 && rows != 64 && rows != 8804 && rows != 14509;
    });
    REQUIRE(task->workloads.size() == 4);
    const EvaluationRequest request = rig()->request(task, {task->baselines[0].source});
    for (int i = 0; i < 4; ++i) {
        const auto started = std::chrono::steady_clock::now();
        const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        std::printf("screen %d: wall %.3f s, worker %.3f s (check %.3f, time %.3f)\n", i,
                    wall.count(), evaluation.total_time.count(), evaluation.check_time.count(),
                    evaluation.timing_time.count());
        for (const WorkloadResult& result : evaluation.workloads) print("  ", result);
        if (i > 0) CHECK(wall.count() < 1.0);
    }
}
