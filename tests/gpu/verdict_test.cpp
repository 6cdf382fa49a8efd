// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

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

/// `scale_task` on one workload with hidden shapes of these sizes.
EvaluationRequest with_hidden(const std::string& source, std::vector<std::int64_t> sizes) {
    EvaluationRequest request =
        rig()->request(scale_task({size}), {source, {}, EvaluationDepth::check});
    for (const std::int64_t hidden : sizes) {
        request.hidden.push_back({"h" + std::to_string(hidden), {{"N", hidden}}, {}});
        request.candidate.build_of_workload.push_back(0);
        request.reference.build_of_workload.push_back(0);
    }
    return request;
}

/// y takes the place of x and becomes x + w; z is the difference of the old x and w.
std::shared_ptr<Task> inplace_task() {
    auto task = scale_task({size});
    task->definition.name = "sum_and_difference";
    task->definition.outputs.push_back({"z", {"N"}, false, DType::float32, ""});
    task->inplace["y"] = "x";
    task->reference_cuda = R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256)>>>(w, y, z, N:i64)
extern "C" __global__ void k(const float* w, float* y, float* z, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    const float old = y[i];
    y[i] = old + w[i];
    z[i] = old - w[i];
}
)";
    return task;
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
        crashes(
            "if (i < n) y[i] = 2.0f * x[i] + w[i] + (i == 0 && x[n + 64] == 1e30f ? 1.0f : 0.0f);");
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

TEST_CASE("a candidate that is wrong in one of four calls is refused in timed calls too", "[gpu]") {
    // Addresses are new in every call, so this is as good as a counter of calls. Where y lies
    // against a guard, in half of the calls, its address is one of two: there it is right. A run
    // passes its twelve checks with probability 0.18, and then all of its timed calls with 1e-5.
    const std::string sometimes = kernel_with(
        "const unsigned long long a = reinterpret_cast<unsigned long long>(y);\n"
        "    const unsigned long long end = reinterpret_cast<unsigned long long>(y + n) + 255;\n"
        "    const bool inside = (a & 0x1FFF00) != 0 && (end & 0x1FFF00) != 0;\n"
        "    const bool lie = inside && (((a >> 8) * 0x9E3779B97F4A7C15ULL) >> 62) == 0;\n"
        "    if (i < n) y[i] = lie ? 0.0f : 2.0f * x[i] + w[i];");
    bool in_timed_call = false;
    for (int run = 0; run < 100 && !in_timed_call; ++run) {
        const Evaluation evaluation =
            rig()->run(scale_task({size}), {sometimes, {}, EvaluationDepth::promotion});
        INFO(evaluation.message);
        REQUIRE(evaluation.status == EvaluationStatus::wrong_result);
        in_timed_call = evaluation.message.find("timed call") != std::string::npos;
    }
    CHECK(in_timed_call);
}

TEST_CASE("checks and timed calls cannot be told apart by where tensors lie", "[gpu]") {
    const std::string end = "((reinterpret_cast<unsigned long long>(y + n) + 255) & 0x1FFF00) == 0";
    for (const std::string& lie : {end, "!(" + end + ")"}) {
        const Evaluation evaluation =
            judged(kernel_with("if (i < n) y[i] = (" + lie + ") ? 0.0f : 2.0f * x[i] + w[i];"));
        INFO(lie);
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::wrong_result);
    }
}

