// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <functional>

#include "rig.hpp"

// What a promotion asks of the device besides times: hidden shapes, compute-sanitizer, a fresh
// worker; and whether tasks are admitted.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

constexpr std::int64_t size = 1 << 22;

std::string kernel_with(const std::string& body, const std::string& arguments = "x, w, y, N:i64") {
    return "//@kernelforge 1\n//@launch k<<<(cdiv(N, 256)), (256)>>>(" + arguments +
           ")\nextern \"C\" __global__ void k(const float* x, const float* w, float* y, long long "
           "n) "
           "{\n    const long long i = blockIdx.x * 256LL + threadIdx.x;\n" +
           body + "\n}\n";
}

/// The task is judged by `source` as reference and baseline.
Evaluation admission(const std::string& source, const std::function<void(Task&)>& edit = {}) {
    auto task = scale_task({1000, size});
    task->reference_cuda = source;
    if (edit) edit(*task);
    return rig()->run(task, {source, {}, EvaluationDepth::admission, std::chrono::seconds(60)});
}

std::string describe(const Evaluation& evaluation) {
    std::string text = fmt::format("{} {}: {}\n", to_string(evaluation.status), evaluation.rule,
                                   evaluation.message);
    for (const AdmissionCheck& check : evaluation.admission) {
        text += fmt::format("{} {}: {}\n", check.ok ? "ok" : "FAIL", check.name, check.message);
    }
    for (const SanitizerResult& tool : evaluation.sanitizer) {
        text += fmt::format("{} {}: {}\n", tool.tool, to_string(tool.status), tool.message);
    }
    for (const HiddenResult& result : evaluation.hidden) {
        text += fmt::format("hidden {} {}: {}\n", result.hidden, to_string(result.status),
                            result.message);
    }
    return text;
}

const AdmissionCheck& check_named(const Evaluation& evaluation, const std::string& name) {
    static const AdmissionCheck none{"not there", false, ""};
    for (const AdmissionCheck& check : evaluation.admission) {
        if (check.name == name) return check;
    }
    return none;
}

/// Evaluates with hidden sizes; nothing of the scale task is specialised, so one build serves all.
Evaluation with_hidden(const std::string& source, std::vector<std::int64_t> sizes) {
    EvaluationRequest request = rig()->request(
        scale_task({size}), {source, {}, EvaluationDepth::screen, std::chrono::seconds(20)});
    for (const std::int64_t hidden : sizes) {
        request.hidden.push_back({"hidden", {{"N", hidden}}, {}});
        request.candidate.build_of_workload.push_back(0);
        request.reference.build_of_workload.push_back(0);
    }
    return rig()->evaluator().evaluate(request, {});
}

}  // namespace

TEST_CASE("a task that tells right from wrong is admitted", "[gpu][admission]") {
    const Evaluation evaluation = admission(right_scale);
    INFO(describe(evaluation));
    CHECK(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.admission.size() >= 10);
    for (const char* name : {"zeros as y", "mean as y", "copy of x as y", "copy of w as y",
                             "previous output as y", "downcast as y"}) {
        INFO(name);
        const AdmissionCheck& check = check_named(evaluation, name);
        CHECK(check.ok);
        CHECK(check.message.starts_with("refused"));
    }
}

TEST_CASE("a task with an input that nothing depends on is admitted only if it says so",
          "[gpu][admission]") {
    const std::string ignores_w = kernel_with("    if (i < n) y[i] = 2.0f * x[i];");
    const Evaluation refused = admission(ignores_w);
    INFO(describe(refused));
    CHECK(refused.status == EvaluationStatus::rejected);
    CHECK(refused.rule == "admission");
    CHECK_FALSE(check_named(refused, "input w").ok);
    const Evaluation said = admission(ignores_w, [](Task& task) { task.unused_inputs = {"w"}; });
    INFO(describe(said));
    CHECK(check_named(said, "input w").ok);
}

TEST_CASE("a task that a null candidate solves is not admitted", "[gpu][admission]") {
    const Evaluation zeros = admission(kernel_with("    if (i < n) y[i] = 0.0f;"));
    INFO(describe(zeros));
    CHECK(zeros.status == EvaluationStatus::rejected);
    CHECK_FALSE(check_named(zeros, "zeros as y").ok);
    const Evaluation copy = admission(kernel_with("    if (i < n) y[i] = x[i];"));
    INFO(describe(copy));
    CHECK_FALSE(check_named(copy, "copy of x as y").ok);
    CHECK(check_named(copy, "copy of w as y").ok);
}

