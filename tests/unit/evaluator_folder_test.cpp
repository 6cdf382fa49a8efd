// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "evaluator_folder/claims.hpp"
#include "evaluator_folder/folder_evaluator.hpp"
#include "evaluator_folder/serve_folder.hpp"
#include "kernelforge/plugin.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "wire/codec.hpp"

KERNELFORGE_DECLARE_PLUGIN(evaluator_folder);

using namespace kernelforge;
using kernelforge::folder::Claims;
using kernelforge::folder::FolderEvaluator;
using kernelforge::test::error_of;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<const Task> make_task(const std::string& folder = "/tasks/add") {
    Task task;
    task.definition.name = "add";
    task.definition.axes = {{.name = "N"}};
    task.definition.inputs = {{.name = "x", .shape = {"N"}}};
    task.definition.outputs = {{.name = "y", .shape = {"N"}}};
    task.workloads = {{.uuid = "w0", .axes = {{"N", 64}}, .scalars = {}}};
    task.reference_cuda = "//@kernelforge 1\n" + std::string(4000, 'r');
    task.reference_cuda_path = folder + "/reference.cu";
    task.baselines = {
        {.name = "portable", .source = "code", .source_path = folder + "/baseline.cu"}};
    task.folder = folder;
    return std::make_shared<const Task>(std::move(task));
}

/// `bytes` that do not repeat and are not UTF-8, as machine code is.
std::string machine_code(std::size_t bytes, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string code(bytes, '\0');
    for (char& c : code) c = static_cast<char>(random());
    return code;
}

CompiledCandidate compiled(const std::string& source, std::size_t code_bytes = 300) {
    CompileResult build;
    build.cubin = machine_code(code_bytes, std::hash<std::string>{}(source));
    build.ptx = ".version 8.5 // " + source;
    build.arch = "sm_90a";
    build.kernels = {{.name = "f", .registers_per_thread = 32}};
    build.log = "ptxas info";
    build.time = std::chrono::duration<double>(0.5);
    return {.candidate = {.source = source, .bindings = {{"THREADS", 128}}},
            .builds = {build},
            .build_of_workload = {0}};
}

/// Few parts, because each is a file that is synced.
EvaluationRequest make_request(const std::string& source = "candidate") {
    EvaluationRequest request;
    request.id = "id of " + source;
    request.task = make_task();
    request.workloads = {0};
    request.candidate = compiled(source);
    request.seed = 7;
    return request;
}

EvaluationRequest full_request() {
    EvaluationRequest request = make_request();
    request.reference = compiled("reference");
    request.opponent = compiled("opponent");
    request.command = {.name = "eager", .kind = BaselineSpec::Kind::command, .command = {"run"}};
    request.depth = EvaluationDepth::promotion;
    request.time_limit = 1234ms;
    return request;
}

CollectRequest make_collection() {
    CollectRequest request;
    request.id = "c";
    request.task = make_task();
    request.workloads = {0};
    request.candidate = compiled("candidate");
    request.data.metrics = {"m"};
    return request;
}

DeviceInfo make_device() {
    DeviceInfo device;
    device.name = "Test GPU";
    device.multiprocessors = 4;
    device.shared_bytes_per_multiprocessor = 102'400;
    device.max_shared_bytes_per_block = 101'376;
    device.roofs.read_bytes_per_s = 1e12;
    return device;
}

Timing make_timing(double seconds) {
    Timing timing;
    timing.median_s = timing.trimmed_mean_s = timing.p10_s = timing.p90_s = seconds;
    timing.samples = 20;
    return timing;
}

/// Stands for a GPU. `act` may replace what `evaluate` does.
class FakeEvaluator final : public Evaluator {
  public:
    std::vector<DeviceInfo> devices() override { return devices_; }
    Evaluation evaluate(const EvaluationRequest& request, std::stop_token stop) override {
        {
            const std::lock_guard lock(mutex_);
            ++counts_[request.candidate.candidate.source];
            sources_.push_back(request.candidate.candidate.source);
        }
        last_ = request;
        if (act_) act_(request, stop);
        Evaluation evaluation;
        evaluation.id = request.id;
        evaluation.status = EvaluationStatus::ok;
        evaluation.evaluator = "fake";
        evaluation.device = "Test GPU";
        evaluation.output = "out of " + request.candidate.candidate.source;
        for (const std::size_t workload : request.workloads) {
            WorkloadResult& result = evaluation.workloads.emplace_back();
            result.workload = workload;
            if (request.depth != EvaluationDepth::check) result.timing = make_timing(1e-5);
        }
        return evaluation;
    }
    ProfileData collect(const CollectRequest& request, std::stop_token stop) override {
        if (act_) act_({}, stop);
        ProfileData data;
        data.launches[{0, 0}].kernel = "f of " + request.candidate.candidate.source;
        return data;
    }

    std::vector<DeviceInfo> devices_ = {make_device()};
    std::function<void(const EvaluationRequest&, std::stop_token)> act_;
    std::mutex mutex_;  ///< guards counts_ and sources_
    std::map<std::string, int> counts_;
    std::vector<std::string> sources_;
    EvaluationRequest last_;
};

FolderEvaluator make_evaluator(const fs::path& path, double wait_s = 0) {
    return FolderEvaluator({.folder = path.string(),
                            .wait = std::chrono::duration<double>(wait_s),
                            .device = make_device()});
}

Evaluation ask(const fs::path& path, const EvaluationRequest& request) {
    return make_evaluator(path).evaluate(request, {});
}

struct Served {
    ServeSummary summary;
    std::vector<std::string> lines;
    [[nodiscard]] std::string text() const {
        std::string all;
        for (const std::string& line : lines) all += line + "\n";
        return all;
    }
};

