// SPDX-License-Identifier: Apache-2.0
#include "hidden_shapes.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "support/catch.hpp"
#include "support/fakes.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

/// y = 2 * x over two ranged axes, a third that is not ranged, and their product.
Task ranged_task() {
    Task task = fake_task();
    task.definition.axes = {{"rows", Axis::Kind::variable, 0, "", ""},
                            {"width", Axis::Kind::variable, 0, "", ""},
                            {"heads", Axis::Kind::variable, 0, "", ""},
                            {"cols", Axis::Kind::expression, 0, "width * heads", ""}};
    task.workloads = {{"a", {{"rows", 64}, {"width", 128}, {"heads", 2}}, {}},
                      {"b", {{"rows", 4096}, {"width", 1024}, {"heads", 4}}, {}}};
    task.axis_ranges = {{"rows", {1, 65536}}, {"width", {16, 2048}}};
    return task;
}

plan::Plan plan_of(const Task& task, const std::string& valid = "") {
    std::string source = fake_source({});
    if (!valid.empty()) source.insert(source.find("//@launch"), "//@valid " + valid + "\n");
    return plan::parse_plan(source, "candidate.cu", task.definition);
}

const DeviceInfo& device() {
    static const DeviceInfo info = FakeEvaluator::State().devices[0];
    return info;
}

std::vector<Workload> draw(const Task& task, const std::string& valid, std::uint64_t seed,
                           std::size_t count) {
    return hidden_shapes(task, plan_of(task, valid), {}, device(), seed, count);
}

bool near_multiple(std::int64_t value) {
    return value >= 63 && (value % 64 == 1 || value % 64 == 63);
}

}  // namespace

TEST_CASE("hidden shapes are new, in range, small enough, and follow their traits",
          "[hidden_shapes]") {
    const Task task = ranged_task();
    const double most = tensor_bytes(task.definition, task.workloads[1]);
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        const std::vector<Workload> shapes = draw(task, "", seed, 4);
        REQUIRE(shapes.size() == 4);
        std::set<std::map<std::string, std::int64_t>> seen;
        for (const Workload& shape : shapes) {
            CHECK(seen.insert(shape.axes).second);
            for (const Workload& workload : task.workloads) CHECK(shape.axes != workload.axes);
            for (const auto& [axis, range] : task.axis_ranges) {
                CHECK(shape.axes.at(axis) >= range.first);
                CHECK(shape.axes.at(axis) <= range.second);
            }
            CHECK((shape.axes.at("heads") == 2 || shape.axes.at("heads") == 4));
            CHECK(tensor_bytes(task.definition, shape) <= most);
        }
        CHECK(shapes[0].axes.at("rows") % 2 == 1);
        CHECK(shapes[0].axes.at("width") % 2 == 1);
        CHECK((near_multiple(shapes[1].axes.at("rows")) ||
               near_multiple(shapes[1].axes.at("width"))));
        CHECK(shapes[2].axes.at("rows") == 1);
        CHECK(shapes[2].axes.at("width") == 16);
    }
}

TEST_CASE("the same seed draws the same shapes, another seed others", "[hidden_shapes]") {
    const Task task = ranged_task();
    const auto axes = [&](std::uint64_t seed) { return draw(task, "", seed, 1).at(0).axes; };
    CHECK(axes(1) == axes(1));
    std::set<std::map<std::string, std::int64_t>> seen;
    for (std::uint64_t seed = 0; seed < 50; ++seed) seen.insert(axes(seed));
    CHECK(seen.size() > 40);
}

TEST_CASE("a plan's condition is met on both of its sides", "[hidden_shapes]") {
    const Task task = ranged_task();
    for (const char* valid : {"rows <= 5000", "rows % 64 == 0", "width >= 100 && rows < 50000"}) {
        INFO(valid);
        const plan::Plan plan = plan_of(task, valid);
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            const std::vector<Workload> shapes = draw(task, valid, seed, 6);
            REQUIRE(shapes.size() >= 5);
            bool neighbours = false;
            for (std::size_t i = 0; i + 1 < shapes.size(); ++i) {
                std::int64_t distance = 0;
                for (const auto& [axis, value] : shapes[i].axes) {
                    distance += std::abs(value - shapes[i + 1].axes.at(axis));
                }
                neighbours =
                    neighbours || (distance == 1 && serves(plan, task, shapes[i], {}, device()) &&
                                   !serves(plan, task, shapes[i + 1], {}, device()));
            }
            CHECK(neighbours);
            CHECK(std::count_if(shapes.begin(), shapes.end(), [&](const Workload& shape) {
                      return serves(plan, task, shape, {}, device());
                  }) >= 2);
        }
    }
}

