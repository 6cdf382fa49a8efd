// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"
#include "support/catch.hpp"

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

const std::string right = candidate(right_body);

EmulatorRig& rig() {
    static EmulatorRig shared({"--threads", "2"});
    return shared;
}

Evaluation judged(const std::string& source) {
    Evaluation evaluation = rig().judge(scale_task({1000}), {source});
    UNSCOPED_INFO(to_string(evaluation.status)
                  << " " << evaluation.rule << ": " << evaluation.message);
    return evaluation;
}

bool says(const Evaluation& evaluation, const std::string& text) {
    return evaluation.message.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("the emulated device says that it is one and wants PTX", "[emulator_worker]") {
    CHECK(rig().device().emulated);
    CHECK(rig().device().wants_ptx);
    CHECK(rig().device().arch == "sm_90a");
    CHECK(rig().device().multiprocessors == 132);
}

TEST_CASE("a right candidate is right on an emulated device", "[emulator_worker]") {
    const Evaluation evaluation = judged(right);
    CHECK(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.evaluator == "emulator");
}

TEST_CASE("a wrong candidate is wrong on an emulated device", "[emulator_worker]") {
    const Evaluation evaluation = judged(candidate("    if (i < n) y[i] = 2.0f * x[i];"));
    CHECK(evaluation.status == EvaluationStatus::wrong_result);
}

TEST_CASE("times on an emulated device are labelled as a static cost", "[emulator_worker]") {
    const std::string slow = candidate(
        "    float sum = 0.0f;\n"
        "    if (i < n) { for (int k = 0; k < 2; ++k) sum += x[i]; y[i] = sqrtf(sum * sum) * "
        "(sum < 0.0f ? -1.0f : 1.0f) + w[i]; }");
    const Evaluation evaluation =
        rig().judge(scale_task({1000}), {right, EvaluationDepth::screen, slow});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    const WorkloadResult& result = evaluation.workloads.at(0);
    REQUIRE(result.timing);
    CHECK(result.timing->provenance == Provenance::modelled_static);
    CHECK(result.timing->clock == "modelled (static)");
    CHECK(result.timing->samples == 0);
    CHECK(result.timing->median_s > 0.0);
    REQUIRE(result.paired);
    CHECK(result.paired->quads == 0);
    CHECK(result.paired->low == result.paired->high);
    CHECK(result.paired->ratio > 1.0);
}

TEST_CASE("accesses beside a tensor are crashes that name it", "[emulator_worker]") {
    const Evaluation past = judged(candidate("    y[i] = 2.0f * x[i < n ? i : 0] + w[0];"));
    CHECK(past.status == EvaluationStatus::crashed);
    CHECK(says(past, "y"));
    const Evaluation input =
        judged(candidate("    if (i < n) { const_cast<float*>(x)[i] = 0; y[i] = w[i]; }"));
    CHECK(input.status == EvaluationStatus::crashed);
    const Evaluation misaligned =
        judged(candidate("    if (i + 1 < n) *(float*)((char*)(y + i) + 2) = 2.0f * x[i] + w[i];"));
    INFO(misaligned.message);
    CHECK(misaligned.status == EvaluationStatus::crashed);
    CHECK(says(misaligned, "not a multiple of 4"));
}

TEST_CASE("traps and failed assertions are crashes", "[emulator_worker]") {
    CHECK(judged(candidate("    if (i == 5) __trap();")).status == EvaluationStatus::crashed);
    const Evaluation asserted = judged(candidate("    assert(i != 7); if (i < n) y[i] = 0;"));
    INFO(asserted.message);
    CHECK(asserted.status == EvaluationStatus::crashed);
}

TEST_CASE("what the checker finds is a rejection", "[emulator_worker]") {
    const Evaluation unwritten = judged(candidate("    if (i < n) y[i] += 2.0f * x[i] + w[i];"));
    CHECK(unwritten.status == EvaluationStatus::rejected);
    CHECK(unwritten.rule == "emulator_checker");
    const Evaluation race =
        judged(candidate("    __shared__ float s[256];\n"
                         "    s[threadIdx.x] = i < n ? 2.0f * x[i] : 0.0f;\n"
                         "    if (i < n) y[i] = s[threadIdx.x ^ 64] * 0.0f + 2.0f * x[i] + w[i];"));
    CHECK(race.status == EvaluationStatus::rejected);
    CHECK(race.rule == "emulator_checker");
}

TEST_CASE("a fault leaves the worker able to judge the next candidate", "[emulator_worker]") {
    CHECK(judged(candidate("    __trap();")).status == EvaluationStatus::crashed);
    CHECK(judged(right).status == EvaluationStatus::ok);
}

TEST_CASE("a kernel that does not end is timed out", "[emulator_worker]") {
    const Evaluation evaluation = rig().judge(
        scale_task({256}),
        {candidate("    volatile float* z = y; z[i] = 0; while (z[i] != 1.0f) z[i] = 0;"),
         EvaluationDepth::check, "", std::chrono::milliseconds(1500)});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(judged(right).status == EvaluationStatus::ok);
}

TEST_CASE("library steps and command baselines are not emulated", "[emulator_worker]") {
    EvaluationRequest request;
    request.id = "c";
    request.task = scale_task({10});
    request.workloads = {0};
    request.command = BaselineSpec{};
    const Evaluation evaluation = rig().ask(request);
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "not_emulated");
}

TEST_CASE("a launch over the device's limits is a launch error", "[emulator_worker]") {
    const std::string source = std::string(head) +
                               R"(//@launch f<<<(1), (2048)>>>(x, w, y, N:i64)
extern "C" __global__ void f(const float* x, const float* w, float* y, long long n) {
    y[threadIdx.x] = x[0];
}
)";
    const Evaluation evaluation = judged(source);
    CHECK((evaluation.status == EvaluationStatus::launch_error ||
           evaluation.status == EvaluationStatus::plan_error));
}

TEST_CASE("workspaces and module variables are checked as what they are", "[emulator_worker]") {
    const std::string zeroed =
        candidate("    if (i < n) { atomicAdd(&t[i & 7], 1.0f); y[i] = 2.0f * x[i] + w[i] + g; }",
                  "//@workspace t f32 [8] init=zero\n");
    std::string source = zeroed;
    const std::string plain = "(x, w, y, N:i64)";
    source.replace(source.find(plain), plain.size(), "(x, w, y, t, N:i64)");
    const std::string parameters = "float* y, long long n";
    source.replace(source.find(parameters), parameters.size(), "float* y, float* t, long long n");
    source.insert(source.find("extern \"C\""), "__device__ float g = 0.0f;\n");
    CHECK(judged(source).status == EvaluationStatus::ok);
    std::string unwritten = source;
    unwritten.replace(unwritten.find("init=zero"), 9, "init=undef");
    CHECK(judged(unwritten).rule == "emulator_checker");
}