Served serve(Evaluator& evaluator, const fs::path& path, ServeOptions options = {},
             std::stop_token stop = {}) {
    Served served;
    options.on_line = [&](const std::string& line) { served.lines.push_back(line); };
    served.summary = serve_folder(evaluator, path.string(), options, stop);
    return served;
}

std::vector<fs::path> files_in(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::string only_job(const fs::path& folder) {
    const auto jobs = files_in(folder / "jobs");
    REQUIRE(jobs.size() == 1);
    return jobs[0].stem().string();
}

/// Claim files, without the lock.
std::size_t claims_in(const fs::path& folder) {
    std::size_t count = 0;
    for (const fs::path& file : files_in(folder / "claims")) {
        count += file.filename() == "takeover.lock" ? 0 : 1;
    }
    return count;
}

/// Another process that claims the job and dies.
void claim_and_die(const fs::path& folder, const std::string& id) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        int status = 1;
        try {
            status = Claims(folder / "claims").take(id).taken ? 0 : 2;
        } catch (...) {
        }
        ::_exit(status);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
}

void replace_in_file(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = read_file(file);
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    write_file_atomically(file, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("a job is pending until a worker has served the folder", "[folder]") {
    const TemporaryFolder temporary;
    const fs::path path = temporary.path() / "jobs here";
    const EvaluationRequest request = make_request();
    const Evaluation pending = ask(path, request);
    CHECK(pending.status == EvaluationStatus::pending);
    CHECK(pending.id == request.id);
    CHECK_THAT(pending.message, ContainsSubstring("kernelforge worker --folder " + path.string()));

    FakeEvaluator worker;
    const Served served = serve(worker, path);
    CHECK(served.summary.evaluated == 1);
    CHECK(served.summary.failed == 0);
    CHECK(served.summary.skipped == 0);
    CHECK_THAT(served.text(), ContainsSubstring(" ok ("));

    const Evaluation result = ask(path, request);
    CHECK(result.status == EvaluationStatus::ok);
    CHECK(result.id == request.id);
    CHECK(result.evaluator == "fake");
    CHECK(result.output == "out of candidate");
    CHECK(serve(worker, path).summary.evaluated == 0);
    CHECK(claims_in(path) == 0);
}

TEST_CASE("a worker sees the request that was asked", "[folder]") {
    const TemporaryFolder temporary;
    EvaluationRequest request = full_request();
    request.hidden = {{.uuid = "hidden N=7", .axes = {{"N", 7}}, .scalars = {}}};
    request.fresh_worker = true;
    // With no device known, all code is stored.
    FolderEvaluator asking({.folder = temporary.path().string(), .wait = {}, .device = {}});
    (void)asking.evaluate(request, {});
    FakeEvaluator worker;
    worker.devices_[0].wants_ptx = true;
    (void)serve(worker, temporary.path());
    REQUIRE(worker.last_.id == only_job(temporary.path()));
    CHECK(worker.last_.task->folder == "/tasks/add");
    CHECK(worker.last_.task->reference_cuda_path == "reference.cu");
    CHECK(worker.last_.task->baselines[0].source_path == "baseline.cu");
    // The rest is equal, but for what says nothing about the code.
    worker.last_.id = request.id;
    auto task = std::make_shared<Task>(*request.task);
    task->reference_cuda_path = "reference.cu";
    task->baselines[0].source_path = "baseline.cu";
    request.task = task;
    for (CompiledCandidate* side : {&request.candidate, &request.reference, &*request.opponent}) {
        side->builds[0].log.clear();
        side->builds[0].time = {};
    }
    CHECK(dump_json(wire::encode(worker.last_)) == dump_json(wire::encode(request)));
}

TEST_CASE("the same work is the same job", "[folder]") {
    const TemporaryFolder temporary;
    EvaluationRequest request = full_request();
    (void)ask(temporary.path(), request);
    request.id = "another name";
    request.candidate.builds[0].time = 9s;
    request.candidate.builds[0].from_cache = true;
    request.candidate.builds[0].log = "another log";
    request.task = make_task("/moved/to/here");
    (void)ask(temporary.path(), request);
    CHECK(files_in(temporary.path() / "jobs").size() == 1);
    const auto changes = std::vector<std::function<void(EvaluationRequest&)>>{
        [](auto& r) { r.seed = 8; },
        [](auto& r) { r.depth = EvaluationDepth::check; },
        [](auto& r) { r.opponent.reset(); },
        [](auto& r) { r.command.reset(); },
        [](auto& r) { r.device = 1; },
        [](auto& r) { r.fresh_worker = true; },
        [](auto& r) { r.hidden = {r.task->workloads[0]}; },
        [](auto& r) { r.time_limit = 1s; },
        [](auto& r) {
            r.workloads = {0, 0};
        },
        [](auto& r) { r.candidate.builds[0].cubin += "x"; },
        [](auto& r) { r.candidate.candidate.bindings["THREADS"] = 64; },
        [](auto& r) { std::swap(r.candidate, r.reference); }};
    std::set<std::string> ids = {only_job(temporary.path())};
    for (const auto& change : changes) {
        EvaluationRequest other = full_request();
        change(other);
        ids.insert(folder::encode_job(other, {}).id);
    }
    CHECK(ids.size() == 1 + changes.size());
    CHECK(folder::encode_job(full_request(), {}).id ==
          folder::encode_job(full_request(), {.cubin = false, .ptx = false}).id);
}

TEST_CASE("code that the device does not want is not stored", "[folder]") {
    const TemporaryFolder temporary;
    const EvaluationRequest request = make_request();
    FakeEvaluator worker;
    const bool ptx = GENERATE(false, true);
    worker.devices_[0].wants_cubin = !ptx;
    worker.devices_[0].wants_ptx = ptx;
    (void)serve(worker, temporary.path());
    (void)ask(temporary.path(), request);
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    const CompileResult& build = worker.last_.candidate.builds[0];
    CHECK(build.cubin == (ptx ? "" : request.candidate.builds[0].cubin));
    CHECK(build.ptx == (ptx ? request.candidate.builds[0].ptx : ""));
    const std::string& unwanted =
        ptx ? request.candidate.builds[0].cubin : request.candidate.builds[0].ptx;
    CHECK_FALSE(fs::exists(temporary.path() / "blobs" / sha256_hex(unwanted)));
}

TEST_CASE("a worker that wants more code than was stored leaves the job until it is asked again",
          "[folder]") {
    const TemporaryFolder temporary;
    FakeEvaluator first;
    (void)serve(first, temporary.path());
    (void)ask(temporary.path(), make_request());
    FakeEvaluator second;
    second.devices_[0].wants_ptx = true;
    CHECK(serve(second, temporary.path()).summary.skipped == 1);
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::pending);
    CHECK(serve(second, temporary.path()).summary.evaluated == 1);
    CHECK(second.last_.candidate.builds[0].ptx == make_request().candidate.builds[0].ptx);
}

TEST_CASE("the device is what a worker wrote, else what the options assume", "[folder]") {
    const TemporaryFolder temporary;
    FolderEvaluator unknown({.folder = temporary.path().string(), .wait = {}, .device = {}});
    CHECK_THAT(error_of([&] { (void)unknown.devices(); }).value_or(""),
               ContainsSubstring("no worker has visited yet: run `kernelforge worker --folder " +
                                 temporary.path().string() + "`"));
    const std::string options = R"({"folder": ")" + temporary.path().string() +
                                R"(", "device": {"name": "Assumed", "arch": "sm_100a",
                                    "multiprocessors": 148, "max_shared_bytes_per_block": 232448,
                                    "shared_bytes_per_multiprocessor": 233472,
                                    "roofs": {"read_bytes_per_s": 5e12}}})";
    FolderEvaluator assuming(folder::parse_options(options));
    REQUIRE(assuming.devices().size() == 1);
    CHECK(assuming.devices()[0].name == "Assumed");
    CHECK(assuming.devices()[0].arch == "sm_100a");
    CHECK(assuming.devices()[0].warp_size == 32);
    CHECK(assuming.devices()[0].roofs.read_bytes_per_s == 5e12);
    FakeEvaluator worker;
    (void)serve(worker, temporary.path());
    CHECK(assuming.devices()[0].name == "Test GPU");
    CHECK(unknown.devices()[0].roofs.read_bytes_per_s == 1e12);
}

