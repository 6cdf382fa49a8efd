// SPDX-License-Identifier: Apache-2.0
#include "prompt.hpp"

#include "support/catch.hpp"
#include "support/fakes.hpp"

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

struct PromptWorld {
    Task task = fake_task();
    DeviceInfo device = FakeEvaluator::State().devices[0];
    std::vector<WorkloadSummary> workloads = {
        {"small", {{"portable", 10e-6}}, 8e-6, 1e-6, 1.25, 8.0},
        {"large", {{"portable", 20e-6}}, 16e-6, 2e-6, 1.25, 8.0}};
    Expansion expansion;
    NodeRecord parent;
    Feedback feedback = Feedback::findings;
    std::vector<const NodeRecord*> attempts;

    PromptWorld() {
        task.folder = "/secret/folder";
        task.reference_cuda_path = "/secret/folder/reference.cu";
        task.baselines[0].source_path = "/secret/folder/portable.cu";
        expansion.directive = "Look at the vector width.";
        parent.candidate = Candidate{fake_source({.time_ns = 8'000}), {}};
        parent.speedup = 1.25;
        parent.compile.emplace();
        KernelFacts facts;
        facts.name = "scale";
        facts.registers_per_thread = 32;
        parent.compile->kernels = {facts};
        parent.diagnosis.emplace();
        Bottleneck b;
        b.sentence = "limited by memory";
        parent.diagnosis->bottlenecks = {b};
        Finding finding;
        finding.tool = "residency";
        finding.cause = "12 % occupancy";
        finding.actions = {{"use smaller blocks", "scale<<<1, 64>>>"}};
        Finding raw;
        raw.tool = "raw";
        raw.cause = "dram__bytes.sum=17";
        parent.diagnosis->findings = {finding, raw};
        parent.evaluation.emplace();
        WorkloadResult result;
        result.timing = Timing{};
        result.timing->median_s = 8e-6;
        parent.evaluation->workloads = {result};
    }

    [[nodiscard]] std::string user(bool with_parent = true) const {
        const PromptInput input{task,      device,    "Prefer small blocks.",          feedback,
                                workloads, expansion, with_parent ? &parent : nullptr, {},
                                attempts};
        return first_messages(input).at(1).content;
    }
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "a prompt shows operation, device, guide, workloads, parent, diagnosis and directive in order",
    "[prompt]") {
    const std::string text = PromptWorld().user();
    std::size_t at = 0;
    for (const char* part :
         {"# Operation: scale", "- rows (variable)", "- cols = 1024 (constant)",
          "- x: float32 [rows, cols]", "def run(x)", "# Device: Fake H200",
          "# Guide\nPrefer small blocks.", "| 1 | rows=128 | 20.00 | 16.00 | 2.00 |",
          "# Parent candidate\nIt runs at 1.250 times", "fake_time_ns = 8000",
          "# What was measured of the parent", "workload 0: 8.00 us", "limited by memory",
          "12 % occupancy", "try: use smaller blocks", "# Your task",
          "Look at the vector width."}) {
        INFO(part);
        const std::size_t found = text.find(part, at);
        REQUIRE(found != std::string::npos);
        at = found;
    }
}

TEST_CASE("feedback decides what of the diagnosis a prompt shows", "[prompt]") {
    PromptWorld world;
    CHECK_FALSE(has(world.user(), "dram__bytes"));
    world.feedback = Feedback::raw;
    CHECK(has(world.user(), "dram__bytes.sum=17"));
    CHECK(has(world.user(), "kernel scale: registers 32, spill stores ? bytes"));
    CHECK_FALSE(has(world.user(), "occupancy"));
    world.feedback = Feedback::none;
    CHECK_FALSE(has(world.user(), "What was measured"));
    CHECK(has(world.user(), "# Parent candidate"));
}

TEST_CASE("prompts are deterministic and hold no path", "[prompt]") {
    const PromptWorld world;
    CHECK(world.user() == PromptWorld().user());
    CHECK_FALSE(has(world.user(), "secret"));
    CHECK(system_text() == system_text());
    CHECK(has(system_text(), "//@launch"));
    CHECK(has(system_text(), "change-class: one of memory-access, tiling"));
}

TEST_CASE("without a parent a prompt asks for a first candidate", "[prompt]") {
    const std::string text = PromptWorld().user(false);
    CHECK(has(text, "Write a candidate for this operation from scratch."));
    CHECK_FALSE(has(text, "# Parent candidate"));
}

TEST_CASE("only the last attempts are mentioned, a line each", "[prompt]") {
    PromptWorld world;
    std::vector<NodeRecord> records(10);
    for (std::size_t i = 0; i < records.size(); ++i) {
        records[i].plan = "plan " + std::to_string(i) + "\nsecond line " + std::string(400, 'x');
        records[i].change_class = "tiling";
        records[i].status = EvaluationStatus::wrong_result;
        records[i].message = "y is wrong";
        world.attempts.push_back(&records[i]);
    }
    const std::string text = world.user();
    CHECK_FALSE(has(text, "plan 3"));
    CHECK(has(text, "- tiling: plan 4 -> wrong_result: y is wrong\n"));
    CHECK(has(text, "plan 9"));
    CHECK_FALSE(has(text, "second line"));
}

TEST_CASE("a repair prompt quotes at most ten errors", "[prompt]") {
    NodeRecord failed;
    failed.status = EvaluationStatus::compile_error;
    failed.candidate = Candidate{"first\nsecond\n", {}};
    failed.compile.emplace();
    for (int i = 0; i < 15; ++i) {
        failed.compile->diagnostics.push_back({CompileDiagnostic::Severity::error,
                                               {"candidate.cu", 2, 1},
                                               "bad " + std::to_string(i)});
    }
    failed.compile->diagnostics[0].severity = CompileDiagnostic::Severity::warning;
    const std::string text = repair_text(fake_task(), failed);
    CHECK_FALSE(has(text, "bad 0\n"));
    CHECK(has(text, "line 2: bad 1\n    2 | second"));
    CHECK(has(text, "bad 10"));
    CHECK_FALSE(has(text, "bad 11"));
    CHECK(has(text, "- and more"));
}

TEST_CASE("a lesson keeps whole characters when it is cut", "[prompt]") {
    NodeRecord attempt;
    for (int i = 0; i < 200; ++i) attempt.plan += "\u00e9";
    const std::string line = lesson_line(attempt);
    CHECK(has(line, "..."));
    CHECK(line.substr(0, line.find("...")).size() % 2 == 0);
}
