// SPDX-License-Identifier: Apache-2.0
#include "rig.hpp"

// What becomes of candidates that are right, wrong or hostile. After each that costs a worker, a
// right one must pass again.

namespace {

using namespace kernelforge;
using namespace kernelforge::test;

constexpr std::int64_t size = 1'000'003;

/// A kernel `k(x, w, y, n)` with one thread an element and this body; `i` is the element.
std::string kernel_with(const std::string& body, const std::string& before = "") {
    return "//@kernelforge 1\n//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)\n" + before +
           "\nextern \"C\" __global__ void k(const float* x, const float* w, float* y, long long "
           "n) "
           "{\n    const long long i = blockIdx.x * 256LL + threadIdx.x;\n" +
           body + "\n}\n";
}

Evaluation judged(const std::string& source,
                  std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    return rig()->run(scale_task({size}), {source, {}, EvaluationDepth::check, limit});
}

void a_right_one_passes() {
    const Evaluation evaluation = judged(right_scale);
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

}  // namespace

TEST_CASE("a right candidate is ok on every workload", "[gpu]") {
    const Evaluation evaluation = rig()->run(scale_task({1, 255, 256, 100'000}), {right_scale});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    REQUIRE(evaluation.workloads.size() == 4);
    for (const WorkloadResult& result : evaluation.workloads) {
        REQUIRE(result.outputs.size() == 1);
        CHECK(result.outputs[0].ok);
        CHECK(result.outputs[0].mismatches == 0);
        REQUIRE(result.timing);
        CHECK(result.timing->samples == 20);
        REQUIRE(result.launches.size() == 1);
        CHECK(result.launches[0].kernel == "scale");
        CHECK(result.launches[0].blocks_per_multiprocessor.value_or(0) >= 1);
    }
    CHECK(evaluation.device == rig()->device().name);
}

TEST_CASE("wrong results are refused with the place", "[gpu]") {
    const auto refused = [](const std::string& body) {
        const Evaluation evaluation = judged(kernel_with(body));
        INFO(body);
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::wrong_result);
        CHECK_THAT(evaluation.message, ContainsSubstring("N=1000003"));
        CHECK_THAT(evaluation.message, ContainsSubstring("output y"));
    };
    SECTION("the tail is missing") {
        refused("if (i < n / 256 * 256) y[i] = 2.0f * x[i] + w[i];");
    }
    SECTION("one element is NaN") {
        refused("if (i < n) y[i] = i == 777 ? __int_as_float(0x7fc00000) : 2.0f * x[i] + w[i];");
    }
    SECTION("one element is off") {
        refused("if (i < n) y[i] = (2.0f * x[i] + w[i]) * (i == 777 ? 1.1f : 1.0f);");
    }
    SECTION("nothing is written: an output never holds an earlier result") {
        refused("if (n < 0) y[i] = x[i] + w[i];");
    }
    SECTION("half the precision") {
        refused("if (i < n) y[i] = float(int((2.0f * x[i] + w[i]) * 64.0f)) / 64.0f;");
    }
    SECTION("zeros") {
        refused("if (i < n) y[i] = 0.0f;");
    }
}

TEST_CASE("a race is refused 20 of 20 times", "[gpu]") {
    const std::string race =
        "    __shared__ float s[256];\n"
        "    s[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
        "    const int other = (threadIdx.x + 128) % 256;\n"
        "    s[other] *= 2.0f;\n    __syncthreads();\n"
        "    if (i < n) y[i] = s[threadIdx.x] + w[i];";
    for (int i = 0; i < 20; ++i) {
        const Evaluation evaluation = judged(kernel_with(race));
        CHECK(evaluation.status == EvaluationStatus::wrong_result);
    }
}

TEST_CASE("stray accesses crash and the next candidate is judged by a new worker", "[gpu]") {
    const auto crashes = [](const std::string& body) {
        const Evaluation evaluation = judged(kernel_with(body));
        INFO(body);
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::crashed);
        CHECK_THAT(evaluation.message, ContainsSubstring("kernel k"));
        a_right_one_passes();
    };
    SECTION("a write behind the output") {
        crashes("if (i < n) y[i] = 2.0f * x[i] + w[i];\n    if (i < 64) y[n + i] = 0.0f;");
    }
    SECTION("a write before the output") {
        crashes("if (i < n) y[i] = 2.0f * x[i] + w[i];\n    if (i == 0) y[-1] = 0.0f;");
    }
    SECTION("a read behind an input") {
        crashes("if (i < n) y[i] = 2.0f * x[i] + w[i] + (i == 0 ? x[n + 64] : 0.0f);");
    }
    SECTION("a write to an input") {
        crashes("if (i < n) { y[i] = 2.0f * x[i] + w[i]; const_cast<float*>(x)[i] = 0.0f; }");
    }
    SECTION("a trap") {
        crashes("if (i == 5) __trap();\n    if (i < n) y[i] = x[i];");
    }
}

TEST_CASE("an endless kernel times out and costs its worker only", "[gpu]") {
    const auto started = std::chrono::steady_clock::now();
    const Evaluation evaluation = judged(
        kernel_with("volatile const float* p = x;\n    while (p[0] == p[0]) {}\n    y[i] = 0;"),
        std::chrono::milliseconds(2'000));
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(std::chrono::steady_clock::now() - started < std::chrono::seconds(20));
    a_right_one_passes();
}

TEST_CASE("a candidate that prints is judged, its output bounded", "[gpu]") {
    const Evaluation evaluation =
        judged(kernel_with("if (i < n) y[i] = 2.0f * x[i] + w[i];\n"
                           "    if (i < 30000) printf(\"element %lld of %lld\\n\", i, n);"));
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
    CHECK_THAT(evaluation.output, ContainsSubstring("element "));
    CHECK(evaluation.output.size() <= 4096);
}

TEST_CASE("a candidate that prints without end times out and costs its worker only", "[gpu]") {
    // The driver makes kernels wait for its buffer: a million lines take longer than 20 s.
    const Evaluation evaluation =
        judged(kernel_with("if (i < n) y[i] = 2.0f * x[i] + w[i];\n"
                           "    for (;;) printf(\"element %lld of %lld\\n\", i, n);"),
               std::chrono::milliseconds(3'000));
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(evaluation.output.size() <= 4096);
    a_right_one_passes();
}

TEST_CASE("what a module keeps in globals does not outlive a call", "[gpu]") {
    // Right only if `calls` is 0 at the start of every call.
    const Evaluation evaluation = rig()->run(scale_task({size}), {R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
//@launch mark<<<(1), (1)>>>()
__device__ volatile int calls = 0;
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = calls == 0 ? 2.0f * x[i] + w[i] : 0.0f;
}
extern "C" __global__ void mark() { calls = 1; }
)"});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("impossible launches are refused before they reach the device", "[gpu]") {
    const auto refused = [](const std::string& launch) {
        const Evaluation evaluation =
            judged("//@kernelforge 1\n//@launch k<<<" + launch +
                   ">>>(x, w, y, N:i64)\nextern \"C\" __global__ void k(const float* x, const "
                   "float* w, float* y, long long n) { y[0] = x[0] + w[0] + n; }\n");
        INFO(launch);
        INFO(evaluation.message);
        CHECK((evaluation.status == EvaluationStatus::plan_error ||
               evaluation.status == EvaluationStatus::launch_error));
        CHECK_FALSE(evaluation.message.empty());
        a_right_one_passes();
    };
    refused("(1), (1), (10000000000)");
    refused("(2147483648), (1024)");
    refused("(1), (2048)");
    refused("(1000000), (1024), (0), coop");
    refused("(3), (32), (0), cluster=(2,1,1)");
}

TEST_CASE("a workload that the candidate excludes is a plan error that says so", "[gpu]") {
    std::string source = right_scale;
    source.insert(source.find("//@launch"), "//@valid N < 10\n");
    const Evaluation evaluation = judged(source);
    CHECK(evaluation.status == EvaluationStatus::plan_error);
    CHECK_THAT(evaluation.message, ContainsSubstring("valid"));
}

TEST_CASE("a cubin for nothing is refused", "[gpu]") {
    EvaluationRequest request = rig()->request(scale_task({size}), {right_scale});
    request.candidate.builds[0].cubin = "this is no cubin";
    const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
    CHECK(evaluation.status == EvaluationStatus::launch_error);
    CHECK_THAT(evaluation.message, ContainsSubstring("cannot be loaded"));
    a_right_one_passes();
}