TEST_CASE("options that are wrong are refused with their place", "[folder]") {
    const auto refused = [](const std::string& options) {
        return error_of([&] { (void)folder::parse_options(options); }).value_or("accepted");
    };
    CHECK_THAT(refused("{}"), ContainsSubstring("expected a member \"folder\""));
    CHECK_THAT(refused(R"({"folder": ""})"), ContainsSubstring(":1:12: expected a path"));
    CHECK_THAT(refused(R"({"folder": "x", "wait": 1})"),
               ContainsSubstring("unknown member \"wait\""));
    CHECK_THAT(refused(R"({"folder": "x", "wait_seconds": -1})"),
               ContainsSubstring("expected seconds from 0 to 2592000, found -1"));
    CHECK_THAT(refused(R"({"folder": "x", "device": {"sms": 1}})"),
               ContainsSubstring("unknown member \"sms\""));
    CHECK_THAT(refused(R"({"folder": "x", "device": {"slots": "2"}})"),
               ContainsSubstring("expected an integer"));
    CHECK_THAT(refused("{"), ContainsSubstring("expected JSON"));
}

TEST_CASE("a device of the options that no device can be is refused", "[folder]") {
    const auto refused = [](const std::string& members) {
        return error_of([&] {
                   (void)folder::parse_options(R"({"folder": "x", "device": {)" + members + "}}");
               })
            .value_or("accepted");
    };
    CHECK_THAT(
        refused(R"("arch": "sm_90a", "warp_size": 0)"),
        ContainsSubstring("options of evaluator folder:1:") &&
            ContainsSubstring("device member \"warp_size\": expected the integer 32, found 0"));
    CHECK_THAT(refused(R"("max_threads_per_block": 1025)"),
               ContainsSubstring(
                   "\"max_threads_per_block\": expected an integer from 1 to 1024, found 1025"));
    for (const std::string member :
         {"slots", "multiprocessors", "max_threads_per_block", "max_threads_per_multiprocessor",
          "max_blocks_per_multiprocessor", "registers_per_multiprocessor",
          "shared_bytes_per_multiprocessor", "max_shared_bytes_per_block"}) {
        CHECK_THAT(
            refused("\"" + member + "\": 0"),
            ContainsSubstring("device member \"" + member + "\": expected an integer from 1"));
    }
    for (const std::string member :
         {"index", "reserved_shared_bytes_per_block", "l2_bytes", "memory_bytes", "clock_khz",
          "memory_clock_khz", "driver_version"}) {
        CHECK_THAT(refused("\"" + member + "\": -1"), ContainsSubstring("found -1"));
        CHECK(refused("\"" + member + "\": 0") == "accepted");
    }
    CHECK_THAT(refused(R"("slots": 18446744073709551615)"), ContainsSubstring("found 1844674"));
    CHECK_THAT(refused(R"("roofs": {"read_bytes_per_s": -1.0})"),
               ContainsSubstring("\"roofs.read_bytes_per_s\": expected a finite number above 0"));
    CHECK_THAT(refused(R"("roofs": {"empty_kernel_s": "nan"})"),
               ContainsSubstring("found \"nan\""));
}

