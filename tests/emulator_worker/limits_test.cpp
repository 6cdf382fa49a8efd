// SPDX-License-Identifier: Apache-2.0
// Candidates that ask for more than there is, or do not end: each is one sentence, and the
// evaluator judges the next candidate as if nothing had been.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "evaluator_emulator/emulator_evaluator.hpp"
#include "rig.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

namespace {

using namespace kernelforge;
using namespace kernelforge::test;
using namespace std::chrono_literals;

class Limited {
  public:
    explicit Limited(std::uint64_t memory_mib = 8192)
        : evaluator_(options(memory_mib), context()), device_(evaluator_.devices().at(0)) {}

    [[nodiscard]] const DeviceInfo& device() const noexcept { return device_; }

    /// The evaluation of a candidate, after which a right one was found right.
    [[nodiscard]] Evaluation judged(const std::string& source,
                                    std::chrono::milliseconds time_limit = 60s) {
        Evaluation evaluation = ask({source, EvaluationDepth::check, "", time_limit});
        const Evaluation next = ask({candidate(right_body)});
        INFO(next.message);
        CHECK(next.status == EvaluationStatus::ok);
        UNSCOPED_INFO(to_string(evaluation.status)
                      << " " << evaluation.rule << ": " << evaluation.message);
        return evaluation;
    }
    Evaluation ask(const Run& run) {
        return requests_.judged(
            scale_task({1000}), run, device_,
            [&](const EvaluationRequest& request) { return evaluator_.evaluate(request, {}); });
    }

  private:
    static emulator_host::EmulatorOptions options(std::uint64_t memory_mib) {
        emulator_host::EmulatorOptions options;
        options.threads = 2;
        options.memory_limit_bytes = memory_mib << 20U;
        return options;
    }
    static PluginContext context() {
        PluginContext context;
        context.worker_path = worker_path();
        return context;
    }

    Requests requests_;
    emulator_host::EmulatorEvaluator evaluator_;
    DeviceInfo device_;
};

Evaluation judged(const std::string& source, std::chrono::milliseconds time_limit = 60s) {
    static Limited limited;
    return limited.judged(source, time_limit);
}

/// As `candidate`, with another grid.
std::string with_grid(const std::string& grid, const std::string& body = right_body) {
    std::string source = candidate(body);
    const std::string usual = "(cdiv(N, 256))";
    source.replace(source.find(usual), usual.size(), "(" + grid + ")");
    return source;
}

/// As `candidate`, with a workspace `float* t` of this many elements.
std::string with_workspace(const std::string& elements, const std::string& body) {
    std::string source = candidate(body, "//@workspace t f32 [" + elements + "] init=undef\n");
    const std::string arguments = "(x, w, y, N:i64)";
    source.replace(source.find(arguments), arguments.size(), "(x, w, y, t, N:i64)");
    const std::string parameters = "float* y, long long n";
    source.replace(source.find(parameters), parameters.size(), "float* y, float* t, long long n");
    return source;
}

/// A candidate that never ends.
std::string endless() {
    return candidate(
        "    volatile float* z = y;\n    if (i < n) { z[i] = 0;\n"
        "        while (z[i] != 1.0f) z[i] = 0; }");
}

/// The emulating workers that this process has started.
std::vector<pid_t> own_workers() {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream status(entry.path() / "stat"), words(entry.path() / "cmdline");
        const std::string command(std::istreambuf_iterator<char>(words), {});
        std::string number, program, state;
        pid_t parent = 0;
        status >> number >> program >> state >> parent;
        if (parent == ::getpid() && command.find("emulate") != std::string::npos) {
            found.push_back(static_cast<pid_t>(std::stol(name)));
        }
    }
    return found;
}

bool says(const Evaluation& evaluation, const std::string& text) {
    return evaluation.message.find(text) != std::string::npos;
}

/// For people: no type of C++, no line end.
bool is_sentence(const Evaluation& evaluation) {
    return !evaluation.message.empty() && !says(evaluation, "\n") && !says(evaluation, "std::");
}

bool is_not_emulated(const Evaluation& evaluation) {
    return evaluation.status == EvaluationStatus::rejected && evaluation.rule == "not_emulated" &&
           is_sentence(evaluation);
}

}  // namespace