TEST_CASE("without ranges there are no hidden shapes, with one small value only what is left",
          "[hidden_shapes]") {
    Task task = ranged_task();
    task.axis_ranges.clear();
    CHECK(draw(task, "", 0, 4).empty());
    task.axis_ranges = {{"rows", {64, 64}}};
    task.workloads.resize(1);
    CHECK(draw(task, "", 0, 4).empty());
    task.axis_ranges = {{"rows", {8, 9}}};
    CHECK(draw(task, "", 0, 4).size() == 2);
}

TEST_CASE("an input of distinct values is not longer than its bound", "[hidden_shapes]") {
    Task task = ranged_task();
    task.definition.inputs.push_back({"pages", {"rows"}, false, DType::int32, ""});
    InitSpec init;
    init.kind = InitSpec::Kind::distinct;
    init.bound = "width";
    task.init["pages"] = init;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        for (const Workload& shape : draw(task, "", seed, 4)) {
            CHECK(shape.axes.at("rows") <= shape.axes.at("width"));
        }
    }
}

TEST_CASE("hidden shapes obey the rules of workloads", "[hidden_shapes]") {
    Task task = ranged_task();
    task.definition.axes.push_back({"rest", Axis::Kind::expression, 0, "rows - 60", ""});
    task.definition.axes.push_back({"packed", Axis::Kind::expression, 0, "rows * 63", ""});
    task.definition.inputs.push_back({"tail", {"rest"}, false, DType::float32, ""});
    task.definition.inputs.push_back({"codes", {"packed"}, false, DType::float4_e2m1, ""});
    task.definition.inputs.push_back({"starts", {"rest"}, false, DType::int16, ""});
    InitSpec init;
    init.kind = InitSpec::Kind::offsets;
    init.bound = "rows";
    task.init["starts"] = init;
    check_task(task);
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (const Workload& shape : draw(task, "", seed, 4)) {
            Task other = task;
            other.workloads.push_back(shape);
            CHECK_FALSE(error_of([&] { check_task(other); }));
            ++found;
        }
    }
    CHECK(found > 20);
}

TEST_CASE("ranges up to the largest integer, and ones that nothing fits, are drawn from",
          "[hidden_shapes]") {
    Task task = ranged_task();
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    task.axis_ranges = {{"rows", {1, most}}, {"width", {1, most}}};
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        for (const Workload& shape : draw(task, "rows < 5000", seed, 6)) {
            CHECK(shape.axes.at("rows") >= 1);
            CHECK(shape.axes.at("width") >= 1);
        }
    }
    task.axis_ranges = {{"rows", {most - 1, most}}, {"width", {most, most}}};
    CHECK(draw(task, "", 0, 4).empty());
    CHECK(draw(task, "rows % 2 == 0", 0, 6).empty());
}

TEST_CASE("many workloads with computed axes are put in order at once", "[hidden_shapes]") {
    Task task = ranged_task();
    for (int i = 0; i < 200; ++i) {
        task.definition.axes.push_back({"e" + std::to_string(i), Axis::Kind::expression, 0,
                                        "rows + " + std::to_string(i), ""});
    }
    task.workloads.clear();
    for (std::int64_t i = 1; i <= 1000; ++i) {
        task.workloads.push_back(
            {std::to_string(i), {{"rows", i * 7919 % 1000 + 1}, {"width", 8}, {"heads", 1}}, {}});
    }
    CHECK(task.workloads[smallest_workload(task)].axes.at("rows") == 1);
}