TEST_CASE("a devices.json with impossible members is refused", "[folder]") {
    const TemporaryFolder temporary;
    FakeEvaluator worker;
    (void)serve(worker, temporary.path());
    const fs::path file = temporary.path() / "devices.json";
    const auto [from, to, message] = GENERATE(table<std::string, std::string, std::string>(
        {{"\"warp_size\":32", "\"warp_size\":0",
          "device member \"warp_size\": expected the integer 32, found 0"},
         {"\"multiprocessors\":4", "\"multiprocessors\":-4",
          "device member \"multiprocessors\": expected an integer from 1 to 2147483647, found -4"},
         {"\"max_shared_bytes_per_block\":101376", "\"max_shared_bytes_per_block\":0",
          "device member \"max_shared_bytes_per_block\": expected an integer from 1"}}));
    replace_in_file(file, from, to);
    auto evaluator = make_evaluator(temporary.path());
    CHECK_THAT(error_of([&] { (void)evaluator.devices(); }).value_or("accepted"),
               ContainsSubstring(file.string() + ":1:") && ContainsSubstring(message));
}

TEST_CASE("an assumed device has the limits of its architecture or must name them", "[folder]") {
    const auto device = [](const std::string& members) {
        return *folder::parse_options(R"({"folder": "x", "device": {)" + members + "}}").device;
    };
    const DeviceInfo hopper = device("");
    CHECK(hopper.name == "assumed sm_90 device");
    CHECK(hopper.arch == "sm_90a");
    CHECK(hopper.multiprocessors == 132);
    CHECK(hopper.shared_bytes_per_multiprocessor == 233472);
    CHECK(hopper.max_shared_bytes_per_block == 232448);
    CHECK(hopper.reserved_shared_bytes_per_block == 1024);
    CHECK(hopper.l2_bytes == 62914560);
    CHECK(hopper.memory_bytes == 141000000000);
    const DeviceInfo part = device(R"("arch": "sm_90", "name": "Half", "multiprocessors": 66)");
    CHECK(part.name == "Half");
    CHECK(part.multiprocessors == 66);
    CHECK(part.max_shared_bytes_per_block == 232448);
    const auto error =
        error_of([&] { (void)device(R"("arch": "sm_80", "multiprocessors": 108)"); });
    CHECK_THAT(
        error.value_or("accepted"),
        ContainsSubstring("device of architecture sm_80: expected also "
                          "\"shared_bytes_per_multiprocessor\", "
                          "\"max_shared_bytes_per_block\", which are assumed for sm_90 only"));
    CHECK(device(R"("arch": "sm_80", "multiprocessors": 108,
                    "shared_bytes_per_multiprocessor": 167936,
                    "max_shared_bytes_per_block": 166912)")
              .name == "assumed device");
}

TEST_CASE("a result that cannot answer the request is refused", "[folder]") {
    const TemporaryFolder temporary;
    EvaluationRequest request = make_request();
    auto task = std::make_shared<Task>(*request.task);
    task->workloads.push_back({.uuid = "w1", .axes = {{"N", 128}}, .scalars = {}});
    request.task = task;
    request.workloads = {0, 1};
    request.candidate.build_of_workload = {0, 0};
    (void)ask(temporary.path(), request);
    const std::string id = only_job(temporary.path());
    const fs::path file = temporary.path() / "results" / (id + ".json");
    Evaluation evaluation;
    evaluation.status = EvaluationStatus::ok;
    for (const std::size_t workload : {0, 1}) {
        WorkloadResult& result = evaluation.workloads.emplace_back();
        result.workload = workload;
        result.timing = make_timing(1e-5);
        result.opponent_timing = make_timing(2e-5);
        result.paired = PairedRatio{.ratio = 2.0, .low = 1.9, .high = 2.1, .quads = 10};
    }
    const auto answer = [&](const Evaluation& written) {
        write_file_atomically(file, folder::encode_result(id, written));
        return error_of([&] { (void)ask(temporary.path(), request); }).value_or("accepted");
    };
    REQUIRE(answer(evaluation) == "accepted");
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    using Change = std::function<void(std::vector<WorkloadResult>&)>;
    const std::vector<std::pair<std::string, Change>> changes = {
        {"workload 7: expected one that the job asks for", [](auto& w) { w[1].workload = 7; }},
        {"workload 0: expected one result, found several", [](auto& w) { w[1].workload = 0; }},
        {"workload 1: expected a timing", [](auto& w) { w.pop_back(); }},
        {"workload 1: expected a timing", [](auto& w) { w[1].timing.reset(); }},
        {"timing: expected a finite median_s above 0, found nan",
         [&](auto& w) { w[0].timing->median_s = nan; }},
        {"trimmed_mean_s above 0, found -1", [](auto& w) { w[0].timing->trimmed_mean_s = -1; }},
        {"p10_s above 0, found 0", [](auto& w) { w[0].timing->p10_s = 0; }},
        {"p90_s above 0, found inf", [&](auto& w) { w[0].timing->p90_s = infinity; }},
        {"samples above 0, found 0", [](auto& w) { w[0].timing->samples = 0; }},
        {"opponent_timing: expected", [](auto& w) { w[0].opponent_timing->median_s = 0; }},
        {"finite ratio above 0, found inf", [&](auto& w) { w[0].paired->ratio = infinity; }},
        {"finite ratio above 0, found 0", [](auto& w) { w[0].paired->ratio = 0; }},
        {"low <= ratio <= high, found 2.05", [](auto& w) { w[0].paired->low = 2.05; }},
        {"low <= ratio <= high", [](auto& w) { w[0].paired->high = 1.95; }},
        {"low <= ratio <= high, found nan", [&](auto& w) { w[0].paired->low = nan; }}};
    for (const auto& [message, change] : changes) {
        Evaluation wrong = evaluation;
        change(wrong.workloads);
        INFO(message);
        CHECK_THAT(answer(wrong),
                   ContainsSubstring(file.string() + ": workload ") && ContainsSubstring(message) &&
                       ContainsSubstring("; delete the file to have the job done again"));
    }
    // A modelled time has no samples, and its ratio no quads.
    Evaluation modelled = evaluation;
    for (WorkloadResult& result : modelled.workloads) {
        for (auto* timing : {&result.timing, &result.opponent_timing}) {
            (*timing)->samples = 0;
            (*timing)->provenance = Provenance::modelled_static;
        }
        result.paired = PairedRatio{.ratio = 2.0, .low = 2.0, .high = 2.0, .quads = 0};
    }
    CHECK(answer(modelled) == "accepted");
    modelled.workloads[0].timing->samples = -1;
    CHECK_THAT(answer(modelled), ContainsSubstring("samples above 0, found -1"));
    // Too few quads for an interval, and a verdict that needs no times.
    evaluation.workloads[0].paired->low = 0;
    evaluation.workloads[0].paired->high = infinity;
    CHECK(answer(evaluation) == "accepted");
    evaluation.status = EvaluationStatus::wrong_result;
    evaluation.workloads.clear();
    CHECK(answer(evaluation) == "accepted");
}