TEST_CASE("shared memory holds nothing of an earlier call", "[gpu]") {
    // Right only where the shared memory of a block never held the mark.
    const Evaluation evaluation = rig()->run(scale_task({size}), {R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256), (32768)>>>(x, w, y, N:i64)
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    extern __shared__ volatile unsigned left[];
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    const bool seen = blockIdx.x < 8 && left[threadIdx.x] == 0xC0FFEEu;
    left[threadIdx.x] = 0xC0FFEEu;
    if (i < n) y[i] = seen ? 0.0f : 2.0f * x[i] + w[i];
}
)"});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("local memory holds nothing of an earlier call", "[gpu]") {
    const Evaluation evaluation = rig()->run(scale_task({132 * 256}), {R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    volatile unsigned left[64];
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    const bool seen = blockIdx.x < 8 && left[n & 63] == 0xC0FFEEu;
    left[n & 63] = 0xC0FFEEu;
    if (i < n) y[i] = seen ? 0.0f : 2.0f * x[i] + w[i];
}
)"});
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("lines kept in L2 do not make the next call faster", "[gpu]") {
    const auto reading = [](const std::string& policy) {
        return R"(//@kernelforge 1
//@launch k<<<(cdiv(N, 256)), (256)>>>(x, w, y, N:i64)
__device__ float load(const float* p) {
    unsigned long long policy;
    float value;
    asm volatile("createpolicy.fractional.L2::)" +
               policy + R"(.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(p), "l"(policy));
    return value;
}
extern "C" __global__ void k(const float* x, const float* w, float* y, long long n) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) y[i] = 2.0f * load(x + i) + load(w + i);
}
)";
    };
    // 32 MB of inputs: they would fit.
    const Evaluation evaluation =
        rig()->run(scale_task({4'000'000}),
                   {reading("evict_last"), reading("evict_first"), EvaluationDepth::promotion});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    REQUIRE(evaluation.workloads[0].paired);
    std::printf("evict_last against evict_first: ratio %.4f\n",
                evaluation.workloads[0].paired->ratio);
    CHECK(evaluation.workloads[0].paired->ratio < 1.05);
}

TEST_CASE("zeroed globals are no free accumulators", "[gpu]") {
    const auto with_global = [](int floats) {
        return kernel_with("atomicAdd(&sums[i % " + std::to_string(floats) +
                               "], 0.0f);\n    if (i < n) y[i] = 2.0f * x[i] + w[i];",
                           "__device__ float sums[" + std::to_string(floats) + "];");
    };
    const Evaluation large = judged(with_global(4097));
    INFO(large.message);
    CHECK(large.status == EvaluationStatus::rejected);
    CHECK(large.rule == "device_globals");
    CHECK_THAT(large.message, ContainsSubstring("init=zero"));
    const Evaluation small = judged(with_global(4096));
    INFO(small.message);
    CHECK(small.status == EvaluationStatus::ok);
}

TEST_CASE("a constant table may be large", "[gpu]") {
    const Evaluation evaluation =
        judged(kernel_with("if (i < n) y[i] = 2.0f * x[i] + w[i] + table[i % 8192];",
                           "__constant__ float table[8192];"));
    INFO(evaluation.message);
    CHECK(evaluation.status == EvaluationStatus::ok);
}

