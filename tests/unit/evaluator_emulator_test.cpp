// SPDX-License-Identifier: Apache-2.0
#include "evaluator_emulator/emulator_evaluator.hpp"

#include <signal.h>

#include <fstream>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/fake_evaluation.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::emulator_host;
using namespace std::chrono_literals;
using test::small_request;

namespace {

/// An evaluator over a fake worker that follows a script.
class Rig {
  public:
    explicit Rig(const std::string& work, const std::string& devices = "") {
        test::write_fake_script(folder_.path(), work, devices);
    }

    EmulatorOptions options() const {
        EmulatorOptions options;
        options.worker = KERNELFORGE_FAKE_WORKER;
        options.worker_arguments = {"--script", folder_.path().string()};
        options.margin = 100ms;
        return options;
    }

    EmulatorEvaluator evaluator() const { return EmulatorEvaluator(options(), PluginContext()); }

    std::vector<pid_t> starts() const {
        std::vector<pid_t> result;
        std::ifstream in(folder_.path() / "starts");
        for (pid_t pid = 0; in >> pid;) result.push_back(pid);
        return result;
    }

  private:
    TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("the emulated device says that it is one and has no roofs", "[evaluator_emulator]") {
    const Rig rig("");
    EmulatorEvaluator evaluator = rig.evaluator();
    const std::vector<DeviceInfo> devices = evaluator.devices();
    REQUIRE_FALSE(devices.empty());
    CHECK(devices[0].emulated);
    CHECK_FALSE(devices[0].roofs.read_bytes_per_s);
    CHECK(evaluator.evaluate(small_request("a"), {}).evaluator == "emulator");
}

TEST_CASE("an emulating worker that dies is a verdict, and the next one works",
          "[evaluator_emulator]") {
    const Rig rig("die 11\nok\n");
    EmulatorEvaluator evaluator = rig.evaluator();
    const Evaluation crashed = evaluator.evaluate(small_request("a"), {});
    CHECK(crashed.status == EvaluationStatus::crashed);
    CHECK_THAT(crashed.message, ContainsSubstring("signal 11"));
    CHECK(evaluator.evaluate(small_request("b"), {}).status == EvaluationStatus::ok);
    CHECK(rig.starts().size() == 2);
}

TEST_CASE("a candidate whose worker was killed is judged once more", "[evaluator_emulator]") {
    const Rig once("die 9\nok\n");
    EmulatorEvaluator evaluator = once.evaluator();
    CHECK(evaluator.evaluate(small_request("a"), {}).status == EvaluationStatus::ok);
    CHECK(once.starts().size() == 2);

    const Rig twice("die 9\ndie 9\nok\n");
    EmulatorEvaluator killer = twice.evaluator();
    const Evaluation crashed = killer.evaluate(small_request("a"), {});
    CHECK(crashed.status == EvaluationStatus::crashed);
    CHECK_THAT(crashed.message, ContainsSubstring("signal 9") && ContainsSubstring("second time") &&
                                    ContainsSubstring("want of memory"));
    CHECK(twice.starts().size() == 2);
    CHECK(killer.evaluate(small_request("b"), {}).status == EvaluationStatus::ok);
}

TEST_CASE("an emulating worker that is killed between evaluations is started again",
          "[evaluator_emulator]") {
    const Rig rig("");
    EmulatorEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.evaluate(small_request("a"), {}).status == EvaluationStatus::ok);
    REQUIRE(rig.starts().size() == 1);
    ::kill(rig.starts()[0], SIGKILL);
    // Whether its end was seen before or while it was asked, the host lives and the next works.
    (void)evaluator.evaluate(small_request("b"), {});
    CHECK(evaluator.evaluate(small_request("c"), {}).status == EvaluationStatus::ok);
    CHECK(rig.starts().size() == 2);
}

TEST_CASE("the time limit of the options holds where the request allows more",
          "[evaluator_emulator]") {
    const Rig rig("hang\n");
    EmulatorOptions options = rig.options();
    options.time_limit = 100ms;
    EmulatorEvaluator evaluator(options, PluginContext());
    const Evaluation evaluation = evaluator.evaluate(small_request("a"), {});
    CHECK(evaluation.status == EvaluationStatus::timed_out);
    CHECK(evaluation.total_time < 10s);
}

// Workers of sanitized builds have no limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("memory over the limit ends the worker or its evaluation, not the host",
          "[evaluator_emulator]") {
    const Rig rig("allocate 1024\n");
    EmulatorOptions options = rig.options();
    options.memory_limit_bytes = std::uint64_t{256} << 20U;
    EmulatorEvaluator evaluator(options, PluginContext());
    const Evaluation evaluation = evaluator.evaluate(small_request("a"), {});
    CHECK(evaluation.status == EvaluationStatus::crashed);
    CHECK(evaluation.message.find("exit code 3") != std::string::npos);
    CHECK(evaluation.message.find("bad_alloc") != std::string::npos);
}
#endif

TEST_CASE("a command is refused, because its times would be measured", "[evaluator_emulator]") {
    const Rig rig("");
    EmulatorEvaluator evaluator = rig.evaluator();
    EvaluationRequest request = small_request("a");
    request.command = BaselineSpec();
    const Evaluation evaluation = evaluator.evaluate(request, {});
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "not_emulated");
    CHECK(rig.starts().empty());
}

TEST_CASE("depth sanitize is the emulator's checker", "[evaluator_emulator]") {
    const Rig rig("ok\nstatus crashed\nstatus launch_error\n");
    EmulatorEvaluator evaluator = rig.evaluator();
    EvaluationRequest request = small_request("a");
    request.depth = EvaluationDepth::sanitize;
    const auto said = [&] {
        const Evaluation evaluation = evaluator.evaluate(request, {});
        REQUIRE(evaluation.sanitizer.size() == 1);
        CHECK(evaluation.sanitizer[0].tool == "emulator checker");
        return evaluation.sanitizer[0].status;
    };
    CHECK(said() == SanitizerResult::Status::clean);
    CHECK(said() == SanitizerResult::Status::findings);
    CHECK(said() == SanitizerResult::Status::failed);

    EmulatorOptions options = rig.options();
    options.check = false;
    EmulatorEvaluator unchecked(options, PluginContext());
    CHECK(unchecked.evaluate(request, {}).sanitizer.at(0).status ==
          SanitizerResult::Status::unavailable);
}

TEST_CASE("options of the emulator are read strictly", "[evaluator_emulator]") {
    const EmulatorOptions options = parse_options(
        R"({"threads": 2, "check": false, "memory_limit_mib": 512, "time_limit_s": 5,
            "worker": "w", "plugins": ["p.so"]})");
    CHECK(options.threads == 2);
    CHECK_FALSE(options.check);
    CHECK(options.memory_limit_bytes == std::uint64_t{512} << 20U);
    CHECK(options.time_limit == 5s);
    CHECK(options.worker == "w");
    CHECK(options.worker_arguments == std::vector<std::string>{"--plugin", "p.so"});
    CHECK_THROWS_AS(parse_options(R"({"thread": 2})"), Error);
    CHECK_THROWS_AS(parse_options(R"({"threads": 1000})"), Error);
    CHECK_THROWS_AS(parse_options(R"({"memory_limit_mib": 1})"), Error);
    CHECK(parse_options("{}").check);
}