TEST_CASE("a result must speak of every hidden shape once", "[folder]") {
    const TemporaryFolder temporary;
    EvaluationRequest request = make_request();
    request.depth = EvaluationDepth::check;
    request.hidden = {{.uuid = "a", .axes = {{"N", 7}}, .scalars = {}},
                      {.uuid = "b", .axes = {{"N", 9}}, .scalars = {}}};
    (void)ask(temporary.path(), request);
    const std::string id = only_job(temporary.path());
    Evaluation evaluation;
    evaluation.status = EvaluationStatus::ok;
    evaluation.hidden = {{.hidden = 0}, {.hidden = 1, .refused = true}};
    const auto answer = [&](const Evaluation& written) {
        write_file_atomically(temporary.path() / "results" / (id + ".json"),
                              folder::encode_result(id, written));
        return error_of([&] { (void)ask(temporary.path(), request); }).value_or("accepted");
    };
    CHECK(answer(evaluation) == "accepted");
    evaluation.hidden[1].hidden = 0;
    CHECK_THAT(answer(evaluation), ContainsSubstring("hidden shape 0: expected one result"));
    evaluation.hidden[1].hidden = 2;
    CHECK_THAT(answer(evaluation), ContainsSubstring("hidden shape 2: expected one result"));
    evaluation.hidden.pop_back();
    CHECK_THAT(answer(evaluation), ContainsSubstring("results of 2 hidden shapes"));
    evaluation.status = EvaluationStatus::wrong_result;
    CHECK(answer(evaluation) == "accepted");
}

TEST_CASE("only a check may be ok without times", "[folder]") {
    const TemporaryFolder temporary;
    EvaluationRequest request = make_request();
    request.depth = EvaluationDepth::check;
    const bool command = GENERATE(false, true);
    if (command) {
        request.command = {
            .name = "eager", .kind = BaselineSpec::Kind::command, .command = {"run"}};
    }
    (void)ask(temporary.path(), request);
    const std::string id = only_job(temporary.path());
    Evaluation evaluation;
    evaluation.status = EvaluationStatus::ok;
    write_file_atomically(temporary.path() / "results" / (id + ".json"),
                          folder::encode_result(id, evaluation));
    CHECK(error_of([&] { (void)ask(temporary.path(), request); }).has_value() == command);
}

TEST_CASE("a job that cannot be read is left and the others are done", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const std::string bad(64, '0');
    fs::create_directory(temporary.path() / "jobs" / (bad + ".json"));
    FakeEvaluator worker;
    const Served served = serve(worker, temporary.path());
    CHECK(served.summary.evaluated == 1);
    CHECK(served.summary.skipped == 1);
    CHECK_THAT(served.text(), ContainsSubstring("job 000000000000 is left: cannot read"));
    CHECK(claims_in(temporary.path()) == 0);
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::ok);
}

TEST_CASE("the linkable plugin brings the evaluator named folder", "[folder]") {
    REQUIRE(kernelforge_plugin_evaluator_folder.evaluators.size() == 1);
    const auto& factory = kernelforge_plugin_evaluator_folder.evaluators[0];
    CHECK(std::string(factory.name) == "folder");
    const TemporaryFolder temporary;
    const auto made =
        factory.create(R"({"folder": ")" + temporary.path().string() + R"("})", PluginContext{});
    CHECK(made->evaluate(make_request(), {}).status == EvaluationStatus::pending);
}

TEST_CASE("an evaluation waits for a worker that watches the folder", "[folder]") {
    const TemporaryFolder temporary;
    FakeEvaluator worker;
    std::jthread watching([&](std::stop_token stop) {
        (void)serve(worker, temporary.path(), {.watch = true, .poll_interval = 5ms}, stop);
    });
    auto evaluator = make_evaluator(temporary.path(), 30);
    CHECK(evaluator.evaluate(make_request("a"), {}).status == EvaluationStatus::ok);
    CHECK(evaluator.evaluate(make_request("b"), {}).output == "out of b");
}

TEST_CASE("waiting ends after its time and at a stop", "[folder]") {
    const TemporaryFolder temporary;
    CHECK(make_evaluator(temporary.path(), 0.02).evaluate(make_request(), {}).status ==
          EvaluationStatus::pending);
    std::stop_source stop;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(20ms);
        stop.request_stop();
    });
    CHECK(
        make_evaluator(temporary.path(), 1000).evaluate(make_request(), stop.get_token()).status ==
        EvaluationStatus::cancelled);
}

