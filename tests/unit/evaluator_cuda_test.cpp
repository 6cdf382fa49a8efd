// SPDX-License-Identifier: Apache-2.0
#include "evaluator_cuda/cuda_evaluator.hpp"

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files.hpp"
#include "evaluator_cuda/roofs_file.hpp"
#include "support/catch.hpp"
#include "support/fake_evaluation.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::cuda;
using namespace std::chrono_literals;
using test::small_collection;
using test::small_request;

namespace {

constexpr auto status_ok = EvaluationStatus::ok;

/// An evaluator over a fake worker that follows a script.
class Rig {
  public:
    explicit Rig(const std::string& work, const std::string& devices = "") {
        test::write_fake_script(folder_.path(), work, devices);
    }

    CudaOptions options() const {
        CudaOptions options;
        options.worker_arguments = {"--script", folder_.path().string()};
        options.margin = 100ms;
        return options;
    }

    PluginContext context() {
        PluginContext context;
        context.worker_path = KERNELFORGE_FAKE_WORKER;
        context.cache_folder = (folder_.path() / "cache").string();
        context.log = [this](LogLevel, std::string_view line) { log_ += std::string(line) + "\n"; };
        return context;
    }

    CudaEvaluator evaluator() { return CudaEvaluator(options(), context()); }

    /// Process ids of the workers that were started.
    std::vector<pid_t> starts() const {
        std::vector<pid_t> result;
        std::ifstream in(folder_.path() / "starts");
        for (pid_t pid = 0; in >> pid;) result.push_back(pid);
        return result;
    }

    const std::string& log() const { return log_; }
    std::filesystem::path cache() const { return folder_.path() / "cache"; }

  private:
    TemporaryFolder folder_;
    std::string log_;
};

EvaluationRequest quick(std::string id) {
    EvaluationRequest request = small_request(std::move(id));
    request.time_limit = 100ms;
    return request;
}

/// Stands in for compute-sanitizer: writes FOLDER/TOOL.log as its log and becomes the worker.
std::string write_fake_sanitizer(const std::filesystem::path& folder) {
    const std::filesystem::path program = folder / "compute-sanitizer";
    std::ofstream(program) << "#!/bin/sh\n"
                              "while [ $# -gt 0 ]; do case \"$1\" in\n"
                              "--tool) tool=$2; shift 2;;\n"
                              "--log-file) log=$2; shift 2;;\n"
                              "--*) shift 2;;\n"
                              "*) break;;\n"
                              "esac; done\n"
                              "echo $tool >> "
                           << folder.string() << "/tools\n"
                           << "cat " << folder.string() << "/$tool.log > \"$log\"\n"
                           << "exec \"$@\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    for (const char* tool : {"memcheck", "racecheck", "initcheck"}) {
        std::ofstream(folder / (std::string(tool) + ".log"))
            << "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
    }
    return program.string();
}

EvaluationRequest sanitized(std::string id) {
    EvaluationRequest request = small_request(std::move(id));
    request.depth = EvaluationDepth::sanitize;
    request.workloads.clear();
    request.hidden = {request.task->workloads[0]};
    request.candidate.build_of_workload = {0};
    request.reference.build_of_workload = {0};
    KernelFacts kernel;
    kernel.name = kernel.lowered_name = "scale";
    request.candidate.builds[0].kernels = {kernel};
    return request;
}