TEST_CASE("a task whose tolerance hides a coarser type is not admitted", "[gpu][admission]") {
    const Evaluation loose = admission(right_scale, [](Task& task) {
        task.compare["y"].kind = CompareSpec::Kind::rms;
        task.compare["y"].tier = PrecisionTier::float32;
        task.compare["y"].slack = 1000.0;
    });
    INFO(describe(loose));
    CHECK_FALSE(check_named(loose, "downcast as y").ok);
    CHECK(check_named(loose, "zeros as y").ok);
}

TEST_CASE("a candidate that is wrong on a hidden shape only is not ok", "[gpu][hidden]") {
    const Evaluation right = with_hidden(right_scale, {1, 255, 12'345});
    INFO(describe(right));
    CHECK(right.status == EvaluationStatus::ok);
    REQUIRE(right.hidden.size() == 3);
    const Evaluation wrong = with_hidden(
        kernel_with("    if (i < n / 256 * 256) y[i] = 2.0f * x[i] + w[i];"), {1024, 1023});
    INFO(describe(wrong));
    REQUIRE(wrong.hidden.size() == 2);
    CHECK(wrong.hidden[0].status == EvaluationStatus::ok);
    CHECK(wrong.hidden[1].status == EvaluationStatus::wrong_result);
}

TEST_CASE("a hidden shape that the plan excludes is refused and no fault", "[gpu][hidden]") {
    std::string source = right_scale;
    source.insert(source.find("//@launch"), "//@valid N % 2 == 0\n");
    const Evaluation evaluation = with_hidden(source, {1000, 1001});
    INFO(describe(evaluation));
    CHECK(evaluation.status == EvaluationStatus::ok);
    REQUIRE(evaluation.hidden.size() == 2);
    CHECK_FALSE(evaluation.hidden[0].refused);
    CHECK(evaluation.hidden[1].refused);
}

TEST_CASE("a fresh worker judges like the present one", "[gpu][fresh]") {
    EvaluationRequest request = rig()->request(
        scale_task({size}), {right_scale, {}, EvaluationDepth::check, std::chrono::seconds(20)});
    for (const bool fresh : {false, true, false}) {
        request.fresh_worker = fresh;
        const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
    }
}

TEST_CASE("compute-sanitizer finds nothing in a right candidate, and a missing barrier",
          "[gpu][sanitizer]") {
    const auto under_tools = [](const std::string& source) {
        return rig()->run(scale_task({10'000}),
                          {source, {}, EvaluationDepth::sanitize, std::chrono::seconds(60)});
    };
    const Evaluation right = under_tools(right_scale);
    INFO(describe(right));
    REQUIRE(right.sanitizer.size() == 3);
    if (right.sanitizer[0].status == SanitizerResult::Status::unavailable) {
        WARN("compute-sanitizer was not found: nothing is tested here");
        return;
    }
    CHECK(right.status == EvaluationStatus::ok);
    for (const SanitizerResult& tool : right.sanitizer) {
        CHECK(tool.status == SanitizerResult::Status::clean);
    }
    // Each warp reads what another wrote.
    const Evaluation race =
        under_tools(kernel_with("    __shared__ float s[256];\n"
                                "    s[threadIdx.x] = i < n ? 2.0f * x[i] + w[i] : 0.0f;\n"
                                "    const long long j = blockIdx.x * 256LL + (threadIdx.x ^ 32);\n"
                                "    const float v = s[threadIdx.x ^ 32];\n"
                                "    if (j < n) y[j] = v;"));
    INFO(describe(race));
    CHECK(race.status != EvaluationStatus::ok);
    bool found = false;
    for (const SanitizerResult& tool : race.sanitizer) {
        found =
            found || (tool.tool == "racecheck" && tool.status == SanitizerResult::Status::findings);
    }
    // A result that was wrong already under memcheck ends the tools.
    CHECK((found || race.status == EvaluationStatus::wrong_result));
    const Evaluation beyond =
        under_tools(kernel_with("    extern __shared__ float none[];\n"
                                "    if (i < n) y[i] = 2.0f * x[i] + w[i];\n"
                                "    if (i == 0) none[200000] = x[0];"));
    INFO(describe(beyond));
    CHECK(beyond.status == EvaluationStatus::rejected);
    CHECK(beyond.rule == "compute-sanitizer memcheck");
}