TEST_CASE("a profile is queued and collected like an evaluation", "[folder]") {
    const TemporaryFolder temporary;
    auto evaluator = make_evaluator(temporary.path());
    const ProfileData queued = evaluator.collect(make_collection(), {});
    CHECK(queued.launches.empty());
    REQUIRE(queued.missing.size() == 1);
    CHECK_THAT(queued.missing[0].why,
               ContainsSubstring("queued as job") && ContainsSubstring("ask again"));
    FakeEvaluator worker;
    SECTION("a profile comes back") {
        CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
        const ProfileData data = evaluator.collect(make_collection(), {});
        CHECK(data.launches.at({0, 0}).kernel == "f of candidate");
    }
    SECTION("a worker's failure is an error") {
        worker.act_ = [](auto&&...) { throw Error(ErrorCode::worker_failed, "it died"); };
        CHECK(serve(worker, temporary.path()).summary.failed == 1);
        CHECK(error_of([&] { (void)evaluator.collect(make_collection(), {}); }) == "it died");
    }
}

TEST_CASE("jobs are done oldest first, as many as allowed", "[folder]") {
    const TemporaryFolder temporary;
    const auto now = fs::file_time_type::clock::now();
    std::map<std::string, fs::path> files;
    for (const std::string source : {"a", "b", "c"}) {
        (void)ask(temporary.path(), make_request(source));
        for (const fs::path& file : files_in(temporary.path() / "jobs")) {
            const bool known = std::any_of(files.begin(), files.end(),
                                           [&](const auto& entry) { return entry.second == file; });
            if (!known) files[source] = file;
        }
    }
    fs::last_write_time(files["a"], now - 1h);
    fs::last_write_time(files["b"], now - 3h);
    fs::last_write_time(files["c"], now - 2h);
    FakeEvaluator worker;
    CHECK(serve(worker, temporary.path(), {.max_jobs = 2}).summary.evaluated == 2);
    CHECK(worker.sources_ == std::vector<std::string>{"b", "c"});
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    CHECK(worker.sources_.back() == "a");
}

TEST_CASE("two workers at once do every job once", "[folder]") {
    const TemporaryFolder temporary;
    auto evaluator = make_evaluator(temporary.path());
    for (int i = 0; i < 8; ++i) {
        (void)evaluator.evaluate(make_request("source " + std::to_string(i)), {});
    }
    FakeEvaluator shared;
    shared.act_ = [](auto&&...) { std::this_thread::sleep_for(1ms); };
    std::atomic<std::size_t> done{0};
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < 3; ++i) {
            workers.emplace_back([&] {
                // `last_` is not for several threads, so each worker has its own fake.
                FakeEvaluator mine;
                mine.act_ = [&](const EvaluationRequest& request, std::stop_token) {
                    const std::lock_guard lock(shared.mutex_);
                    ++shared.counts_[request.candidate.candidate.source];
                };
                done += serve_folder(mine, temporary.path().string(), {}, {}).evaluated;
            });
        }
    }
    CHECK(done == 8);
    CHECK(shared.counts_.size() == 8);
    for (const auto& [source, count] : shared.counts_) {
        INFO(source);
        CHECK(count == 1);
    }
    CHECK(claims_in(temporary.path()) == 0);
}

TEST_CASE("a claim of a worker that died is taken over", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const std::string id = only_job(temporary.path());
    claim_and_die(temporary.path(), id);
    CHECK(claims_in(temporary.path()) == 1);
    FakeEvaluator worker;
    SECTION("once") {
        CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
        CHECK(claims_in(temporary.path()) == 0);
    }
    SECTION("a job that ends every worker is given up") {
        claim_and_die(temporary.path(), id);
        claim_and_die(temporary.path(), id);
        CHECK(serve(worker, temporary.path()).summary.failed == 1);
        CHECK(worker.sources_.empty());
        const Evaluation result = ask(temporary.path(), make_request());
        CHECK(result.status == EvaluationStatus::evaluator_failed);
        CHECK_THAT(result.message, ContainsSubstring("its worker ended 3 times"));
    }
    SECTION("of an earlier boot") {
        const fs::path claim = temporary.path() / "claims" / id;
        const JsonDocument document(read_file(claim), "claim");
        if (document.root().at("machine").as_string().empty()) return;  // cannot be known here
        replace_in_file(claim, document.root().at("boot").as_string(), "earlier");
        CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    }
    SECTION("a damaged claim") {
        write_file_atomically(temporary.path() / "claims" / id, "{\"host\":");
        CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    }
}

TEST_CASE("a claim that may be alive is respected", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const std::string id = only_job(temporary.path());
    const Claims claims(temporary.path() / "claims");
    REQUIRE(claims.take(id).taken);
    FakeEvaluator worker;
    SECTION("of this process") {
        const Served served = serve(worker, temporary.path());
        CHECK(served.summary.skipped == 1);
        CHECK_THAT(served.text(), ContainsSubstring("works on it"));
    }
    SECTION("of another machine") {
        const fs::path claim = temporary.path() / "claims" / id;
        Json json = Json::parse(read_file(claim));
        json["host"] = "elsewhere";
        json["machine"] = "0123";
        json["boot"] = "4567";
        write_file_atomically(claim, dump_json(json));
        const Served served = serve(worker, temporary.path());
        CHECK(served.summary.skipped == 1);
        CHECK_THAT(served.text(),
                   ContainsSubstring("on elsewhere works on it; delete claims/" + id));
    }
    CHECK(worker.sources_.empty());
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::pending);
    CHECK(claims_in(temporary.path()) == 1);
}