bool alive(pid_t pid) {
    return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("one worker serves many evaluations and ends with the evaluator", "[evaluator_cuda]") {
    Rig rig("ok\nstatus wrong_result\nok\n");
    {
        CudaEvaluator evaluator = rig.evaluator();
        const Evaluation first = evaluator.evaluate(small_request("a"), {});
        CHECK(first.status == status_ok);
        CHECK(first.id == "a");
        CHECK(first.evaluator == "cuda");
        CHECK(first.workloads.size() == 2);
        CHECK(first.total_time.count() > 0);
        const Evaluation second = evaluator.evaluate(small_request("b"), {});
        CHECK(second.status == EvaluationStatus::wrong_result);
        CHECK(second.message == "as the script says");
        CHECK(evaluator.evaluate(small_request("c"), {}).status == status_ok);
        REQUIRE(rig.starts().size() == 1);
        CHECK(alive(rig.starts()[0]));
    }
    CHECK_FALSE(alive(rig.starts()[0]));
}

TEST_CASE("a worker that dies is a crash with signal and last words, and the next one works",
          "[evaluator_cuda]") {
    Rig rig("die 11\nexit 70\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    const Evaluation crashed = evaluator.evaluate(small_request("a"), {});
    CHECK(crashed.status == EvaluationStatus::crashed);
    CHECK(crashed.message ==
          "the worker that ran the candidate ended with signal 11 (Segmentation fault): about to "
          "die");
    CHECK(crashed.id == "a");
    const Evaluation exited = evaluator.evaluate(small_request("b"), {});
    CHECK(exited.status == EvaluationStatus::crashed);
    CHECK_THAT(exited.message, ContainsSubstring("exit code 70: giving up"));
    CHECK(evaluator.evaluate(small_request("c"), {}).status == status_ok);
    CHECK(rig.starts().size() == 3);
}

TEST_CASE("a message that is cut off, or a closed channel, is a crash", "[evaluator_cuda]") {
    Rig rig("cut\nclose\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    const Evaluation cut = evaluator.evaluate(small_request("a"), {});
    CHECK(cut.status == EvaluationStatus::crashed);
    CHECK_THAT(cut.message, ContainsSubstring("exit code 9"));
    const Evaluation closed = evaluator.evaluate(small_request("b"), {});
    CHECK(closed.status == EvaluationStatus::crashed);
    CHECK_THAT(closed.message, ContainsSubstring("channel closed"));
    CHECK(evaluator.evaluate(small_request("c"), {}).status == status_ok);
}

TEST_CASE("a worker that hangs is killed at the time limit", "[evaluator_cuda]") {
    Rig rig("hang\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    const auto start = std::chrono::steady_clock::now();
    const Evaluation late = evaluator.evaluate(quick("a"), {});
    CHECK(std::chrono::steady_clock::now() - start < 5s);
    CHECK(late.status == EvaluationStatus::timed_out);
    CHECK_THAT(late.message, ContainsSubstring("no verdict within the time limit of 0.1 s"));
    CHECK_FALSE(alive(rig.starts()[0]));
    CHECK(evaluator.evaluate(small_request("b"), {}).status == status_ok);
}

TEST_CASE("a worker that does not read is killed at the time limit", "[evaluator_cuda]") {
    Rig rig("", "deaf\n");
    CudaEvaluator evaluator = rig.evaluator();
    EvaluationRequest large = quick("a");
    large.candidate.candidate.source.assign(8 << 20, ' ');
    CHECK(evaluator.evaluate(large, {}).status == EvaluationStatus::timed_out);
    CHECK(evaluator.evaluate(small_request("b"), {}).status == status_ok);
}

TEST_CASE("a stop ends an evaluation within a second and kills the worker", "[evaluator_cuda]") {
    Rig rig("hang\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    std::stop_source source;
    std::chrono::steady_clock::time_point asked;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(100ms);
        asked = std::chrono::steady_clock::now();
        source.request_stop();
    });
    const Evaluation stopped = evaluator.evaluate(small_request("a"), source.get_token());
    stopper.join();
    CHECK(std::chrono::steady_clock::now() - asked < 1s);
    CHECK(stopped.status == EvaluationStatus::cancelled);
    CHECK_FALSE(alive(rig.starts()[0]));
    CHECK(evaluator.evaluate(small_request("b"), {}).status == status_ok);
    CHECK(evaluator.evaluate(small_request("c"), source.get_token()).status ==
          EvaluationStatus::cancelled);
}

TEST_CASE("a stop also ends the wait for a busy device", "[evaluator_cuda]") {
    Rig rig("hang\n");
    CudaEvaluator evaluator = rig.evaluator();
    std::stop_source first;
    std::stop_source second;
    std::jthread busy([&] { (void)evaluator.evaluate(small_request("a"), first.get_token()); });
    while (rig.starts().empty()) std::this_thread::sleep_for(5ms);
    std::jthread stopper([&] {
        std::this_thread::sleep_for(50ms);
        second.request_stop();
    });
    CHECK(evaluator.evaluate(small_request("b"), second.get_token()).status ==
          EvaluationStatus::cancelled);
    first.request_stop();
}

TEST_CASE("nonsense from a worker is the evaluator's failure, and it is replaced",
          "[evaluator_cuda]") {
    Rig rig("garbage\nwrong_type\nwrong_id\nerror device_unavailable\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    for (const char* expected :
         {"broke its protocol", "expected evaluation", "another", "as the script says"}) {
        const Evaluation evaluation = evaluator.evaluate(small_request("a"), {});
        CHECK(evaluation.status == EvaluationStatus::evaluator_failed);
        CHECK_THAT(evaluation.message, ContainsSubstring(expected));
    }
    CHECK(evaluator.evaluate(small_request("b"), {}).status == status_ok);
    CHECK(rig.starts().size() == 5);
}

TEST_CASE("a verdict after which the device context is lost costs the worker", "[evaluator_cuda]") {
    Rig rig("status crashed\nstatus timed_out\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.evaluate(small_request("a"), {}).status == EvaluationStatus::crashed);
    CHECK(evaluator.evaluate(small_request("b"), {}).status == EvaluationStatus::timed_out);
    CHECK(evaluator.evaluate(small_request("c"), {}).status == status_ok);
    CHECK(rig.starts().size() == 3);
}

TEST_CASE("what a candidate prints is kept to 4 KiB and never blocks", "[evaluator_cuda]") {
    Rig rig("say hello from the kernel\nok\nprint 104857600\nsay after the flood\n");
    CudaEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.evaluate(small_request("a"), {}).output == "hello from the kernel");
    CHECK(evaluator.evaluate(small_request("b"), {}).output.empty());
    const Evaluation flood = evaluator.evaluate(small_request("c"), {});
    CHECK(flood.status == status_ok);
    CHECK(flood.output == std::string(4096, 'x'));
    // A worker whose output is used up is replaced, so that the next candidate's is still seen.
    CHECK(evaluator.evaluate(small_request("d"), {}).output == "after the flood");
    CHECK(rig.starts().size() == 2);
}

TEST_CASE("a worker that dies without a candidate is started once more", "[evaluator_cuda]") {
    Rig once("", "die 9\n");
    CHECK(once.evaluator().evaluate(small_request("a"), {}).status == status_ok);
    CHECK_THAT(once.log(), ContainsSubstring("signal 9"));
    CHECK(once.starts().size() == 2);

    Rig twice("", "die 9\nexit 3\n");
    CudaEvaluator evaluator = twice.evaluator();
    const Evaluation failed = evaluator.evaluate(small_request("a"), {});
    CHECK(failed.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(failed.message,
               ContainsSubstring("exit code 3: giving up, twice without a candidate"));
    CHECK(evaluator.evaluate(small_request("b"), {}).status == status_ok);
}

TEST_CASE("after a crash the device must be there before a candidate runs", "[evaluator_cuda]") {
    Rig rig("die 6\nok\n", "ok\nother\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.evaluate(small_request("a"), {}).status == EvaluationStatus::crashed);
    const Evaluation gone = evaluator.evaluate(small_request("b"), {});
    CHECK(gone.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(gone.message,
               ContainsSubstring("device 0: the worker sees 1 devices, but not this one"));
    CHECK(evaluator.evaluate(small_request("c"), {}).status == status_ok);
}

TEST_CASE("without a driver there are no devices and evaluations say so", "[evaluator_cuda]") {
    Rig rig("", "none\nnone\n");
    CudaEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.devices().empty());
    const Evaluation evaluation = evaluator.evaluate(small_request("a"), {});
    CHECK(evaluation.status == EvaluationStatus::evaluator_failed);
    CHECK_THAT(evaluation.message, ContainsSubstring("no usable CUDA device"));
    // A driver that comes up later is seen.
    CHECK(evaluator.devices().size() == 2);
}

TEST_CASE("roofs are measured once a device and kept on disk", "[evaluator_cuda]") {
    Rig rig("");
    {
        CudaEvaluator evaluator = rig.evaluator();
        const auto devices = evaluator.devices();
        REQUIRE(devices.size() == 2);
        CHECK(devices[0].roofs.read_bytes_per_s == 4.5e12);
        CHECK(devices[1].roofs.read_bytes_per_s == 4.5e12 + 1);
        CHECK(devices[0].slots == 1);
        (void)evaluator.devices();
        CHECK(rig.starts().size() == 2);
    }
    const auto file = rig.cache() / "roofs" / "GPU-0000-0+13000.json";
    CHECK_THAT(read_file(file), ContainsSubstring("\"measured\":\"20"));
    {
        CudaEvaluator evaluator = rig.evaluator();
        CHECK(evaluator.devices()[0].roofs.read_bytes_per_s == 4.5e12);
        CHECK(rig.starts().size() == 3);  // only to list the devices
    }
    std::ofstream(file) << "{ damaged";
    CHECK(rig.evaluator().devices()[0].roofs.read_bytes_per_s == 4.5e12);
    CHECK_THAT(rig.log(), ContainsSubstring("measured again"));

    std::ofstream(file) << R"({"version":1,"roofs":{}})";
    CHECK_FALSE(rig.evaluator().devices()[0].roofs.read_bytes_per_s);
    CudaOptions options = rig.options();
    options.remeasure_roofs = true;
    CHECK(CudaEvaluator(options, rig.context()).devices()[0].roofs.read_bytes_per_s == 4.5e12);
}

TEST_CASE("a device whose roofs cannot be measured is still listed", "[evaluator_cuda]") {
    Rig rig("die 11\nerror internal\n");
    CudaEvaluator evaluator = rig.evaluator();
    const auto devices = evaluator.devices();
    REQUIRE(devices.size() == 2);
    CHECK_FALSE(devices[0].roofs.read_bytes_per_s);
    CHECK_THAT(rig.log(),
               ContainsSubstring("roofs of device 0 are unknown: the worker ended with"));
    CHECK_THAT(rig.log(), ContainsSubstring("roofs of device 1 are unknown: as the script says"));
}

TEST_CASE("only the devices of the options are listed", "[evaluator_cuda]") {
    Rig rig("");
    CudaOptions options = rig.options();
    options.devices = {1};
    const auto devices = CudaEvaluator(options, rig.context()).devices();
    REQUIRE(devices.size() == 1);
    CHECK(devices[0].index == 1);
}

TEST_CASE("devices have workers of their own, and calls for one device wait for each other",
          "[evaluator_cuda]") {
    Rig rig("");
    CudaEvaluator evaluator = rig.evaluator();
    std::atomic<int> right = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back([&, i] {
                EvaluationRequest request = small_request("r" + std::to_string(i));
                request.device = i % 2;
                const Evaluation evaluation = evaluator.evaluate(request, {});
                if (evaluation.status == status_ok && evaluation.id == request.id) ++right;
            });
        }
    }
    CHECK(right == 8);
    CHECK(rig.starts().size() == 2);
}

TEST_CASE("a collection that fails is an error with the reason", "[evaluator_cuda]") {
    Rig rig("ok\ndie 11\nhang\nwrong_type\nerror unsupported\n");
    CudaEvaluator evaluator = rig.evaluator();
    CHECK(evaluator.collect(small_collection("a"), {}).launches.empty());
    CollectRequest request = small_collection("b");
    request.time_limit = 100ms;
    for (const char* expected :
         {"signal 11", "no answer within 0.2 s", "expected profile", "as the script says"}) {
        const auto error = test::error_of([&] { (void)evaluator.collect(request, {}); });
        REQUIRE(error);
        CHECK_THAT(*error, ContainsSubstring(expected));
    }
    std::stop_source stopped;
    stopped.request_stop();
    CHECK_THAT(*test::error_of([&] { (void)evaluator.collect(request, stopped.get_token()); }),
               ContainsSubstring("stop was requested"));
}

TEST_CASE("requests that contradict themselves are refused", "[evaluator_cuda]") {
    Rig rig("");
    CudaEvaluator evaluator = rig.evaluator();
    const auto error = [&](auto change) {
        EvaluationRequest request = small_request("a");
        change(request);
        return test::error_of([&] { (void)evaluator.evaluate(request, {}); }).value_or("none");
    };
    CHECK_THAT(error([](auto& r) { r.task = nullptr; }), ContainsSubstring("expected a task"));
    CHECK_THAT(error([](auto& r) { r.workloads.clear(); }),
               ContainsSubstring("at least one workload"));
    CHECK_THAT(error([](auto& r) { r.workloads = {0, 2}; }), ContainsSubstring("indices below 2"));
    CHECK_THAT(error([](auto& r) { r.candidate.build_of_workload = {0}; }),
               ContainsSubstring("2 build indices of the candidate, found 1"));
    CHECK_THAT(error([](auto& r) {
                   r.reference.build_of_workload = {0, 1};
               }),
               ContainsSubstring("reference below 1, found 1"));
    CHECK(rig.starts().empty());
}

TEST_CASE("a worker program that does not exist is named", "[evaluator_cuda]") {
    PluginContext context;
    context.worker_path = "/none/such-worker";
    CudaEvaluator evaluator({}, context);
    CHECK_THAT(evaluator.evaluate(small_request("a"), {}).message,
               ContainsSubstring("/none/such-worker"));
    CHECK_THAT(*test::error_of([&] { (void)evaluator.devices(); }),
               ContainsSubstring("/none/such-worker"));
}

TEST_CASE("options are read strictly", "[evaluator_cuda]") {
    const CudaOptions options = parse_options(
        R"({"devices": [1, 3], "worker_arguments": ["--no-cupti"], "remeasure_roofs": true})");
    CHECK(options.devices == std::vector<int>{1, 3});
    CHECK(options.worker_arguments == std::vector<std::string>{"--no-cupti"});
    CHECK(parse_options(R"({"plugins": ["/x/a.so", "b.so"]})").worker_arguments ==
          std::vector<std::string>{"--plugin", "/x/a.so", "--plugin", "b.so"});
    CHECK(options.remeasure_roofs);
    CHECK_FALSE(parse_options("{}").devices);
    CHECK_THAT(*test::error_of([] { (void)parse_options(R"({"device": 1})"); }),
               ContainsSubstring("device"));
    CHECK_THAT(*test::error_of([] { (void)parse_options(R"({"devices": [-1]})"); }),
               ContainsSubstring("options of evaluator cuda"));
}

TEST_CASE("a file name made from a uuid stays in its folder", "[evaluator_cuda]") {
    DeviceInfo device;
    device.uuid = "../../etc/x";
    device.driver_version = 1;
    CHECK(roofs_path("/c", device) == "/c/roofs/______etc_x+1.json");
    CHECK(roofs_path("", device).empty());
}

TEST_CASE("a request for a fresh worker ends the present one", "[evaluator_cuda]") {
    Rig rig("ok\nok\nok\n");
    CudaEvaluator evaluator = rig.evaluator();
    EvaluationRequest request = small_request("a");
    CHECK(evaluator.evaluate(request, {}).status == status_ok);
    CHECK(rig.starts().size() == 1);
    request.fresh_worker = true;
    CHECK(evaluator.evaluate(request, {}).status == status_ok);
    REQUIRE(rig.starts().size() == 2);
    CHECK_FALSE(alive(rig.starts()[0]));
    request.fresh_worker = false;
    CHECK(evaluator.evaluate(request, {}).status == status_ok);
    CHECK(rig.starts().size() == 2);
}

TEST_CASE("hidden shapes need builds of their own place", "[evaluator_cuda]") {
    Rig rig("ok\n");
    CudaEvaluator evaluator = rig.evaluator();
    EvaluationRequest request = small_request("a");
    request.hidden = {request.task->workloads[0]};
    CHECK_THAT(*test::error_of([&] { (void)evaluator.evaluate(request, {}); }),
               ContainsSubstring("expected 3 build indices of the candidate, found 2"));
    request.candidate.build_of_workload = {0, 0, 0};
    request.reference.build_of_workload = {0, 0, 0};
    CHECK(evaluator.evaluate(request, {}).status == status_ok);
}

TEST_CASE("without the program every tool is unavailable, and the verdict is ok",
          "[evaluator_cuda]") {
    Rig rig("");
    CudaOptions options = rig.options();
    options.compute_sanitizer = "/nonexistent/compute-sanitizer";
    CudaEvaluator evaluator(options, rig.context());
    const Evaluation evaluation = evaluator.evaluate(sanitized("a"), {});
    CHECK(evaluation.status == status_ok);
    REQUIRE(evaluation.sanitizer.size() == 3);
    for (const SanitizerResult& tool : evaluation.sanitizer) {
        CHECK(tool.status == SanitizerResult::Status::unavailable);
        CHECK_FALSE(tool.message.empty());
    }
    CHECK(rig.starts().empty());
}

TEST_CASE("each tool runs a worker of its own, and clean logs are ok", "[evaluator_cuda]") {
    const TemporaryFolder folder;
    Rig rig("ok\nok\nok\nok\n");
    CudaOptions options = rig.options();
    options.compute_sanitizer = write_fake_sanitizer(folder.path());
    CudaEvaluator evaluator(options, rig.context());
    CHECK(evaluator.evaluate(small_request("a"), {}).status == status_ok);
    const Evaluation evaluation = evaluator.evaluate(sanitized("b"), {});
    CHECK(evaluation.status == status_ok);
    CHECK(evaluation.id == "b");
    REQUIRE(evaluation.sanitizer.size() == 3);
    for (const SanitizerResult& tool : evaluation.sanitizer) {
        INFO(tool.tool << ": " << tool.message);
        CHECK(tool.status == SanitizerResult::Status::clean);
    }
    CHECK(evaluation.sanitizer[1].tool == "racecheck");
    REQUIRE(rig.starts().size() == 4);
    CHECK(alive(rig.starts()[0]));  // the worker of other requests stays
    CHECK_FALSE(alive(rig.starts()[3]));
}

TEST_CASE("findings about the candidate's kernels reject it and end the tools",
          "[evaluator_cuda]") {
    const TemporaryFolder folder;
    Rig rig("ok\ndie 6\n");
    CudaOptions options = rig.options();
    options.compute_sanitizer = write_fake_sanitizer(folder.path());
    std::ofstream(folder.path() / "racecheck.log")
        << "========= COMPUTE-SANITIZER\n"
           "========= Error: Race reported between Write access at scale(int *)+0x70 in "
           "candidate.cu:14\n"
           "=========     and Read access at scale(int *)+0xb0 in candidate.cu:17 [511 hazards]\n";
    CudaEvaluator evaluator(options, rig.context());
    const Evaluation evaluation = evaluator.evaluate(sanitized("a"), {});
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "compute-sanitizer racecheck");
    CHECK(evaluation.message ==
          "compute-sanitizer racecheck: Race reported between Write access in scale at "
          "candidate.cu:14");
    CHECK(evaluation.sanitizer.size() == 2);
}

TEST_CASE("findings count in a log that is longer than is read", "[evaluator_cuda]") {
    const TemporaryFolder folder;
    Rig rig("ok\n");
    CudaOptions options = rig.options();
    options.compute_sanitizer = write_fake_sanitizer(folder.path());
    std::ofstream(folder.path() / "memcheck.log")
        << "========= COMPUTE-SANITIZER\n"
           "========= Invalid __global__ write of size 4 bytes\n"
           "=========     at scale(int *)+0x70 in candidate.cu:14\n"
        << std::string(std::size_t{5} << 20, 'k') << "\n========= ERROR SUMMARY: 1 error\n";
    CudaEvaluator evaluator(options, rig.context());
    const Evaluation evaluation = evaluator.evaluate(sanitized("a"), {});
    CHECK(evaluation.status == EvaluationStatus::rejected);
    CHECK(evaluation.rule == "compute-sanitizer memcheck");
}

TEST_CASE("a tool that fails or takes too long gives no verdict, and others go on",
          "[evaluator_cuda]") {
    const TemporaryFolder folder;
    Rig rig("die 11\nhang\nstatus evaluator_failed\n");
    CudaOptions options = rig.options();
    options.compute_sanitizer = write_fake_sanitizer(folder.path());
    options.sanitizer_limit = 500ms;
    CudaEvaluator evaluator(options, rig.context());
    const Evaluation evaluation = evaluator.evaluate(sanitized("a"), {});
    CHECK(evaluation.status == status_ok);
    REQUIRE(evaluation.sanitizer.size() == 3);
    for (const SanitizerResult& tool : evaluation.sanitizer) {
        CHECK(tool.status == SanitizerResult::Status::failed);
    }
    CHECK_THAT(evaluation.sanitizer[0].message, ContainsSubstring("signal 11"));
    CHECK_THAT(evaluation.sanitizer[1].message, ContainsSubstring("time limit"));
    CHECK_THAT(evaluation.sanitizer[2].message, ContainsSubstring("evaluator_failed"));
}

TEST_CASE("a result that is wrong under a tool is a wrong result", "[evaluator_cuda]") {
    const TemporaryFolder folder;
    Rig rig("status wrong_result\n");
    CudaOptions options = rig.options();
    options.compute_sanitizer = write_fake_sanitizer(folder.path());
    CudaEvaluator evaluator(options, rig.context());
    const Evaluation evaluation = evaluator.evaluate(sanitized("a"), {});
    CHECK(evaluation.status == EvaluationStatus::wrong_result);
    CHECK(evaluation.message == "memcheck: as the script says");
}