TEST_CASE("a screen gets one hidden shape, a promotion more where a plan has a condition",
          "[hidden_shapes]") {
    const Task task = ranged_task();
    CHECK(hidden_count(EvaluationDepth::screen, plan_of(task)) == 1);
    CHECK(hidden_count(EvaluationDepth::promotion, plan_of(task)) == 4);
    CHECK(hidden_count(EvaluationDepth::promotion, plan_of(task, "rows < 9000")) == 6);
    CHECK(hidden_count(EvaluationDepth::admission, plan_of(task)) == 0);
}

TEST_CASE("workloads are spread from the fewest bytes to the most", "[hidden_shapes]") {
    Task task = fake_task();
    task.workloads = {{"l", {{"rows", 4000}}, {}},
                      {"s", {{"rows", 1}}, {}},
                      {"m", {{"rows", 100}}, {}},
                      {"x", {{"rows", 50}}, {}}};
    CHECK(spread_of_workloads(task, 1e12) == std::vector<std::size_t>{1, 2, 0});
    CHECK(spread_of_workloads(task, 8192.0 * 100) == std::vector<std::size_t>{1, 3, 2});
    CHECK(spread_of_workloads(task, 1.0) == std::vector<std::size_t>{1});
    CHECK(smallest_workload(task) == 1);
}

namespace {

EvaluationRequest built_request(Compiler& compiler, const Task& task, const std::string& source) {
    const std::vector<std::size_t> workloads = all_workloads(task);
    const auto compiled = [&](const std::string& text) {
        return build_candidate(compiler, task, {text, {}}, "candidate.cu", workloads, device(), {},
                               {})
            .compiled;
    };
    EvaluationRequest request;
    request.task = std::make_shared<const Task>(task);
    request.workloads = workloads;
    request.candidate = compiled(source);
    request.reference = compiled(task.reference_cuda);
    request.opponent = request.reference;
    return request;
}

}  // namespace

TEST_CASE("all sides of a request have a build index for every hidden shape", "[hidden_shapes]") {
    const auto state = std::make_shared<FakeCompiler::State>();
    FakeCompiler compiler(state);
    const Task task = ranged_task();
    std::string source = fake_source({});
    EvaluationRequest request = built_request(compiler, task, source);
    request.depth = EvaluationDepth::promotion;
    const int before = state->calls;
    CHECK_FALSE(add_hidden_shapes(compiler, device(), {}, request, {}));
    CHECK(state->calls == before);  // nothing is specialised
    CHECK(request.hidden.size() == 4);
    for (const CompiledCandidate* side :
         {&request.candidate, &request.reference, &*request.opponent}) {
        CHECK(side->build_of_workload.size() == 6);
    }
    source.insert(source.find("//@launch"), "//@specialize rows\n");
    request = built_request(compiler, task, source);
    request.depth = EvaluationDepth::promotion;
    CHECK_FALSE(add_hidden_shapes(compiler, device(), {}, request, {}));
    CHECK(request.candidate.builds.size() == 6);
    CHECK(request.candidate.build_of_workload.back() == 5);
}

TEST_CASE("two passes of a promotion draw different shapes, the same pass the same",
          "[hidden_shapes]") {
    FakeCompiler compiler;
    const Task task = ranged_task();
    EvaluationRequest first = built_request(compiler, task, fake_source({}));
    first.depth = EvaluationDepth::promotion;
    EvaluationRequest again = first;
    EvaluationRequest second = first;
    second.seed = 1;
    for (EvaluationRequest* request : {&first, &again, &second}) {
        CHECK_FALSE(add_hidden_shapes(compiler, device(), {}, *request, {}));
    }
    CHECK(first.hidden[0].axes == again.hidden[0].axes);
    CHECK(first.hidden[0].axes != second.hidden[0].axes);
}

TEST_CASE("a plan that fails on a hidden shape is a plan error that names its axes",
          "[hidden_shapes]") {
    FakeCompiler compiler;
    Task task = fake_task();
    task.axis_ranges = {{"rows", {7, 7}}};
    std::string source = fake_source({});
    source.replace(source.find("(rows)"), 6, "(rows / (rows % 64 == 0))");
    EvaluationRequest request = built_request(compiler, task, source);
    const auto verdict = add_hidden_shapes(compiler, device(), {}, request, {});
    REQUIRE(verdict);
    CHECK(verdict->status == EvaluationStatus::plan_error);
    CHECK_THAT(verdict->message, ContainsSubstring("on another shape, rows=7: "));
}