TEST_CASE("what an interrupted write left behind disturbs nobody", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const std::string id = only_job(temporary.path());
    const std::string half = read_file(temporary.path() / "jobs" / (id + ".json")).substr(0, 200);
    const std::string other(64, 'a');
    write_file_atomically(temporary.path() / "jobs" / (other + ".json.tmp12_0"), half);
    write_file_atomically(temporary.path() / "results" / (id + ".json.tmp12_1"), "{");
    write_file_atomically(temporary.path() / "claims" / ".claim12_2", "{");
    write_file_atomically(temporary.path() / "jobs" / "notes.json", "not a job");
    FakeEvaluator worker;
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::ok);
}

TEST_CASE("a malformed job gets a result that says where, and the others are done", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request("good"));
    const std::string good = only_job(temporary.path());
    const std::string text = read_file(temporary.path() / "jobs" / (good + ".json"));
    const auto failure_of = [&](const std::string& job_text) {
        const std::string id = sha256_hex(job_text);
        write_file_atomically(temporary.path() / "jobs" / (id + ".json"), job_text);
        FakeEvaluator worker;
        CHECK(serve(worker, temporary.path()).summary.failed == 1);
        const JsonDocument result(read_file(temporary.path() / "results" / (id + ".json")),
                                  "result");
        return result.root().at("failure").as_string();
    };
    CHECK_THAT(failure_of(text.substr(0, 300)), ContainsSubstring(".json:1:301: expected JSON"));
    CHECK_THAT(failure_of(""), ContainsSubstring("expected JSON"));
    CHECK_THAT(failure_of("[]"), ContainsSubstring(".json:1:1: expected an object"));
    CHECK_THAT(failure_of(text), ContainsSubstring("expected the id of the file's name"));
    CHECK_THAT(failure_of(R"({"format":"kernelforge-job","version":2})"),
               ContainsSubstring("expected format version 1, found 2"));
    CHECK_THAT(failure_of(R"({"format":"other","version":1})"),
               ContainsSubstring("expected \"kernelforge-job\", found \"other\""));
    CHECK(ask(temporary.path(), make_request("good")).status == EvaluationStatus::ok);
}

TEST_CASE("a job whose content was changed is not done", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const fs::path job = temporary.path() / "jobs" / (only_job(temporary.path()) + ".json");
    SECTION("another value") {
        replace_in_file(job, "\"seed\":7", "\"seed\":8");
        FakeEvaluator worker;
        CHECK(serve(worker, temporary.path()).summary.failed == 1);
        CHECK(worker.sources_.empty());
        CHECK_THAT(ask(temporary.path(), make_request()).message,
                   ContainsSubstring("the content does not belong to this id"));
    }
    SECTION("a path instead of a part") {
        std::string text = read_file(job);
        const std::size_t at = text.find("\"task\":\"") + 8;
        text.replace(at, 64, "../../../../etc/passwd");
        write_file_atomically(job, text);
        FakeEvaluator worker;
        CHECK(serve(worker, temporary.path()).summary.failed == 1);
    }
}

TEST_CASE("a part that is missing or damaged leaves the job open until it is asked again",
          "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    FakeEvaluator worker;
    // Task, candidate, its cubin, and the reference.
    const auto blobs = files_in(temporary.path() / "blobs");
    REQUIRE(blobs.size() == 4);
    for (const fs::path& blob : blobs) {
        const bool torn = blob == blobs[0] || blob == blobs[2];
        const std::string bytes = read_file(blob);
        fs::remove(blob);
        if (torn) write_file_atomically(blob, bytes.substr(0, bytes.size() / 2));
        const Served served = serve(worker, temporary.path());
        CHECK(served.summary.skipped == 1);
        CHECK_THAT(served.text(), ContainsSubstring("is left") &&
                                      ContainsSubstring("blobs/" + blob.filename().string()));
        CHECK(claims_in(temporary.path()) == 0);
        CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::pending);
    }
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::ok);
}

TEST_CASE("an evaluator that throws fails one job, not the visit", "[folder]") {
    const TemporaryFolder temporary;
    for (const std::string source : {"error", "exception", "fine"}) {
        (void)ask(temporary.path(), make_request(source));
    }
    FakeEvaluator worker;
    worker.act_ = [](const EvaluationRequest& request, std::stop_token) {
        const std::string& source = request.candidate.candidate.source;
        if (source == "error") throw Error(ErrorCode::invalid_argument, "a contradiction");
        if (source == "exception") throw std::runtime_error("surprise");
    };
    const Served served = serve(worker, temporary.path());
    CHECK(served.summary.evaluated == 1);
    CHECK(served.summary.failed == 2);
    const Evaluation failed = ask(temporary.path(), make_request("error"));
    CHECK(failed.status == EvaluationStatus::evaluator_failed);
    CHECK(failed.message == "a contradiction");
    CHECK(ask(temporary.path(), make_request("exception")).message ==
          "the evaluator failed: surprise");
    CHECK(ask(temporary.path(), make_request("fine")).status == EvaluationStatus::ok);
}

TEST_CASE("a lost device ends the visit and leaves the jobs open", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    FakeEvaluator worker;
    worker.act_ = [](auto&&...) { throw Error(ErrorCode::device_unavailable, "the GPU is gone"); };
    CHECK(error_of([&] { (void)serve(worker, temporary.path()); }) == "the GPU is gone");
    CHECK(claims_in(temporary.path()) == 0);
    worker.act_ = nullptr;
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
    worker.devices_.clear();
    CHECK_THAT(
        error_of([&] { (void)serve(worker, temporary.path()); }).value_or(""),
        ContainsSubstring("no usable GPU here: the worker of job folder " +
                          temporary.path().string() + " needs one; kernelforge doctor says more"));
}

TEST_CASE("a stop leaves the job at hand open", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    FakeEvaluator worker;
    std::stop_source stop;
    worker.act_ = [&](auto&&...) {
        stop.request_stop();
        throw Error(ErrorCode::cancelled, "stopped");
    };
    const Served served = serve(worker, temporary.path(), {.watch = true}, stop.get_token());
    CHECK(served.summary.evaluated + served.summary.failed == 0);
    CHECK(claims_in(temporary.path()) == 0);
    CHECK(ask(temporary.path(), make_request()).status == EvaluationStatus::pending);
}

