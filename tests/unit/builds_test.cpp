// SPDX-License-Identifier: Apache-2.0
#include "builds.hpp"

#include <memory>
#include <string>

#include "support/catch.hpp"
#include "support/fakes.hpp"

using namespace kernelforge;

namespace {

/// y [M, N] = x [M, K] w [K, N] in bfloat16, w constant.
Task product_task() {
    Task task;
    task.definition.name = "product";
    task.definition.axes = {{"M", Axis::Kind::variable, 0, "", ""},
                            {"K", Axis::Kind::constant, 64, "", ""},
                            {"N", Axis::Kind::constant, 32, "", ""}};
    task.definition.inputs = {{"x", {"M", "K"}, false, DType::bfloat16, ""},
                              {"w", {"K", "N"}, false, DType::bfloat16, ""}};
    task.definition.outputs = {{"y", {"M", "N"}, false, DType::bfloat16, ""}};
    task.workloads = {{"a", {{"M", 16}}, {}}, {"b", {{"M", 48}}, {}}};
    task.constant_inputs = {"w"};
    return task;
}

Built build(const Task& task, const std::string& source, test::FakeCompiler::State& state) {
    test::FakeCompiler compiler(
        std::shared_ptr<test::FakeCompiler::State>(&state, [](test::FakeCompiler::State*) {}));
    return build_candidate(compiler, task, {source, {}}, "c.cu", all_workloads(task), DeviceInfo(),
                           {}, {});
}

}  // namespace

TEST_CASE("a plan of library steps alone is built without the compiler", "[builds]") {
    const Task task = product_task();
    test::FakeCompiler::State state;
    const Built built = build(task, "//@call matmul(D=y, A=x, B=w)\n", state);
    INFO(built.message);
    CHECK(built.ok());
    CHECK(state.calls == 0);
    CHECK(built.compiled.builds.size() == 1);
    REQUIRE(built.resolved.size() == 2);
    const auto& call = std::get<plan::ResolvedCall>(built.resolved[1].steps.at(0));
    CHECK(call.find("A")->shape == std::vector<std::int64_t>{48, 64});
    CHECK(call.find("A")->dtype == "bf16");
}

TEST_CASE("a library step that does not fit is the plan's error", "[builds]") {
    test::FakeCompiler::State state;
    const Built built = build(product_task(), "//@call matmul(D=y, A=x, B=x)\n", state);
    CHECK(built.status == EvaluationStatus::plan_error);
    CHECK_THAT(built.message, ContainsSubstring("c.cu:1:26: matmul: B=x is 16 x 64"));
}

TEST_CASE("a //@valid line that excludes a workload is the plan's error", "[builds]") {
    const Task task = product_task();
    const std::string source = "//@valid M > 16\n//@call matmul(D=y, A=x, B=w)\n";
    test::FakeCompiler::State state;
    const Built built = build(task, source, state);
    CHECK(built.status == EvaluationStatus::plan_error);
    CHECK_THAT(built.message, ContainsSubstring("excludes workload M=16, which must be served"));
    test::FakeCompiler compiler(
        std::shared_ptr<test::FakeCompiler::State>(&state, [](test::FakeCompiler::State*) {}));
    DeviceInfo emulator;
    emulator.emulated = true;
    CHECK_THAT(
        build_candidate(compiler, task, {source, {}}, "c.cu", all_workloads(task), emulator, {}, {})
            .message,
        ContainsSubstring("M=16 (one of the task's for the emulator), which must"));
}

TEST_CASE("prepare steps may use the constant inputs of the task", "[builds]") {
    const std::string kernel =
        "\n//@workspace p f32 [N]\n//@launch k<<<1, 1>>>(p, y)\n__global__ void k(void* p, void* "
        "y) {}\n"
        "__global__ void pack(const void* w, void* p) {}\n";
    test::FakeCompiler::State state;
    const Task task = product_task();
    const Built right = build(task, "//@prepare pack<<<1, 1>>>(w, p)" + kernel, state);
    INFO(right.message);
    CHECK(right.ok());
    const Built wrong = build(task, "//@prepare pack<<<1, 1>>>(x, p)" + kernel, state);
    CHECK(wrong.status == EvaluationStatus::plan_error);
    CHECK_THAT(wrong.message, ContainsSubstring("'x' is no constant input"));
}