TEST_CASE("under a sanitizer the small shapes are run, else the smallest workload",
          "[hidden_shapes]") {
    FakeCompiler compiler;
    Task task = fake_task();
    EvaluationRequest request = built_request(compiler, task, fake_source({}));
    request.depth = EvaluationDepth::sanitize;
    EvaluationRequest bare = request;
    CHECK_FALSE(add_hidden_shapes(compiler, device(), {}, bare, {}));
    CHECK(bare.hidden.empty());
    CHECK(bare.workloads == std::vector<std::size_t>{0});
    CHECK(bare.candidate.build_of_workload.size() == 1);
    task.emulator_workloads = {{"tiny", {{"rows", 2}}, {}}};
    request.task = std::make_shared<const Task>(task);
    CHECK_FALSE(add_hidden_shapes(compiler, device(), {}, request, {}));
    CHECK(request.workloads.empty());
    REQUIRE(request.hidden.size() == 1);
    CHECK(request.hidden[0].axes.at("rows") == 2);
    CHECK(request.candidate.build_of_workload.size() == 1);
    CHECK(request.reference.build_of_workload.size() == 1);
}

TEST_CASE("on an emulated device a task has its emulator workloads", "[hidden_shapes]") {
    Task task = ranged_task();
    task.emulator_workloads = {{"e", {{"rows", 3}, {"width", 16}, {"heads", 2}}, {}}};
    const SmallTask small = emulator_task(task);
    REQUIRE(small.task.workloads.size() == 1);
    CHECK(small.task.workloads[0].axes == task.emulator_workloads[0].axes);
    CHECK(small.task.axis_ranges.at("rows") == std::pair<std::int64_t, std::int64_t>{1, 3});
    CHECK(small.task.axis_ranges.at("width") == std::pair<std::int64_t, std::int64_t>{16, 16});
    CHECK(small.note.find("its 1 emulator workloads take the place of its 2") != std::string::npos);
    check_task(small.task);
}

TEST_CASE("on an emulated device constant axes may have other values", "[hidden_shapes]") {
    Task task = ranged_task();
    task.definition.axes[2] = {"heads", Axis::Kind::constant, 32, "", ""};
    for (Workload& workload : task.workloads) workload.axes.erase("heads");
    task.emulator_workloads = {{"e", {{"rows", 3}, {"width", 16}}, {}}};
    task.emulator_axes = {{"heads", 2}};
    check_task(task);
    const SmallTask small = emulator_task(task);
    CHECK(axis_values(small.task.definition, small.task.workloads[0]).at("cols") == 32);
    CHECK(small.note.find(", with heads=2") != std::string::npos);
    check_task(small.task);
    task.emulator_axes = {{"rows", 2}};
    CHECK_THROWS_AS(check_task(task), Error);
    task.emulator_axes = {{"heads", 0}};
    CHECK_THROWS_AS(check_task(task), Error);
}

TEST_CASE("a task without emulator workloads gets its smallest with ranged axes cut",
          "[hidden_shapes]") {
    const Task task = ranged_task();
    const SmallTask small = emulator_task(task);
    REQUIRE(small.task.workloads.size() == 1);
    CHECK(small.task.workloads[0].axes.at("rows") == 64);
    CHECK(small.task.workloads[0].axes.at("width") == 67);
    CHECK(small.task.workloads[0].axes.at("heads") == 2);
    CHECK(small.note.find("it has no emulator workloads") != std::string::npos);
    check_task(small.task);
    CHECK(emulator_task(small.task).task.workloads.at(0).axes == small.task.workloads[0].axes);
    // Where no range allows it, the smallest stays as it is.
    Task fixed = task;
    fixed.axis_ranges.clear();
    CHECK(emulator_task(fixed).task.workloads[0].axes == task.workloads[0].axes);
}