TEST_CASE("a grid of more blocks than the emulator runs is refused", "[emulator_limits]") {
    const Evaluation evaluation = judged(with_grid("2147483647, 65535"));
    CHECK(is_not_emulated(evaluation));
    CHECK(says(evaluation, "140735340806145 blocks"));
    CHECK(says(evaluation, "at most 4294967296"));
}

TEST_CASE("the largest grid of one axis ends with the time limit", "[emulator_limits]") {
    const Evaluation evaluation = judged(with_grid("2147483647", "    if (i < 0) y[0] = 0;"), 1s);
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(is_sentence(evaluation));
    CHECK(says(evaluation, "did not end in time"));
}

TEST_CASE("dynamic shared memory over the device's is a plan error", "[emulator_limits]") {
    std::string source = candidate(right_body);
    source.replace(source.find("(256)>>>"), 8, "(256), (SMEM_MAX + 1)>>>");
    const Evaluation evaluation = judged(source);
    CHECK(evaluation.status == EvaluationStatus::plan_error);
    CHECK(says(evaluation, "expected 0 to 232448"));
}

TEST_CASE("a workspace larger than the device's memory is a plan error", "[emulator_limits]") {
    const Evaluation evaluation = judged(with_workspace("274877906944", right_body));
    CHECK(evaluation.status == EvaluationStatus::plan_error);
    CHECK(says(evaluation, "needs 1099511627776 bytes"));
}

TEST_CASE("more local memory than a thread has is refused", "[emulator_limits]") {
    const auto of_words = [](const std::string& words) {
        return candidate("    float a[" + words + "];\n    for (int j = 0; j < " + words +
                         "; ++j) a[(j * 7 + i) % " + words +
                         "] = j;\n    if (i < n) y[i] = a[(i * 3) % " + words + "];");
    };
    const Evaluation cleared = judged(of_words("25000"));
    CHECK(cleared.status == EvaluationStatus::plan_error);
    CHECK(says(cleared, "at most 16384 can be cleared"));
    const Evaluation evaluation = judged(of_words("150000"));
    CHECK(is_not_emulated(evaluation));
    CHECK(says(evaluation, "at most 524288"));
}

TEST_CASE("a recursion without an end overflows the stack", "[emulator_limits]") {
    std::string source = candidate("    if (i < n) y[i] = down(0, x);");
    source.insert(source.find("extern"),
                  "__device__ __noinline__ float down(int d, const float* x) {\n"
                  "    volatile float a[16];\n    a[d & 15] = x[0];\n"
                  "    return d < 0 ? 0.0f : down(d + 1, x) + a[d & 15];\n}\n");
    const Evaluation evaluation = judged(source);
    CHECK(evaluation.status == EvaluationStatus::crashed);
    CHECK(is_sentence(evaluation));
    CHECK(says(evaluation, "overflows its stack of 1024 bytes"));
}

TEST_CASE("an endless loop ends with the time limit and says where it runs", "[emulator_limits]") {
    const Evaluation evaluation = judged(endless(), 1s);
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(is_sentence(evaluation));
    CHECK(says(evaluation, "did not end in time: block ("));
    CHECK(says(evaluation, "warp 0: lanes 0xffffffff run at line "));
}

TEST_CASE("a worker that is killed twice is a verdict, and another takes its place",
          "[emulator_limits]") {
    Limited limited;
    Evaluation evaluation;
    std::jthread asks([&] { evaluation = limited.ask({endless()}); });
    for (int round = 0; round < 2; ++round) {
        std::this_thread::sleep_for(2s);
        const std::vector<pid_t> workers = own_workers();
        CHECK_FALSE(workers.empty());
        for (const pid_t worker : workers) ::kill(worker, SIGKILL);
    }
    asks.join();
    CHECK(evaluation.status == EvaluationStatus::crashed);
    CHECK(is_sentence(evaluation));
    CHECK(says(evaluation, "signal 9"));
    const Evaluation next = limited.judged(candidate(right_body));
    CHECK(next.status == EvaluationStatus::ok);
}