TEST_CASE("hidden shapes are checked after the workloads", "[gpu]") {
    SECTION("a right candidate passes them") {
        const Evaluation evaluation =
            rig()->evaluator().evaluate(with_hidden(right_scale, {1, 37, 12'345}), {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        REQUIRE(evaluation.hidden.size() == 3);
        CHECK(evaluation.hidden[1].hidden == 1);
        CHECK_FALSE(evaluation.hidden[1].refused);
        REQUIRE(evaluation.hidden[1].outputs.size() == 1);
        CHECK(evaluation.hidden[1].outputs[0].ok);
    }
    SECTION("one that is wrong on one of them is refused with its axes") {
        const Evaluation evaluation = rig()->evaluator().evaluate(
            with_hidden(kernel_with("if (i < n && n != 37) y[i] = 2.0f * x[i] + w[i];"),
                        {12'345, 37}),
            {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::wrong_result);
        CHECK_THAT(evaluation.message, ContainsSubstring("on hidden N=37: "));
        REQUIRE(evaluation.hidden.size() == 2);
        CHECK(evaluation.hidden[0].status == EvaluationStatus::ok);
    }
    SECTION("one that does not claim them passes") {
        std::string source = right_scale;
        source.insert(source.find("//@launch"), "//@valid N > 100\n");
        const Evaluation evaluation =
            rig()->evaluator().evaluate(with_hidden(source, {37, 12'345}), {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        REQUIRE(evaluation.hidden.size() == 2);
        CHECK(evaluation.hidden[0].refused);
        CHECK_FALSE(evaluation.hidden[1].refused);
    }
    SECTION("there may be nothing else") {
        EvaluationRequest request = with_hidden(right_scale, {37});
        request.workloads.clear();
        request.candidate.build_of_workload = {0};
        request.reference.build_of_workload = {0};
        const Evaluation evaluation = rig()->evaluator().evaluate(request, {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::ok);
        CHECK(evaluation.hidden.size() == 1);
        CHECK_FALSE(evaluation.workloads.size() > 0);
    }
    SECTION("a crash on one of them says so and costs the worker only") {
        const Evaluation evaluation = rig()->evaluator().evaluate(
            with_hidden(kernel_with("if (n == 37) __trap();\n"
                                    "    if (i < n) y[i] = 2.0f * x[i] + w[i];"),
                        {37}),
            {});
        INFO(evaluation.message);
        CHECK(evaluation.status == EvaluationStatus::crashed);
        CHECK_THAT(evaluation.message, ContainsSubstring("on hidden N=37: "));
        a_right_one_passes();
    }
}

TEST_CASE("a candidate is run at the least alignment that its plan accepts", "[gpu]") {
    const auto vectorised = [](const std::string& least) {
        return "//@kernelforge 1\n//@valid N % 4 == 0 && align(x) >= " + least +
               " && align(w) >= 16\n"
               "//@launch k<<<(cdiv(N / 4, 256)), (256)>>>(x, w, y, N:i64)\n"
               "extern \"C\" __global__ void k(const float4* x, const float4* w, float* y, "
               "long long n) {\n"
               "    const long long i = blockIdx.x * 256LL + threadIdx.x;\n"
               "    if (i >= n / 4) return;\n    const float4 a = x[i], b = w[i];\n"
               "    y[4 * i] = 2.0f * a.x + b.x;\n    y[4 * i + 1] = 2.0f * a.y + b.y;\n"
               "    y[4 * i + 2] = 2.0f * a.z + b.z;\n    y[4 * i + 3] = 2.0f * a.w + b.w;\n}\n";
    };
    const auto judged_at = [&](const std::string& least) {
        return rig()->run(scale_task({1'000'000}), {vectorised(least), {}, EvaluationDepth::check});
    };
    const Evaluation right = judged_at("16");
    INFO(right.message);
    CHECK(right.status == EvaluationStatus::ok);
    const Evaluation overstated = judged_at("8");
    INFO(overstated.message);
    CHECK(overstated.status == EvaluationStatus::crashed);
    a_right_one_passes();
}

TEST_CASE("outputs may share the buffer of an input beside other outputs", "[gpu]") {
    const std::shared_ptr<Task> task = inplace_task();
    const Evaluation right = rig()->run(task, {task->reference_cuda});
    INFO(right.message);
    REQUIRE(right.status == EvaluationStatus::ok);
    CHECK(right.workloads[0].outputs.size() == 2);
    std::string late = task->reference_cuda;
    const std::string difference = "old - w[i]";
    late.replace(late.find(difference), difference.size(), "y[i] - w[i]");
    const Evaluation wrong = rig()->run(task, {late});
    CHECK(wrong.status == EvaluationStatus::wrong_result);
    CHECK_THAT(wrong.message, ContainsSubstring("output z"));
}

TEST_CASE("a task of gigabytes is refilled in place and its timed calls are judged", "[gpu]") {
    // 3 x 2.4 GB.
    const Evaluation evaluation =
        rig()->run(scale_task({600'000'000}),
                   {right_scale, {}, EvaluationDepth::screen, std::chrono::seconds(60)});
    INFO(evaluation.message);
    REQUIRE(evaluation.status == EvaluationStatus::ok);
    REQUIRE(evaluation.workloads[0].timing);
    std::printf("7.2 GB: median %.1f us, %d samples, %.2f s in all\n",
                evaluation.workloads[0].timing->median_s * 1e6,
                evaluation.workloads[0].timing->samples, evaluation.total_time.count());
}
