// SPDX-License-Identifier: Apache-2.0
#include "wire/codec.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using kernelforge::test::error_of;

namespace {

// One value of each type whose every member differs from its default.

Workload full_workload(const std::string& uuid) {
    return {.uuid = uuid, .axes = {{"M", 3}, {"N", -4}}, .scalars = {{"eps", 1e-6}}, .weight = 2.5};
}

BaselineSpec full_baseline() {
    return {.name = "eager",
            .kind = BaselineSpec::Kind::command,
            .source = "source",
            .source_path = "/x/source.cu",
            .command = {"python3", "run.py"}};
}

Definition full_definition() {
    Definition definition;
    definition.name = "add_rmsnorm";
    definition.op_type = "rmsnorm";
    definition.description = "adds, then normalises";
    definition.axes = {{.name = "H",
                        .kind = Axis::Kind::constant,
                        .value = 4096,
                        .expression = "H*2",
                        .description = "hidden"},
                       {.name = "E", .kind = Axis::Kind::expression}};
    definition.inputs = {{.name = "x",
                          .shape = {"M", "H"},
                          .scalar = true,
                          .dtype = DType::bfloat16,
                          .description = "input"}};
    definition.outputs = {{.name = "y", .dtype = DType::boolean}};
    definition.reference = "def run(x):\n    return x\n";
    definition.constraints = {"M > 0"};
    return definition;
}

Task full_task() {
    Task task;
    task.definition = full_definition();
    task.workloads = {full_workload("a"), full_workload("b")};
    task.emulator_workloads = {full_workload("small")};
    task.emulator_axes = {{"H", 128}};
    task.reference_cuda = "//@kernelforge 1\n__global__ void f();\n";
    task.reference_cuda_path = "/t/reference.cu";
    task.baselines = {full_baseline()};
    task.init = {{"x",
                  {.kind = InitSpec::Kind::heavy_tail,
                   .mean = 0.5,
                   .stddev = 2.0,
                   .low = -1.0,
                   .high = 3.0,
                   .bound = "M",
                   .used_by = "table"}}};
    task.compare = {{"y",
                     {.kind = CompareSpec::Kind::custom,
                      .tier = PrecisionTier::float8,
                      .slack = 1.5,
                      .custom = "mine",
                      .index = "i",
                      .offsets = "o",
                      .ties = "t",
                      .probabilities = "p"}}};
    task.inplace = {{"y", "x"}};
    task.unused_inputs = {"v"};
    task.constant_inputs = {"w"};
    task.axis_ranges = {{"M", {1, 8192}}};
    task.flops = "2*M*H";
    task.bytes = "4*M*H";
    task.policy = {.vector_fp32_only = true, .library_calls = true};
    task.folder = "/t";
    return task;
}

KernelFacts full_facts() {
    return {.name = "g",
            .lowered_name = "_Z1gv",
            .registers_per_thread = 40,
            .stack_bytes = 0,
            .spill_store_bytes = 8,
            .spill_load_bytes = 12,
            .static_shared_bytes = 1024,
            .barriers = 1,
            .max_threads_per_block = 256,
            .parameter_bytes = {8, 4},
            .parameter_types = {"const float*", "int"},
            .opcode_counts = {{"ffma", 7}}};
}

CompileDiagnostic full_diagnostic() {
    return {.severity = CompileDiagnostic::Severity::warning,
            .position = {.file = "candidate.cu", .line = 3, .column = 9},
            .message = "variable is never used"};
}

CompileRequest full_compile_request() {
    CompileRequest request;
    request.source = "source";
    request.file_name = "other.cu";
    request.arch = "sm_100a";
    request.options = {"--use_fast_math"};
    request.defines = {{"THREADS", 256}, {"M", -1}};
    request.kernels = {{"g", "gemm<64>"}};
    request.time_limit = std::chrono::milliseconds(1'234);
    request.memory_limit_bytes = 0xFFFF'FFFF'FFFF'FFFFULL;
    return request;
}

CompileResult full_compile_result() {
    CompileResult result;
    result.status = CompileStatus::crashed;
    result.message = "the compiler crashed";
    result.diagnostics = {full_diagnostic()};
    result.log = "log \xFF not UTF-8";
    result.ptx = ".version 8.5";
    result.cubin = std::string(
        "\x7F"
        "ELF\0\xFF\x80",
        7);
    result.arch = "sm_90a";
    result.compiler = "nvrtc 13.0";
    result.kernels = {full_facts()};
    result.writable_globals = {{"counter", 4}};
    result.time = std::chrono::duration<double>(0.25);
    result.from_cache = true;
    return result;
}

Candidate full_candidate() {
    return {.source = "code\n", .bindings = {{"THREADS", 128}}};
}

CompiledCandidate full_compiled() {
    return {.candidate = full_candidate(),
            .builds = {full_compile_result(), CompileResult{}},
            .build_of_workload = {1, 0}};
}

Roofs full_roofs() {
    return {.read_bytes_per_s = 4.1e12,
            .copy_bytes_per_s = 4.0e12,
            .write_bytes_per_s = 3.9e12,
            .fp32_flop_per_s = 6.0e13,
            .bf16_flop_per_s = 8.0e14,
            .empty_kernel_s = 1.5e-6};
}

DeviceInfo full_device() {
    DeviceInfo device;
    device.index = 1;
    device.name = "NVIDIA H200";
    device.uuid = "GPU-1";
    device.arch = "sm_100a";
    device.slots = 2;
    device.wants_cubin = false;
    device.wants_ptx = true;
    device.emulated = true;
    device.multiprocessors = 132;
    device.warp_size = 64;
    device.max_threads_per_block = 512;
    device.max_threads_per_multiprocessor = 1536;
    device.max_blocks_per_multiprocessor = 16;
    device.registers_per_multiprocessor = 32768;
    device.shared_bytes_per_multiprocessor = 233472;
    device.max_shared_bytes_per_block = 232448;
    device.reserved_shared_bytes_per_block = 1024;
    device.l2_bytes = 52428800;
    device.memory_bytes = 150754820096;
    device.clock_khz = 1980000;
    device.memory_clock_khz = 3201000;
    device.driver_version = 13000;
    device.roofs = full_roofs();
    return device;
}

EvaluationRequest full_request() {
    EvaluationRequest request;
    request.id = "e1";
    request.task = std::make_shared<const Task>(full_task());
    request.workloads = {1, 0};
    request.hidden = {full_workload("h")};
    request.candidate = full_compiled();
    request.reference = full_compiled();
    request.opponent = full_compiled();
    request.command = full_baseline();
    request.depth = EvaluationDepth::promotion;
    request.seed = 0xFEDC'BA98'7654'3210ULL;
    request.device = 3;
    request.fresh_worker = true;
    request.time_limit = std::chrono::milliseconds(2'001);
    return request;
}

Timing full_timing() {
    return {.median_s = 1e-5,
            .trimmed_mean_s = 1.1e-5,
            .p10_s = 0.9e-5,
            .p90_s = 1.2e-5,
            .samples = 40,
            .provenance = Provenance::modelled_static,
            .clock = "cupti",
            .events_median_s = 1.3e-5,
            .globaltimer_median_s = 1.4e-5};
}

PairedRatio full_paired() {
    return {.ratio = 1.5, .low = 1.4, .high = 1.6, .quads = 10};
}

OutputError full_output_error() {
    return {.output = "y",
            .ok = false,
            .normalised_rms = std::numeric_limits<double>::quiet_NaN(),
            .max_tile_rms = std::numeric_limits<double>::infinity(),
            .rms_limit = 1e-3,
            .tile_limit = 1e-2,
            .mismatches = 5,
            .first_index = 77,
            .expected = -std::numeric_limits<double>::infinity(),
            .found = -0.0078125,
            .distribution = "heavy tail"};
}

LaunchFacts full_launch() {
    LaunchFacts launch;
    launch.kernel = "g";
    const std::int64_t sizes[3][3] = {{132, 2, 3}, {256, 4, 5}, {8, 6, 7}};
    for (int i = 0; i < 3; ++i) {
        launch.grid[i] = sizes[0][i];
        launch.block[i] = sizes[1][i];
        launch.cluster[i] = sizes[2][i];
    }
    launch.dynamic_shared_bytes = 65536;
    launch.blocks_per_multiprocessor = 2;
    launch.mean_s = 1e-6;
    return launch;
}

WorkloadResult full_workload_result() {
    return {.workload = 2,
            .status = EvaluationStatus::wrong_result,
            .message = "y differs",
            .outputs = {full_output_error()},
            .timing = full_timing(),
            .opponent_timing = full_timing(),
            .paired = full_paired(),
            .launches = {full_launch()},
            .prepare_s = 2e-6,
            .library_steps = {"cublasLt 13.0.2, algorithm 66"}};
}

HiddenResult full_hidden_result() {
    return {.hidden = 1,
            .status = EvaluationStatus::wrong_result,
            .refused = true,
            .message = "y differs",
            .outputs = {full_output_error()}};
}

SanitizerResult full_sanitizer_result() {
    return {.tool = "racecheck",
            .status = SanitizerResult::Status::findings,
            .message = "a race on shared memory"};
}

AdmissionCheck full_admission_check() {
    return {.name = "zeros", .ok = true, .message = "it fails with 1.0 above 6e-3"};
}

DeviceState full_state() {
    return {.sm_clock_mhz_before = 1980,
            .sm_clock_mhz_after = 1965,
            .memory_clock_mhz = 3201,
            .temperature_c = 41,
            .throttle_reasons = 1ULL << 63,
            .other_processes = 0,
            .calibration_before_s = 1e-4,
            .calibration_after_s = 1.01e-4};
}

Evaluation full_evaluation() {
    Evaluation evaluation;
    evaluation.id = "e1";
    evaluation.status = EvaluationStatus::pending;
    evaluation.message = "queued";
    evaluation.rule = "memory";
    evaluation.workloads = {full_workload_result()};
    evaluation.hidden = {full_hidden_result()};
    evaluation.sanitizer = {full_sanitizer_result()};
    evaluation.admission = {full_admission_check()};
    evaluation.device_state = full_state();
    evaluation.device = "NVIDIA H200";
    evaluation.evaluator = "cuda";
    evaluation.output = std::string("a\0b", 3);
    evaluation.compile_time = std::chrono::duration<double>(0.1);
    evaluation.check_time = std::chrono::duration<double>(0.2);
    evaluation.timing_time = std::chrono::duration<double>(0.3);
    evaluation.total_time = std::chrono::duration<double>(0.7);
    return evaluation;
}

DataRequest full_data_request() {
    return {.metrics = {"sm__cycles_active.avg"},
            .sass_metrics = true,
            .pc_samples = true,
            .timeline = true,
            .energy = true,
            .custom = {"mine"}};
}

CollectRequest full_collect_request() {
    CollectRequest request;
    request.id = "c1";
    request.task = std::make_shared<const Task>(full_task());
    request.workloads = {0, 1};
    request.candidate = full_compiled();
    request.data = full_data_request();
    request.device = 2;
    request.time_limit = std::chrono::milliseconds(7);
    return request;
}

ProfileData full_profile() {
    ProfileData data;
    data.launches[{1, 2}] = {.kernel = "g",
                             .metrics = {{"m", {.value = 0.5, .provenance = Provenance::modelled}}},
                             .custom = {{"mine", "{}"}}};
    data.launches[{0, 0}] = {.kernel = "h"};
    data.missing = {{.what = "pc samples", .why = "no permission"}};
    return data;
}

Bottleneck full_bottleneck() {
    return {.key = {1, 2},
            .kind = BottleneckKind::memory,
            .memory_fraction = 0.8,
            .compute_fraction = 0.1,
            .bound_s = 1e-6,
            .headroom = 1.25,
            .sentence = "memory bound"};
}

Finding full_finding() {
    return {
        .tool = "coalescing",
        .cause = "8 sectors a request, expected 4",
        .cause_group = "access",
        .severity = Severity::critical,
        .key = {1, 3},
        .kernel = "g",
        .position = {.file = "candidate.cu", .line = 3, .column = 1},
        .actions = {{.edit = "load float4", .example = "float4 v;"}},
        .gain_limit = 2.0,
        .gain_basis = "sectors",
        .expected = {{.metric = "m", .direction = ExpectedChange::Direction::up, .factor = 0.5}},
        .forbidden = {"more shared memory"}};
}

Diagnosis full_diagnosis() {
    return {.bottlenecks = {full_bottleneck()},
            .findings = {full_finding()},
            .missing = {{.what = "energy", .why = "no NVML"}}};
}

Expansion full_expansion() {
    return {.id = 0xFFFF'FFFF'FFFF'FFF0ULL,
            .action = ExpansionAction::tune,
            .parent = {"aa"},
            .role = "memory",
            .thread = "t",
            .directive = "use wider loads",
            .inspirations = {{"bb"}, {"cc"}},
            .memory_query = "rmsnorm"};
}

NodeSummary full_summary() {
    return {.expansion = 4,
            .outcome = ExpansionOutcome::failed,
            .node = {"aa"},
            .parent = {"bb"},
            .status = EvaluationStatus::cancelled,
            .speedup = 1.5,
            .leader = true,
            .change_class = "vectorise",
            .message = "no reply"};
}

ChatRequest full_chat_request() {
    return {.key = {.expansion = 3, .turn = 2},
            .messages = {{.role = ChatRole::assistant,
                          .content = "hello",
                          .tool_calls = {{.id = "1", .name = "f", .arguments = "{}"}},
                          .tool_call_id = "9"}},
            .tools = {{.name = "f", .description = "d", .parameters = "{}"}},
            .max_output_tokens = 100,
            .temperature = 0.7};
}

Usage full_usage() {
    return {
        .input_tokens = 1000, .cached_input_tokens = 10, .output_tokens = 200, .cost_usd = 0.01};
}

ChatReply full_reply() {
    return {.status = ChatStatus::refused,
            .content = "no",
            .tool_calls = {{.id = "1", .name = "f", .arguments = "{"}},
            .usage = full_usage(),
            .model = "m-1",
            .message = "declined",
            .time = std::chrono::duration<double>(3.5)};
}

/// Every member of `full` must differ from the default's, or the round trip proves nothing.
void check_filled(const Json& full, const Json& fresh) {
    for (const auto& [key, value] : full.items()) {
        INFO(key);
        if (!fresh.contains(key)) continue;  // an absent optional, or a map's key
        if (value.is_object() && fresh[key].is_object()) {
            check_filled(value, fresh[key]);
        } else {
            CHECK(value != fresh[key]);
        }
    }
}

template <class T>
Json recode(const Json& json) {
    const JsonDocument document(dump_json(json), "message");
    return wire::encode(wire::decode<T>(document.root()));
}

/// Visits every value of `json` with a reference to it.
template <class F>
void for_each_value(Json& json, F&& f) {
    if (!json.is_structured()) return;
    for (auto& value : json) {
        f(value);
        for_each_value(value, f);
    }
}

template <class T>
void check_wrong_types_are_refused(const Json& full) {
    Json changed = full;
    std::size_t count = 0;
    for_each_value(changed, [&](Json& value) {
        const Json kept = value;
        value = nullptr;
        const auto error = error_of([&] { (void)recode<T>(changed); });
        INFO(dump_json(changed));
        REQUIRE(error);
        CHECK_THAT(*error, ContainsSubstring("message:1:"));
        value = kept;
        ++count;
    });
    CHECK(count > 0);
}

/// Leaving a member out is an error, except where the value is as valid without it (an optional, a
/// map's entry): then nothing else may change.
template <class T>
void check_left_out_members(const Json& full) {
    Json changed = full;
    const auto try_object = [&](Json& object) {
        if (!object.is_object()) return;
        const Json kept = object;
        for (const auto& [key, value] : kept.items()) {
            object.erase(key);
            try {
                const Json back = recode<T>(changed);
                CHECK(back == changed);
            } catch (const Error& error) {
                CHECK(error.code() == ErrorCode::parse);
                CHECK_FALSE(error.position().file.empty());
            }
            object = kept;
        }
    };
    try_object(changed);
    for_each_value(changed, try_object);
}

template <class T>
void check_round_trip(const T& full, std::size_t members) {
    const Json json = wire::encode(full);
    CHECK(json.size() == members);
    check_filled(json, wire::encode(T{}));
    CHECK(dump_json(recode<T>(json)) == dump_json(json));

    Json more = json;
    more["surprise"] = 1;
    const auto error = error_of([&] { (void)recode<T>(more); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("unknown member \"surprise\""));
    check_wrong_types_are_refused<T>(json);
}

}  // namespace

TEST_CASE("a definition, a task and a candidate survive the wire with every member", "[codec]") {
    check_round_trip(full_definition(), 8);
    check_round_trip(full_workload("u"), 4);
    check_round_trip(full_baseline(), 5);
    check_round_trip(full_task(), 17);
    check_round_trip(full_candidate(), 2);
}

TEST_CASE("compilations survive the wire with every member", "[codec]") {
    check_round_trip(full_facts(), 12);
    check_round_trip(full_diagnostic(), 3);
    check_round_trip(full_compile_request(), 8);
    check_round_trip(full_compile_result(), 12);
    check_round_trip(full_compiled(), 3);
}

TEST_CASE("devices and evaluations survive the wire with every member", "[codec]") {
    check_round_trip(full_roofs(), 6);
    check_round_trip(full_device(), 23);
    check_round_trip(full_timing(), 9);
    check_round_trip(full_paired(), 4);
    check_round_trip(full_output_error(), 11);
    check_round_trip(full_launch(), 7);
    check_round_trip(full_workload_result(), 10);
    check_round_trip(full_state(), 8);
    check_round_trip(full_evaluation(), 16);
}

TEST_CASE("profiles and diagnoses survive the wire with every member", "[codec]") {
    check_round_trip(full_data_request(), 6);
    check_round_trip(full_profile(), 2);
    check_round_trip(full_bottleneck(), 7);
    check_round_trip(full_finding(), 12);
    check_round_trip(full_diagnosis(), 3);
}

TEST_CASE("expansions and completions survive the wire with every member", "[codec]") {
    check_round_trip(full_expansion(), 8);
    check_round_trip(full_summary(), 9);
    check_round_trip(full_chat_request(), 5);
    check_round_trip(full_usage(), 4);
    check_round_trip(full_reply(), 7);
}

TEST_CASE("requests carry their task by value", "[codec]") {
    const EvaluationRequest request = full_request();
    const Json json = wire::encode(request);
    CHECK(json.size() == 13);
    CHECK(dump_json(recode<EvaluationRequest>(json)) == dump_json(json));
    CHECK(json.at("task") == wire::encode(*request.task));
    const Json collect = wire::encode(full_collect_request());
    CHECK(collect.size() == 7);
    CHECK(dump_json(recode<CollectRequest>(collect)) == dump_json(collect));
    EvaluationRequest fresh;
    fresh.task = std::make_shared<const Task>();
    check_filled(json, wire::encode(fresh));
}

TEST_CASE("a request without a task cannot be encoded", "[codec]") {
    const auto error = error_of([] { (void)wire::encode(EvaluationRequest{}); });
    REQUIRE(error);
    CHECK_THAT(*error, ContainsSubstring("expected a task"));
}

TEST_CASE("a member that is left out is an error unless it is optional", "[codec]") {
    check_left_out_members<EvaluationRequest>(wire::encode(full_request()));
    check_left_out_members<Evaluation>(wire::encode(full_evaluation()));
    check_left_out_members<CollectRequest>(wire::encode(full_collect_request()));
    check_left_out_members<ProfileData>(wire::encode(full_profile()));
    check_left_out_members<Diagnosis>(wire::encode(full_diagnosis()));
    check_left_out_members<DeviceInfo>(wire::encode(full_device()));
    check_left_out_members<ChatReply>(wire::encode(full_reply()));
    CHECK(error_of([] {
              (void)recode<Candidate>(Json{{"source", "x"}});
          }) == "message:1:1: expected a member \"bindings\", found none");
}

TEST_CASE("values keep their bits on the wire", "[codec]") {
    OutputError error;
    for (const double number : {0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e22, 1.0 / 3.0}) {
        error.found = number;
        const JsonDocument document(dump_json(wire::encode(error)), "message");
        const double back = wire::decode<OutputError>(document.root()).found;
        CHECK(std::memcmp(&back, &number, sizeof number) == 0);
    }
    const JsonDocument document(dump_json(wire::encode(full_compile_result())), "message");
    const CompileResult result = wire::decode<CompileResult>(document.root());
    CHECK(result.cubin == full_compile_result().cubin);
    CHECK(result.log == full_compile_result().log);
    CHECK(document.value().at("cubin").is_string());
}

TEST_CASE("text that is not UTF-8 is not changed by the wire", "[codec]") {
    // Overlong, surrogate, past U+10FFFF, cut off, stray continuation; then what is well-formed.
    for (const std::string text : {"\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82",
                                   "\x80", "a\xFFz", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xC3(",
                                   "\xE2\x28\xA1", "é€😀", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
        const JsonDocument document(dump_json(wire::encode(Candidate{text, {}})), "message");
        CHECK(wire::decode<Candidate>(document.root()).source == text);
    }
}

TEST_CASE("wrong values are refused with their position and what was expected", "[codec]") {
    const auto refused = [](auto type, const std::string& key, const Json& value) {
        using T = decltype(type);
        Json json = wire::encode(type);
        json[key] = value;
        const auto error = error_of([&] { (void)recode<T>(json); });
        return error.value_or("accepted");
    };
    CHECK_THAT(refused(Evaluation{}, "status", "fine"),
               ContainsSubstring("expected one of: ok, compile_error, plan_error") &&
                   ContainsSubstring("pending, found \"fine\""));
    CHECK_THAT(refused(Evaluation{}, "status", "unknown"), ContainsSubstring("expected one of"));
    CHECK(refused(Bottleneck{}, "kind", "unknown") == "accepted");
    CHECK_THAT(refused(Bottleneck{}, "kind", ""), ContainsSubstring("launch, unknown, found"));
    CHECK_THAT(refused(DeviceInfo{}, "slots", 1LL << 40),
               ContainsSubstring("-2147483648 to 2147483647"));
    CHECK_THAT(refused(DeviceInfo{}, "slots", 1.5), ContainsSubstring("expected an integer"));
    CHECK_THAT(refused(Expansion{}, "id", -1),
               ContainsSubstring("expected an integer from 0 to 2^64-1"));
    CHECK_THAT(refused(LaunchFacts{}, "grid", {1, 2}),
               ContainsSubstring("expected an array of 3 elements"));
    CHECK_THAT(refused(CompileResult{}, "cubin", "?"), ContainsSubstring("message:1:"));
    CHECK_THAT(refused(CompileResult{}, "time", 1e300), ContainsSubstring("expected a duration"));
    CHECK_THAT(refused(CompileRequest{}, "time_limit", -1e14),
               ContainsSubstring("expected a duration"));
    CHECK_THAT(refused(Timing{}, "median_s", "NaN"), ContainsSubstring("expected a number"));
    CHECK_THAT(refused(CompileRequest{}, "defines", Json::array({Json::array({"A"})})),
               ContainsSubstring("expected an array of 2 elements"));
    CHECK_THAT(refused(Candidate{}, "source", Json{{"base64", "*"}}),
               ContainsSubstring("message:1:"));
    CHECK_THAT(refused(Candidate{}, "source", Json{{"hex", "00"}}),
               ContainsSubstring("unknown member"));
}

TEST_CASE("one launch cannot have two profiles", "[codec]") {
    Json json = wire::encode(full_profile());
    json["launches"].push_back(json["launches"][0]);
    CHECK_THAT(error_of([&] { (void)recode<ProfileData>(json); }).value_or(""),
               ContainsSubstring("this launch appears twice"));
}

TEST_CASE("enumerators read back from their names", "[codec]") {
    const auto check = [](auto first, int count) {
        using E = decltype(first);
        for (int i = 0; i < count; ++i) {
            const JsonDocument document(dump_json(std::string(to_string(static_cast<E>(i)))),
                                        "name");
            CHECK(wire::decode<E>(document.root()) == static_cast<E>(i));
        }
        const JsonDocument document("\"other\"", "name");
        CHECK(error_of([&] { (void)wire::decode<E>(document.root()); }));
    };
    check(DType{}, 13);
    check(PrecisionTier{}, 6);
    check(Provenance{}, 4);
    check(EvaluationStatus{}, 12);
    check(EvaluationDepth{}, 5);
    check(OccupancyLimiter{}, 6);
    check(BottleneckKind{}, 6);
    check(Severity{}, 3);
    check(ExpansionAction{}, 4);
    check(ExpansionOutcome{}, 5);
    check(ChatRole{}, 4);
    check(ChatStatus{}, 4);
}

TEST_CASE("a message has a type and a body", "[codec]") {
    const JsonDocument document(wire::message("evalu\"ate", wire::encode(full_candidate())),
                                "message");
    CHECK(document.root().at("type").as_string() == "evalu\"ate");
    CHECK(wire::decode<Candidate>(document.root().at("body")) == full_candidate());
}