TEST_CASE("a deadlock says where each warp waits", "[emulator_limits]") {
    const Evaluation apart =
        judged(candidate("    if (threadIdx.x < 32) __syncthreads();\n    else asm "
                         "volatile(\"bar.sync 1, 256;\");"));
    CHECK(apart.status == EvaluationStatus::rejected);
    CHECK(apart.rule == "emulator_checker");
    CHECK(is_sentence(apart));
    CHECK(says(apart, "warp 0: lanes 0xffffffff wait at barrier 0 of line 5"));
    CHECK(says(apart, "warp 7: lanes 0xffffffff wait at barrier 1 of line 6"));

    std::string source = with_workspace("64",
                                        "    volatile float* z = t;\n"
                                        "    if (threadIdx.x == 0) while (z[0] != 7.0f) {}");
    source.replace(source.find("init=undef"), 10, "init=zero");
    const Evaluation polled = judged(source);
    CHECK(polled.status == EvaluationStatus::timed_out);
    CHECK(is_sentence(polled));
    CHECK(says(polled, "warps poll what nothing changes"));
    CHECK(says(polled, "warp 0: lanes 0x00000001 run at line 7"));
}

TEST_CASE("text that is no PTX does not compile", "[emulator_limits]") {
    for (const char* text : {"this is not ptx;", "frobnicate.u32 7;", "ld.global.u32 %%r1, [;"}) {
        const Evaluation evaluation =
            judged(candidate("    asm volatile(\"" + std::string(text) + "\");"));
        INFO(text);
        CHECK(evaluation.status == EvaluationStatus::compile_error);
        CHECK_FALSE(evaluation.message.empty());
    }
}

TEST_CASE("an instruction that is not emulated is named with its line", "[emulator_limits]") {
    const Evaluation evaluation = judged(candidate(
        "    unsigned v;\n"
        "    asm volatile(\"vmad.u32.u32.u32 %0, %1, %1, %1;\" : \"=r\"(v) : \"r\"((unsigned)i));\n"
        "    if (i < n) y[i] = v;"));
    CHECK(is_not_emulated(evaluation));
    CHECK(says(evaluation, "line 6: vmad.u32.u32.u32"));
}

TEST_CASE("traps and failed assertions say which thread", "[emulator_limits]") {
    const Evaluation trap = judged(candidate("    if (i == 5) __trap();"));
    CHECK(trap.status == EvaluationStatus::crashed);
    CHECK(is_sentence(trap));
    CHECK(says(trap, "thread (5,0,0) of block (0,0,0) executes a trap"));
    const Evaluation assertion = judged(candidate("    assert(i != 7);"));
    CHECK(assertion.status == EvaluationStatus::crashed);
    CHECK(is_sentence(assertion));
    CHECK(says(assertion, "thread (7,0,0) of block (0,0,0) fails the assertion \"i != 7\""));
}

TEST_CASE("of a flood of printing a little is kept", "[emulator_limits]") {
    const Evaluation evaluation = judged(
        candidate("    for (int k = 0; k < 100; ++k) printf(\"%d of thread %lld\\n\", k, i);\n" +
                  std::string(right_body)));
    CHECK(evaluation.status == EvaluationStatus::ok);
    CHECK(evaluation.output.size() <= 4096);
    CHECK(evaluation.output.find("0 of thread ") != std::string::npos);
}

// Workers of sanitized builds have no limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("memory over the limit of the options ends an evaluation", "[emulator_limits]") {
    Limited limited(512);
    CHECK(limited.device().memory_bytes == std::int64_t{256} << 20U);
    const Evaluation larger = limited.judged(with_workspace("N * 100000", right_body));
    CHECK(larger.status == EvaluationStatus::plan_error);
    CHECK(says(larger, "the device has 268435456"));
    // It fits, and what the checker keeps of each word does not.
    const Evaluation checked = limited.judged(with_workspace(
        "50000000", "    for (long long k = i; k < 50000000; k += 1024) t[k] = 0;\n" +
                        std::string(right_body)));
    CHECK(is_not_emulated(checked));
    CHECK(says(checked, "option memory_limit_mib"));
    const Evaluation unmapped = limited.judged(with_workspace("67000000", right_body));
    CHECK(unmapped.status == EvaluationStatus::launch_error);
    CHECK(says(unmapped, "workspace t of 268000000 bytes does not fit in the device's memory"));
}
#endif