TEST_CASE("a result that cannot be written whole is not written at all", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request());
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    FakeEvaluator worker;
    worker.act_ = [&](auto&&...) {
        rlimit tiny = before;
        tiny.rlim_cur = 100;
        ::setrlimit(RLIMIT_FSIZE, &tiny);
    };
    const auto error = error_of([&] { (void)serve(worker, temporary.path()); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("cannot write") && ContainsSubstring("File too large"));
    CHECK(files_in(temporary.path() / "results").empty());
    CHECK(claims_in(temporary.path()) == 0);
    worker.act_ = nullptr;
    CHECK(serve(worker, temporary.path()).summary.evaluated == 1);
}

TEST_CASE("a folder can be carried: copied, served there, results copied back", "[folder]") {
    const TemporaryFolder temporary;
    const fs::path home = temporary.path() / "home";
    const fs::path away = temporary.path() / "away";
    (void)ask(home, make_request("a"));
    (void)ask(home, make_request("b"));
    // A worker that is alive at home has claimed a job there; in the copy that means nothing.
    const std::string claimed = files_in(home / "jobs")[0].stem().string();
    REQUIRE(Claims(home / "claims").take(claimed).taken);
    fs::copy(home, away, fs::copy_options::recursive);
    FakeEvaluator worker;
    CHECK(serve(worker, away).summary.evaluated == 2);
    CHECK(ask(home, make_request("a")).status == EvaluationStatus::pending);
    fs::copy(away / "results", home / "results",
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    CHECK(ask(home, make_request("a")).output == "out of a");
    CHECK(ask(home, make_request("b")).output == "out of b");
    CHECK(ask(away, make_request("b")).output == "out of b");
}

TEST_CASE("results and folders of another version are refused", "[folder]") {
    const TemporaryFolder temporary;
    (void)ask(temporary.path(), make_request("a"));
    const std::string id = only_job(temporary.path());
    (void)ask(temporary.path(), make_request("b"));
    FakeEvaluator worker;
    REQUIRE(serve(worker, temporary.path()).summary.evaluated == 2);
    const fs::path result = temporary.path() / "results" / (id + ".json");
    SECTION("a result of another version") {
        replace_in_file(result, "\"version\":1", "\"version\":3");
        CHECK_THAT(error_of([&] { (void)ask(temporary.path(), make_request("a")); }).value_or(""),
                   ContainsSubstring(result.string() + ":1:") &&
                       ContainsSubstring("expected format version 1, found 3"));
    }
    SECTION("the result of another job") {
        for (const fs::path& other : files_in(temporary.path() / "results")) {
            if (other == result) continue;
            fs::copy_file(other, result, fs::copy_options::overwrite_existing);
        }
        CHECK_THAT(error_of([&] { (void)ask(temporary.path(), make_request("a")); }).value_or(""),
                   ContainsSubstring("expected the result of job " + id));
    }
    SECTION("half a result") {
        const std::string text = read_file(result);
        write_file_atomically(result, text.substr(0, text.size() / 2));
        CHECK_THAT(error_of([&] { (void)ask(temporary.path(), make_request("a")); }).value_or(""),
                   ContainsSubstring("expected JSON"));
    }
    SECTION("a profile where an evaluation was asked for") {
        write_file_atomically(result, folder::encode_result(id, ProfileData{}));
        CHECK_THAT(error_of([&] { (void)ask(temporary.path(), make_request("a")); }).value_or(""),
                   ContainsSubstring("expected an evaluation, found a profile"));
    }
    SECTION("a folder of another version") {
        replace_in_file(temporary.path() / "folder.json", "\"version\":1", "\"version\":2");
        CHECK_THAT(error_of([&] { (void)make_evaluator(temporary.path()); }).value_or(""),
                   ContainsSubstring("expected format version 1, found 2"));
        CHECK(error_of([&] { (void)serve(worker, temporary.path()); }));
    }
}

TEST_CASE("a folder that does not exist cannot be served", "[folder]") {
    const TemporaryFolder temporary;
    FakeEvaluator worker;
    CHECK_THAT(error_of([&] { (void)serve(worker, temporary.path() / "typo"); }).value_or(""),
               ContainsSubstring("expected a folder, found none"));
    CHECK_FALSE(fs::exists(temporary.path() / "typo"));
}

TEST_CASE("two hundred candidates fit in sixteen megabytes", "[folder]") {
    // Source 6 KiB, cubin 48 KiB with line information, PTX 60 KiB, log 4 KiB; against one
    // reference of the same size and one of ten leaders.
    const auto large = [](int i) {
        CompiledCandidate candidate = compiled(
            "// candidate " + std::to_string(i) + "\n" + std::string(6000, 'c'), 48 * 1024);
        candidate.builds[0].ptx += std::string(60 * 1024, 'p');
        candidate.builds[0].log = std::string(4096, 'l');
        return candidate;
    };
    std::map<std::string, std::size_t> blobs;
    std::size_t bytes = 0;
    for (int i = 0; i < 200; ++i) {
        EvaluationRequest request = make_request();
        request.candidate = large(i);
        request.reference = large(-1);
        request.opponent = large(i / 20);
        const folder::EncodedJob job = folder::encode_job(request, {.cubin = true, .ptx = false});
        bytes += job.text.size();
        for (const auto& [name, content] : job.blobs) blobs[name] = content.size();
    }
    for (const auto& [name, size] : blobs) bytes += size;
    CHECK(bytes < std::size_t{16} << 20);
    CHECK(bytes > 200 * 48 * 1024);  // the code is all there
}
