// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/definition.hpp"

#include <filesystem>
#include <functional>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "task_text.hpp"

using namespace kernelforge;

namespace {

const std::string good_definition = R"({
  "name": "scale_add",
  "op_type": "elementwise",
  "axes": {
    "rows": {"type": "var", "description": "tokens"},
    "cols": {"type": "const", "value": 64},
    "pairs": {"type": "expr", "expression": "cols // 2"}
  },
  "inputs": {
    "x": {"shape": ["rows", "cols"], "dtype": "bfloat16"},
    "index": {"shape": ["rows"], "dtype": "int32"},
    "scale": {"shape": null, "dtype": "float32"}
  },
  "outputs": {
    "y": {"shape": ["rows", "cols"], "dtype": "bfloat16"},
    "n": {"shape": [], "dtype": "int64"}
  },
  "reference": "def run(x, index, scale):\n    return x\n",
  "constraints": ["cols % 2 == 0"],
  "hf_id": "org/model",
  "kernelforge": {
    "reference_cuda": "reference.cu",
    "baselines": [{"name": "portable", "kind": "cuda", "file": "baseline.cu"},
                  {"name": "eager", "kind": "command", "command": ["{python}", "{folder}/b.py"]}],
    "init": {"index": {"kind": "integers", "low": 0, "high": 63},
             "x": {"kind": "heavy_tail", "stddev": 2.0}},
    "compare": {"y": {"kind": "rms", "tier": "bfloat16", "slack": 1.5}},
    "inplace": {"y": "x"},
    "constant": ["index"],
    "axis_ranges": {"rows": [1, 512]},
    "flops": "2 * rows * cols",
    "bytes": "rows * cols * 4",
    "policy": {"vector_fp32_only": true},
    "emulator": [{"axes": {"rows": 2}, "inputs": {"scale": {"type": "scalar", "value": 1}}}]
  }
}
)";

const std::string good_workload =
    R"({"uuid": "a", "axes": {"rows": 8}, "inputs": {"x": {"type": "random"}, )"
    R"("index": {"type": "random"}, "scale": {"type": "scalar", "value": 0.5}}, )"
    R"("tolerance": {"max_atol": 0.01}})";

std::string read_named(const std::string& name) {
    if (name == "reference.cu") return "// reference\n";
    if (name == "baseline.cu") return "// baseline\n";
    if (name == "empty.cu") return "";
    if (name == "eager.py") return "print()\n";
    throw Error(ErrorCode::not_found, "cannot open " + name + ": no such file");
}

Task parse(const std::string& definition, const std::string& workloads = good_workload) {
    return parse_task({definition, "definition.json", workloads, "workload.jsonl"}, read_named);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

/// What is said when one piece of the good definition is replaced.
std::string failure(const std::string& from, const std::string& to) {
    return test::error_of([&] { (void)parse(replaced(good_definition, from, to)); })
        .value_or("accepted");
}

std::string workload_failure(const std::string& from, const std::string& to) {
    return test::error_of([&] { (void)parse(good_definition, replaced(good_workload, from, to)); })
        .value_or("accepted");
}

ErrorCode code_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const Error& error) {
        return error.code();
    }
    FAIL("expected an Error");
    return ErrorCode::internal;
}

void write_folder(const std::filesystem::path& folder) {
    write_file_atomically(folder / "definition.json", good_definition);
    write_file_atomically(folder / "workload.jsonl", good_workload + "\n");
    write_file_atomically(folder / "reference.cu", "// reference\n");
    write_file_atomically(folder / "baseline.cu", "// baseline\n");
}

}  // namespace

TEST_CASE("a task folder is read with all of its members", "[definition]") {
    const TemporaryFolder folder;
    write_folder(folder.path());
    const Task task = load_task(folder.path().string());

    const Definition& definition = task.definition;
    CHECK(definition.name == "scale_add");
    CHECK(definition.op_type == "elementwise");
    REQUIRE(definition.axes.size() == 3);
    CHECK(definition.axes[0].name == "rows");
    CHECK(definition.axes[0].kind == Axis::Kind::variable);
    CHECK(definition.axes[0].description == "tokens");
    CHECK(definition.axes[1].value == 64);
    CHECK(definition.axes[2].kind == Axis::Kind::expression);
    REQUIRE(definition.inputs.size() == 3);
    CHECK(definition.inputs[0].shape == std::vector<std::string>{"rows", "cols"});
    CHECK(definition.inputs[0].dtype == DType::bfloat16);
    CHECK(definition.inputs[2].scalar);
    REQUIRE(definition.outputs.size() == 2);
    CHECK(definition.outputs[1].shape.empty());
    CHECK_FALSE(definition.outputs[1].scalar);
    CHECK(definition.constraints == std::vector<std::string>{"cols % 2 == 0"});

    const std::filesystem::path root = std::filesystem::canonical(folder.path());
    CHECK(task.folder == root.string());
    CHECK(task.reference_cuda == "// reference\n");
    CHECK(task.reference_cuda_path == (root / "reference.cu").string());
    REQUIRE(task.baselines.size() == 2);
    CHECK(task.baselines[0].source == "// baseline\n");
    CHECK(task.baselines[0].source_path == (root / "baseline.cu").string());
    CHECK(task.baselines[1].kind == BaselineSpec::Kind::command);
    CHECK(task.baselines[1].command == std::vector<std::string>{"{python}", "{folder}/b.py"});
    CHECK(task.init.at("index").kind == InitSpec::Kind::integers);
    CHECK(task.init.at("index").high == 63.0);
    CHECK(task.init.at("x").stddev == 2.0);
    CHECK(task.compare.at("y").slack == 1.5);
    CHECK(task.compare.at("n").kind == CompareSpec::Kind::exact);
    CHECK(task.inplace.at("y") == "x");
    CHECK(task.constant_inputs == std::vector<std::string>{"index"});
    CHECK(task.axis_ranges.at("rows") == std::pair<std::int64_t, std::int64_t>{1, 512});
    CHECK(task.flops == "2 * rows * cols");
    CHECK(task.bytes == "rows * cols * 4");
    CHECK(task.policy.vector_fp32_only);
    CHECK_FALSE(task.policy.library_calls);
    REQUIRE(task.workloads.size() == 1);
    CHECK(task.workloads[0].uuid == "a");
    CHECK(task.workloads[0].axes.at("rows") == 8);
    CHECK(task.workloads[0].scalars.at("scale") == 0.5);
    REQUIRE(task.emulator_workloads.size() == 1);
    CHECK(task.emulator_workloads[0].uuid == "emulator-1");

    check_task(task);
}

TEST_CASE("a definition of another tool needs nothing of ours", "[definition]") {
    const std::string plain = R"J({"name": "gemm_n64", "op_type": null, "description": null,
        "tags": ["stage:decode"], "custom_inputs_entrypoint": null,
        "axes": {"M": {"type": "var", "parent": "x"}, "N": {"type": "const", "value": 64}},
        "inputs": {"A": {"shape": ["M", "N"], "dtype": "float16", "description": "left"}},
        "outputs": {"C": {"shape": ["M"], "dtype": "float32"}},
        "constraints": null, "reference": "def run(A): return A.sum(dim=1)"})J";
    const std::string trace =
        R"({"definition": "gemm_n64", "solution": null, "evaluation": null, "workload": )"
        R"({"uuid": "u1", "axes": {"M": 3}, "inputs": {"A": {"type": "random"}}}})";
    const Task task = parse(plain, trace + "\r\n\n" + replaced(trace, "u1", "u2") + "\n");
    CHECK(task.definition.op_type.empty());
    CHECK(task.reference_cuda.empty());
    REQUIRE(task.workloads.size() == 2);
    CHECK(task.workloads[1].uuid == "u2");
    CHECK(task.workloads[1].axes.at("M") == 3);
    check_task(task);

    CHECK(test::error_of([&] { (void)parse(plain, replaced(trace, "gemm_n64", "gemm_n65")); }) ==
          "workload.jsonl:1:16: expected the definition's name \"gemm_n64\", found \"gemm_n65\"");
    CHECK_THAT(test::error_of([&] { (void)parse(plain, replaced(trace, "3", "0")); }).value_or(""),
               ContainsSubstring("workload.jsonl:1:107: axis \"M\": expected a value above 0, "
                                 "found 0"));
}

TEST_CASE("values of all axes follow from a workload", "[definition]") {
    const Task task = parse(good_definition);
    const auto values = axis_values(task.definition, task.workloads[0]);
    CHECK(values == std::map<std::string, std::int64_t>{{"rows", 8}, {"cols", 64}, {"pairs", 32}});

    Definition chained = task.definition;
    chained.axes.insert(chained.axes.begin(),
                        Axis{"first", Axis::Kind::expression, 0, "second * rows", ""});
    chained.axes.push_back(Axis{"second", Axis::Kind::expression, 0, "pairs + 1", ""});
    CHECK(axis_values(chained, task.workloads[0]).at("first") == 33 * 8);

    CHECK_THAT(test::error_of([&] {
                   (void)axis_values(task.definition, Workload{"w", {}, {}});
               }).value_or(""),
               ContainsSubstring("definition \"scale_add\", workload \"w\": expected a value of "
                                 "axis \"rows\", found none"));
    chained.axes.back().expression = "1 / (rows - 8)";
    const auto divide = [&] { (void)axis_values(chained, task.workloads[0]); };
    CHECK_THAT(test::error_of(divide).value_or(""), ContainsSubstring("axis second:1:"));
    CHECK(code_of(divide) == ErrorCode::invalid_argument);
    chained.axes.back().expression = "first";
    CHECK_THAT(test::error_of(divide).value_or(""), ContainsSubstring("found a cycle"));
    chained.axes.back().expression = "rows +";
    CHECK(code_of(divide) == ErrorCode::invalid_argument);
}

TEST_CASE("malformed parts of a definition are reported where they stand", "[definition]") {
    struct Case {
        const char* from;
        const char* to;
        const char* says;
    };
    const auto cases = std::to_array<Case>({
        {"\"name\": \"scale_add\",", "", "definition.json:1:1: expected a member \"name\""},
        {"\"scale_add\"", "17", "definition.json:2:11: expected a string, found 17"},
        {"\"scale_add\"", "\"\"", "definition.json:2:11: expected a name of 1 to 256 bytes"},
        {"\"op_type\"", "\"name\"",
         "definition.json:3:3: member \"name\" appears twice in one object"},
        {"{\"type\": \"var\", \"description\": \"tokens\"}", "7",
         "definition.json:5:13: expected an object, found 7"},
        {"\"var\"", "\"vary\"",
         "definition.json:5:22: expected one of: const, var, expr, found \"vary\""},
        {"\"var\"", "true", "definition.json:5:22: expected one of: const, var, expr, found true"},
        {"\"value\": 64", "\"value\": 0",
         "definition.json:6:40: axis \"cols\": expected a value above 0, found 0"},
        {"\"value\": 64", "\"value\": 9223372036854775808",
         "definition.json:6:40: expected an integer below 2^63"},
        {"\"value\": 64", "\"size\": 64",
         "definition.json:6:13: expected a member \"value\", found none"},
        {"\"cols // 2\"", "\"\"",
         "definition.json:7:45: axis \"pairs\": expected an expression, found an empty text"},
        {"\"cols // 2\"", "\"cols ** 2\"",
         "definition.json:7:45: the operator ** is not yet supported"},
        {"\"cols // 2\"", "\"cols // width\"",
         "definition.json:7:46: axis \"pairs\": expected names of axes, found \"width\""},
        {"\"cols // 2\"", "\"pairs + 1\"",
         "definition.json:7:46: axis \"pairs\": expected an "
         "expression that does not need its own value"},
        {"\"cols // 2\"", "\"numel(x)\"",
         "definition.json:7:46: axis \"pairs\": expected arithmetic over axes, found numel(...)"},
        {"\"cols // 2\"", "\"cols // \"", "definition.json:7:"},
        {"\"cols // 2\"", "\"cols - 64\"",
         "workload.jsonl:1:23: axis \"pairs\": expected a computed value above 0, found 0"},
        {"\"cols // 2\"", "\"cols // (rows - 8)\"",
         "workload.jsonl:1:23: computed axes have no value here: definition.json:7:"},
        {"\"pairs\"", "\"n-2\"", "definition.json:7:12: axis \"n-2\": expected a C identifier"},
        {"\"pairs\"", "\"2n\"", "axis \"2n\": expected a C identifier"},
        {"\"pairs\"", "\"\"", "axis \"\": expected a C identifier"},
        {"\"pairs\"", "\"a/~b\"", "definition.json:7:13: axis \"a/~b\": expected a C identifier"},
        {"\"pairs\"", "\"switch\"", "expected a name that is no word of C++, CUDA"},
        {"\"pairs\"", "\"SMS\"", "expected a name that is no word of C++, CUDA"},
        {"\"pairs\"", "\"threadIdx\"", "expected a name that is no word of C++, CUDA"},
        {"\"pairs\"", "\"w\"", "axis \"w\": expected a name that is no component of a CUDA vector"},
        {"\"x\": {\"shape\"", "\"rows\": {\"shape\"",
         "definition.json:10:13: input \"rows\": expected a name that no other axis, input or "
         "output has"},
        {"\"n\": {\"shape\"", "\"x\": {\"shape\"",
         "definition.json:16:10: output \"x\": expected a name that no other"},
        {"\"x\": {\"shape\": [\"rows\"", "\"x\": {\"shape\": [\"row\"",
         "definition.json:10:21: input \"x\": expected the name of an axis, found \"row\""},
        {"\"x\": {\"shape\": [\"rows\"", "\"x\": {\"shape\": [\"1\"",
         "definition.json:10:21: input \"x\": an extent that is a number is not yet supported"},
        {"\"x\": {\"shape\": [\"rows\"", "\"x\": {\"shape\": [1",
         "definition.json:10:21: expected a string, found 1"},
        {"\"x\": {\"shape\": [\"rows\", \"cols\"]", "\"x\": {\"shape\": \"rows\"",
         "definition.json:10:20: expected a list of axis names, or null, found \"rows\""},
        {"\"x\": {\"shape\": [\"rows\", \"cols\"], ", "\"x\": {",
         "definition.json:10:10: expected a member \"shape\""},
        {"\"bfloat16\"", "\"bf16\"",
         "definition.json:10:47: expected one of: float64, float32, float16, bfloat16, "
         "float8_e4m3fn, float8_e5m2, float4_e2m1, int64, int32, int16, int8, uint8, bool, "
         "found \"bf16\""},
        {"\"n\": {\"shape\": []", "\"n\": {\"shape\": null",
         "definition.json:16:20: output \"n\": expected a list of axis names, found null"},
        {"\"constraints\": [", "\"constraints\": [1, ",
         "definition.json:19:19: expected a string, found 1"},
    });
    for (const Case& entry : cases) {
        INFO(entry.from << " -> " << entry.to);
        CHECK_THAT(failure(entry.from, entry.to), ContainsSubstring(entry.says));
    }
    CHECK_THAT(test::error_of([] { (void)parse("{\"a\": [1,]}"); }).value_or(""),
               ContainsSubstring("definition.json:1:10: expected JSON"));
    CHECK_THAT(test::error_of([] { (void)parse("[]"); }).value_or(""),
               ContainsSubstring("definition.json:1:1: expected an object, found an array"));
}

TEST_CASE("malformed parts of the kernelforge object are reported where they stand",
          "[definition]") {
    struct Case {
        const char* from;
        const char* to;
        const char* says;
    };
    const auto cases = std::to_array<Case>({
        {"\"policy\"", "\"polcy\"",
         "definition.json:33:14: unknown member \"polcy\", expected one of: reference_cuda, "},
        {"\"vector_fp32_only\": true", "\"vector_fp32_only\": 1",
         "definition.json:33:36: expected true or false, found 1"},
        {"\"vector_fp32_only\"", "\"vector\"", "definition.json:33:26: unknown member \"vector\""},
        {"\"reference.cu\"", "\"missing.cu\"",
         "definition.json:22:23: cannot open missing.cu: no such file"},
        {"\"reference.cu\"", "\"empty.cu\"",
         "definition.json:22:23: expected a file that is not empty"},
        {"\"reference.cu\"", "\"/etc/passwd\"",
         "definition.json:22:23: expected a file name inside the task folder, relative and "
         "without \"..\", found \"/etc/passwd\""},
        {"\"reference.cu\"", "\"a/../../b.cu\"", "expected a file name inside the task folder"},
        {"\"reference.cu\"", "\"..\"", "expected a file name inside the task folder"},
        {"\"reference.cu\"", "\"\"", "expected a file name inside the task folder"},
        {"\"reference.cu\"", "\"a/\"", "expected a file name inside the task folder"},
        {"\"reference.cu\"", "\"a\\\\b\"", "expected a file name inside the task folder"},
        {"\"reference.cu\"", "\"a\\u0000\"", "expected a file name inside the task folder"},
        {"\"kind\": \"cuda\", \"file\"", "\"kind\": \"hip\", \"file\"",
         "definition.json:23:48: expected one of: cuda, cublaslt, cudnn, cub, command, found "
         "\"hip\""},
        {"\"file\": \"baseline.cu\"", "\"path\": \"baseline.cu\"",
         "definition.json:23:64: unknown member \"path\", expected one of: name, kind, file"},
        {"\"baseline.cu\"", "\"empty.cu\"",
         "definition.json:23:64: baseline \"portable\": expected a file that is not empty"},
        {", \"file\": \"baseline.cu\"", "", "definition.json:23:19: expected a member \"file\""},
        {"\"eager\"", "\"portable\"",
         "definition.json:24:28: baseline \"portable\": expected a "
         "name that no other baseline has"},
        {"\"eager\"", "\"\"", "definition.json:24:28: expected the name of the baseline"},
        {"[\"{python}\", \"{folder}/b.py\"]", "[]",
         "definition.json:24:67: baseline \"eager\": expected a program and its arguments"},
        {"[\"{python}\", \"{folder}/b.py\"]", "[\"a\", \"b\\u0000\"]",
         "definition.json:24:73: baseline \"eager\": expected words without a zero byte"},
        {"[\"{python}\", \"{folder}/b.py\"]", "\"python b.py\"",
         "definition.json:24:67: expected an array, found \"python b.py\""},
        {"{\"name\": \"portable\", \"kind\": \"cuda\", \"file\": \"baseline.cu\"},", "",
         "definition.json:23:18: expected at least one baseline of kind cuda"},
        {"\"index\": {\"kind\"", "\"indexes\": {\"kind\"",
         "definition.json:25:25: expected the name of an input, found \"indexes\""},
        {"\"x\": {\"kind\"", "\"scale\": {\"kind\"",
         "definition.json:26:23: input \"scale\": expected no init"},
        {"\"integers\"", "\"ints\"",
         "definition.json:25:32: expected one of: normal, uniform, integers, constant, "
         "permutation, heavy_tail, offsets, distinct, found \"ints\""},
        {"\"low\": 0, ", "", "definition.json:25:23: expected a member \"low\""},
        {"\"low\": 0", "\"low\": 0.5",
         "definition.json:25:51: input \"index\": expected an integer, found 0.5"},
        {"\"low\": 0", "\"low\": 64",
         "definition.json:25:63: input \"index\": expected high not below low (64.0), found 63.0"},
        {"\"high\": 63", "\"high\": 3000000000",
         "definition.json:25:62: input \"index\": expected an integer up to 2147483647.0, "
         "found 3000000000.0"},
        {"\"low\": 0", "\"low\": -3000000000",
         "definition.json:25:51: input \"index\": expected an integer from -2147483648.0"},
        {"\"kind\": \"integers\", \"low\": 0, \"high\": 63", "\"kind\": \"normal\"",
         "definition.json:25:32: input \"index\": expected integers, constant, permutation, "
         "offsets "
         "or distinct for type int32"},
        {"\"index\": {\"kind\": \"integers\", \"low\": 0, \"high\": 63},", "",
         "definition.json:11:14: input \"index\" of type int32: expected its bounds in \"init\""},
        {"\"heavy_tail\", \"stddev\": 2.0", "\"permutation\"",
         "definition.json:26:28: input \"x\": expected an integer tensor with at least one axis"},
        {"\"stddev\": 2.0", "\"stddev\": 0",
         "definition.json:26:52: input \"x\": expected a stddev above 0, found 0.0"},
        {"\"stddev\": 2.0", "\"low\": 2.0", "definition.json:26:49: unknown member \"low\""},
        {"\"heavy_tail\", \"stddev\": 2.0", "\"uniform\", \"low\": 2",
         "definition.json:26:19: input \"x\": expected high above low (2.0), found 1.0"},
        {"\"compare\": {\"y\"", "\"compare\": {\"z\"",
         "definition.json:27:22: expected the name of an output, found \"z\""},
        {"\"kind\": \"rms\"", "\"kind\": \"set\"",
         "definition.json:27:46: unknown member \"tier\", expected one of: kind, ties"},
        {"\"compare\": {\"y\"", "\"compare\": {\"n\"",
         "definition.json:27:31: output \"n\": expected exact for type int64, found rms"},
        {"\"tier\": \"bfloat16\"", "\"tier\": \"int8\"",
         "definition.json:27:46: expected one of: float64, float32, tensor_float32, float16, "
         "bfloat16, float8, found \"int8\""},
        {"\"slack\": 1.5", "\"slack\": 0",
         "definition.json:27:67: output \"y\": expected a slack above 0, found 0.0"},
        {"\"slack\"", "\"slac\"", "definition.json:27:66: unknown member \"slac\""},
        {"{\"y\": \"x\"}", "{\"z\": \"x\"}",
         "definition.json:28:22: expected the name of an output, found \"z\""},
        {"{\"y\": \"x\"}", "{\"y\": \"scale\"}",
         "definition.json:28:22: output \"y\": expected the name of an input tensor"},
        {"{\"y\": \"x\"}", "{\"n\": \"x\"}",
         "definition.json:28:22: output \"n\": expected an input of the same shape and type"},
        {"[\"index\"]", "[\"index\", \"x\"]",
         "definition.json:28:22: output \"y\": expected an input that is not constant, found "
         "\"x\""},
        {"[\"index\"]", "[\"index\", \"index\"]",
         "definition.json:29:27: expected each constant input once"},
        {"[\"index\"]", "[\"scale\"]",
         "definition.json:29:18: expected the name of an input tensor, found \"scale\""},
        {"\"rows\": [1, 512]", "\"cols\": [1, 512]",
         "definition.json:30:29: expected the name of a variable axis, found \"cols\""},
        {"[1, 512]", "[0, 512]", "definition.json:30:29: axis \"rows\": expected 1 <= low <= high"},
        {"[1, 512]", "[2, 1]", "found [2, 1]"},
        {"[1, 512]", "[1]", "definition.json:30:29: expected [low, high], found an array"},
        {"\"2 * rows * cols\"", "\"2 * rows * k\"",
         "definition.json:31:14: flops: expected names of axes, found \"k\""},
        {"\"2 * rows * cols\"", "\"numel(x)\"",
         "definition.json:31:14: flops: expected arithmetic over axes, found numel(...)"},
        {"\"2 * rows * cols\"", "\"rows - 9\"",
         "workload.jsonl:1:23: flops: expected a value of at least 0 here, found -1"},
        {"\"2 * rows * cols\"", "\"1 / (rows - 8)\"",
         "workload.jsonl:1:23: flops has no value here: definition.json:31:"},
        {"\"rows * cols * 4\"", "\"rows *\"", "definition.json:32:"},
        {"\"emulator\": [{\"axes\": {\"rows\": 2}", "\"emulator\": [{\"axes\": {\"rows\": 0}",
         "definition.json:34:36: axis \"rows\": expected a value above 0, found 0"},
        {"\"inputs\": {\"scale\": {\"type\": \"scalar\", \"value\": 1}}", "\"inputs\": {}",
         "definition.json:34:50: input \"scale\": expected a scalar value, found none"},
        {"\"scalar\", \"value\": 1", "\"random\"",
         "definition.json:34:69: input \"scale\": expected scalar, its shape is null, found "
         "random"},
    });
    for (const Case& entry : cases) {
        INFO(entry.from << " -> " << entry.to);
        CHECK_THAT(failure(entry.from, entry.to), ContainsSubstring(entry.says));
    }
    CHECK(code_of([] { (void)parse(replaced(good_definition, "reference.cu", "none.cu")); }) ==
          ErrorCode::not_found);
}

namespace {

/// A paged decoder that also chooses and samples: one input and output of every special kind.
const std::string paged_definition = R"({
  "name": "paged",
  "axes": {
    "batch": {"type": "var"}, "batch_1": {"type": "expr", "expression": "batch + 1"},
    "tokens": {"type": "var"}, "pages": {"type": "var"},
    "d": {"type": "const", "value": 64}, "k": {"type": "const", "value": 8}
  },
  "inputs": {
    "kv": {"shape": ["pages", "d"], "dtype": "bfloat16"},
    "indptr": {"shape": ["batch_1"], "dtype": "int32"},
    "table": {"shape": ["tokens"], "dtype": "int32"},
    "spare": {"shape": ["batch", "d"], "dtype": "float32"}
  },
  "outputs": {
    "o": {"shape": ["tokens", "d"], "dtype": "bfloat16"},
    "lse": {"shape": ["batch"], "dtype": "float32"},
    "i": {"shape": ["batch", "k"], "dtype": "int64"},
    "w": {"shape": ["batch", "k"], "dtype": "float32"},
    "s": {"shape": ["batch"], "dtype": "int32"},
    "c": {"shape": ["batch"], "dtype": "bool"}
  },
  "reference": "def run(): pass",
  "kernelforge": {
    "baselines": [{"name": "p", "kind": "cuda", "file": "baseline.cu"},
                  {"name": "sort", "kind": "cub", "file": "reference.cu"}],
    "init": {
      "kv": {"kind": "normal", "used_by": "table"},
      "indptr": {"kind": "offsets", "bound": "tokens"},
      "table": {"kind": "distinct", "bound": "pages"}
    },
    "compare": {
      "o": {"kind": "ragged", "offsets": "indptr", "slack": 2},
      "lse": {"kind": "lse", "tier": "bfloat16"},
      "i": {"kind": "set", "ties": "near"},
      "w": {"kind": "by_index", "index": "i"},
      "s": {"kind": "samples", "probabilities": "p"},
      "c": {"kind": "custom", "custom": "mine"}
    },
    "unused": ["spare"]
  }
}
)";
const std::string paged_workload =
    R"({"uuid": "a", "axes": {"batch": 4, "tokens": 100, "pages": 120}, "weight": 2.5})";

std::string paged_failure(const std::string& from, const std::string& to) {
    return test::error_of(
               [&] { (void)parse(replaced(paged_definition, from, to), paged_workload); })
        .value_or("accepted");
}

}  // namespace

TEST_CASE("inputs and comparisons of every kind are read", "[definition]") {
    const Task task = parse(paged_definition, paged_workload);
    CHECK(task.init.at("kv").used_by == "table");
    CHECK(task.init.at("indptr").kind == InitSpec::Kind::offsets);
    CHECK(task.init.at("indptr").bound == "tokens");
    CHECK(task.init.at("table").kind == InitSpec::Kind::distinct);
    CHECK(task.init.at("table").bound == "pages");
    CHECK(task.compare.at("o").kind == CompareSpec::Kind::ragged);
    CHECK(task.compare.at("o").offsets == "indptr");
    CHECK(task.compare.at("o").tier == PrecisionTier::bfloat16);
    CHECK(task.compare.at("o").slack == 2.0);
    CHECK(task.compare.at("lse").kind == CompareSpec::Kind::lse);
    CHECK(task.compare.at("i").kind == CompareSpec::Kind::set);
    CHECK(task.compare.at("i").ties == "near");
    CHECK(task.compare.at("w").index == "i");
    CHECK(task.compare.at("w").tier == PrecisionTier::float32);
    CHECK(task.compare.at("s").probabilities == "p");
    CHECK(task.compare.at("c").custom == "mine");
    CHECK(task.unused_inputs == std::vector<std::string>{"spare"});
    CHECK(task.baselines[1].kind == BaselineSpec::Kind::cub);
    CHECK(task.baselines[1].source == "// reference\n");
    CHECK(task.workloads[0].weight == 2.5);
    check_task(task);
}

TEST_CASE("malformed inputs and comparisons of the special kinds are reported where they stand",
          "[definition]") {
    struct Case {
        const char* from;
        const char* to;
        const char* says;
    };
    const auto cases = std::to_array<Case>({
        {"\"kind\": \"cub\", \"file\": \"reference.cu\"", "\"kind\": \"cub\"",
         "definition.json:25:19: expected a member \"file\""},
        {"\"kind\": \"cub\", \"file\": \"reference.cu\"",
         "\"kind\": \"cudnn\", \"file\": \"empty.cu\"",
         "baseline \"sort\": expected a file that is not empty"},
        {", \"used_by\": \"table\"", ", \"used_by\": \"indptr\"",
         "definition.json:27:43: input \"kv\": expected the name of another input of kind "
         "distinct, "
         "found \"indptr\""},
        {", \"used_by\": \"table\"", ", \"used_by\": \"nobody\"", "found \"nobody\""},
        {", \"used_by\": \"table\"", ", \"used_by\": \"\"",
         "expected the name of an input of kind distinct"},
        {"[\"pages\", \"d\"]", "[\"tokens\", \"d\"]",
         "definition.json:27:43: input \"kv\": expected that its first axis is the bound \"pages\" "
         "of "
         "\"table\""},
        {"\"bound\": \"tokens\"", "\"bound\": \"token\"",
         "definition.json:28:46: input \"indptr\": expected the name of an axis, found \"token\""},
        {"\"kind\": \"offsets\", \"bound\": \"tokens\"", "\"kind\": \"offsets\"",
         "definition.json:28:17: expected a member \"bound\""},
        {"\"kind\": \"offsets\", \"bound\": \"tokens\"",
         "\"kind\": \"permutation\", \"bound\": \"tokens\"", "unknown member \"bound\""},
        {"[\"batch_1\"], \"dtype\": \"int32\"", "[\"batch_1\"], \"dtype\": \"float32\"",
         "definition.json:28:26: input \"indptr\": expected an integer tensor with one axis for "
         "offsets"},
        {"\"table\": {\"shape\": [\"tokens\"]", "\"table\": {\"shape\": [\"tokens\", \"d\"]",
         "input \"table\": expected an integer tensor with one axis for distinct"},
        {"[\"tokens\"], \"dtype\": \"int32\"", "[\"tokens\"], \"dtype\": \"bool\"",
         "input \"table\": expected an integer tensor with one axis for distinct"},
        {"[\"batch_1\"], \"dtype\": \"int32\"", "[\"batch_1\"], \"dtype\": \"int8\"", "accepted"},
        {"[\"tokens\"], \"dtype\": \"int32\"", "[\"pages\"], \"dtype\": \"int32\"", "accepted"},
        {"\"offsets\": \"indptr\"", "\"offsets\": \"table\"",
         "definition.json:32:42: output \"o\": expected the name of an input of kind offsets, "
         "found "
         "\"table\""},
        {", \"offsets\": \"indptr\"", "", "definition.json:32:12: expected a member \"offsets\""},
        {"\"o\": {\"shape\": [\"tokens\"", "\"o\": {\"shape\": [\"batch\"",
         "workload.jsonl:1:23: output \"o\": expected at least 100 rows, the bound of \"indptr\", "
         "found 4"},
        {"\"o\": {\"shape\": [\"tokens\", \"d\"]", "\"o\": {\"shape\": []",
         "definition.json:32:21: output \"o\": expected at least one axis for ragged"},
        {"\"lse\": {\"kind\": \"lse\"", "\"i\": {\"kind\": \"lse\"",
         "definition.json:34:7: member \"i\" appears twice"},
        {"\"lse\": {\"shape\": [\"batch\"], \"dtype\": \"float32\"",
         "\"lse\": {\"shape\": [\"batch\"], \"dtype\": \"int32\"",
         "definition.json:33:23: output \"lse\": expected a floating-point type for lse, found "
         "int32"},
        {"[\"batch\", \"k\"], \"dtype\": \"int64\"", "[\"batch\", \"k\"], \"dtype\": \"float16\"",
         "definition.json:34:21: output \"i\": expected an integer type for set, found float16"},
        {"\"ties\": \"near\"", "\"ties\": \"9\"",
         "definition.json:34:36: output \"i\": expected the name of a workspace of the reference"},
        {"\"index\": \"i\"", "\"index\": \"s\"",
         "definition.json:35:42: output \"w\": expected the name of an output of kind set, found "
         "\"s\""},
        {"\"i\": {\"shape\": [\"batch\", \"k\"]", "\"i\": {\"shape\": [\"batch\", \"d\"]",
         "definition.json:35:42: output \"w\": expected an output of the same shape, found \"i\""},
        {", \"index\": \"i\"", "", "definition.json:35:12: expected a member \"index\""},
        {"\"probabilities\": \"p\"", "\"probabilities\": \"\"",
         "output \"s\": expected the name of a workspace of the reference, found \"\""},
        {"\"probabilities\"", "\"probability\"", "unknown member \"probability\""},
        {"\"s\": {\"shape\": [\"batch\"], \"dtype\": \"int32\"",
         "\"s\": {\"shape\": [\"batch\"], \"dtype\": \"bool\"",
         "output \"s\": expected an integer type for samples, found bool"},
        {"\"custom\": \"mine\"", "\"custom\": \"\"",
         "definition.json:37:41: output \"c\": expected the name of a comparator"},
        {"\"kind\": \"custom\", \"custom\"", "\"kind\": \"exact\", \"custom\"",
         "unknown member \"custom\", expected one of: kind"},
        {"\"kind\": \"lse\", \"tier\": \"bfloat16\"", "\"kind\": \"lse\", \"index\": \"i\"",
         "unknown member \"index\""},
        {"[\"spare\"]", "[\"spares\"]",
         "definition.json:39:16: expected the name of an input tensor, found \"spares\""},
        {"[\"spare\"]", "[\"spare\", \"spare\"]",
         "definition.json:39:25: expected each unused input once, found \"spare\" again"},
        {"\"unused\": [\"spare\"]", "\"unused\": [], \"inplace\": {\"o\": \"kv\"}", "\"o\""},
    });
    for (const Case& entry : cases) {
        INFO(entry.from << " -> " << entry.to);
        CHECK_THAT(paged_failure(entry.from, entry.to), ContainsSubstring(entry.says));
    }
}

TEST_CASE("bounds and weights must fit the workload", "[definition]") {
    const auto says = [](const std::string& from, const std::string& to,
                         const std::string& definition = paged_definition) {
        return test::error_of([&] { (void)parse(definition, replaced(paged_workload, from, to)); })
            .value_or("accepted");
    };
    CHECK_THAT(
        says("120", "99"),
        ContainsSubstring("workload.jsonl:1:23: input \"table\": expected at most 99 distinct "
                          "values, found 100"));
    CHECK(says("120", "100") == "accepted");
    CHECK_THAT(
        says("100", "200",
             replaced(paged_definition, "[\"batch_1\"], \"dtype\": \"int32\"",
                      "[\"batch_1\"], \"dtype\": \"int8\"")),
        ContainsSubstring("input \"indptr\": values up to the bound 200 do not fit type int8"));
    CHECK_THAT(says("4", "1", replaced(paged_definition, "batch + 1", "batch")),
               ContainsSubstring("input \"indptr\": expected at least 2 offsets, found 1"));
    CHECK_THAT(says("2.5", "0"),
               ContainsSubstring("workload.jsonl:1:76: expected a weight above 0"));
    for (const char* weight : {"-1", "5e-324", "1e308"}) {
        CHECK_THAT(says("2.5", weight),
                   ContainsSubstring("expected a weight above 0 (1e-06 to 1000000.0), found "));
    }
    CHECK_THAT(says("2.5", "\"1\""), ContainsSubstring("expected a number"));
    CHECK(parse(paged_definition, replaced(paged_workload, ", \"weight\": 2.5", ""))
              .workloads[0]
              .weight == 1.0);
}

TEST_CASE("workspaces that a comparison reads are those of the reference", "[definition]") {
    Task task = parse(paged_definition, paged_workload);
    const auto says = [&](const std::string& workspaces) {
        task.reference_cuda = "//@kernelforge 1\n" + workspaces +
                              "//@launch k<<<1, 32>>>()\nextern \"C\" __global__ void k() {}\n";
        return test::error_of([&] { check_task(task); }).value_or("accepted");
    };
    CHECK(says("//@workspace near u8 [4, 8]\n//@workspace p f32 [4, 8]\n") == "accepted");
    CHECK_THAT(
        says("//@workspace p f32 [4, 8]\n"),
        ContainsSubstring("expected a workspace of the reference, found none named \"near\""));
    CHECK_THAT(says("//@workspace near i32 [4, 8]\n//@workspace p f32 [4, 8]\n"),
               ContainsSubstring("to be u8 [rows, n], found i32 with 2 extents"));
    CHECK_THAT(says("//@workspace near u8 [4, 8]\n//@workspace p f32 [8]\n"),
               ContainsSubstring("to be f32 [rows, n], found f32 with 1 extent"));
}

TEST_CASE("special kinds of a task built in memory name what they need and nothing else",
          "[definition]") {
    const Task good = parse(paged_definition, paged_workload);
    const auto says = [&](const std::function<void(Task&)>& damage) {
        Task task = good;
        damage(task);
        return test::error_of([&] { check_task(task); }).value_or("accepted");
    };
    CHECK_THAT(says([](Task& task) { task.compare["lse"].index = "i"; }),
               ContainsSubstring("kernelforge/compare/lse/index: output \"lse\": expected no index "
                                 "for lse"));
    CHECK_THAT(says([](Task& task) { task.compare["s"].ties = "near"; }),
               ContainsSubstring("output \"s\": expected no ties for samples"));
    CHECK_THAT(says([](Task& task) { task.init["kv"].bound = "pages"; }),
               ContainsSubstring("input \"kv\": expected a bound for offsets and distinct only"));
    CHECK_THAT(says([](Task& task) { task.workloads[0].weight = 0.0 / 0.0; }),
               ContainsSubstring("expected a weight above 0"));
    CHECK_THAT(
        says([](Task& task) {
            task.definition.outputs.push_back(task.definition.inputs[0]);
            task.definition.outputs.back().name = "kv_out";
            task.inplace["kv_out"] = "kv";
        }),
        ContainsSubstring("input \"kv\": expected an input that no output shares, found that "
                          "of output \"kv_out\""));
    CHECK_THAT(says([](Task& task) { task.init["table"].used_by = "table"; }),
               ContainsSubstring("expected the name of another input of kind distinct"));
    CHECK_THAT(says([](Task& task) { task.init["indptr"].used_by = "table"; }),
               ContainsSubstring("expected no used_by of offsets, distinct or permutation"));
    CHECK_THAT(says([](Task& task) {
                   task.init["kv"] = {
                       .kind = InitSpec::Kind::uniform, .low = -1.7e308, .high = 1.7e308};
               }),
               ContainsSubstring("expected low and high with a finite difference"));
}

TEST_CASE("a task needs a reference in one form and at least one output", "[definition]") {
    std::string text = replaced(good_definition, "\"reference_cuda\": \"reference.cu\",", "");
    CHECK(parse(text).reference_cuda.empty());
    const std::string reference = "\"reference\": \"def run(x, index, scale):\\n    return x\\n\",";
    CHECK(parse(replaced(good_definition, reference, "")).definition.reference.empty());
    CHECK_THAT(test::error_of([&] { (void)parse(replaced(text, reference, "")); }).value_or(""),
               ContainsSubstring("definition.json:1:1: expected a member \"reference\""));
    const std::string none =
        R"({"name": "a", "axes": {}, "inputs": {}, "outputs": {}, "reference": "r"})";
    CHECK_THAT(test::error_of([&] { (void)parse(none); }).value_or(""),
               ContainsSubstring("definition.json:1:52: expected at least one output"));
}

TEST_CASE("malformed workloads are reported where they stand", "[definition]") {
    struct Case {
        const char* from;
        const char* to;
        const char* says;
    };
    const auto cases = std::to_array<Case>({
        {"\"uuid\": \"a\", ", "", "workload.jsonl:1:1: expected a member \"uuid\""},
        {"\"a\"", "\"\"", "workload.jsonl:1:10: expected a uuid, found an empty text"},
        {"\"a\"", "5", "workload.jsonl:1:10: expected a string, found 5"},
        {"\"rows\": 8", "\"rows\": -8",
         "workload.jsonl:1:32: axis \"rows\": expected a value above 0, found -8"},
        {"\"rows\": 8", "\"rows\": 8.5", "workload.jsonl:1:32: expected an integer, found 8.5"},
        {"\"rows\": 8", "\"cols\": 8",
         "workload.jsonl:1:32: expected the name of a variable axis, found \"cols\""},
        {"\"rows\": 8", "", "workload.jsonl:1:23: expected a value of axis \"rows\", found none"},
        {"\"rows\": 8", "\"rows\": 9223372036854775807",
         "workload.jsonl:1:23: tensor \"x\": expected a size in bits below 2^63, found more"},
        {"\"x\": {", "\"q\": {", "workload.jsonl:1:52: expected the name of an input, found \"q\""},
        {"\"random\"", "\"safetensors\"",
         "workload.jsonl:1:61: input \"x\" of type \"safetensors\" is not yet supported"},
        {"\"random\"", "\"custom\"", "workload.jsonl:1:61: input \"x\" of type \"custom\""},
        {"\"random\"", "\"rand\"",
         "workload.jsonl:1:61: expected one of: random, scalar, safetensors, custom, found "
         "\"rand\""},
        {"\"random\"", "\"scalar\"",
         "workload.jsonl:1:61: input \"x\": expected random, it is a tensor, found scalar"},
        {"\"value\": 0.5", "\"value\": \"0.5\"", "expected a number, found \"0.5\""},
        {"\"value\": 0.5", "\"value\": 9007199254740993",
         "expected an integer from -9007199254740992 to 9007199254740992"},
        {", \"value\": 0.5", "", "expected a member \"value\""},
        {", \"scale\": {\"type\": \"scalar\", \"value\": 0.5}", "",
         "workload.jsonl:1:46: input \"scale\": expected a scalar value, found none"},
    });
    for (const Case& entry : cases) {
        INFO(entry.from << " -> " << entry.to);
        CHECK_THAT(workload_failure(entry.from, entry.to), ContainsSubstring(entry.says));
    }
    const auto says = [](const std::string& workloads) {
        return test::error_of([&] { (void)parse(good_definition, workloads); })
            .value_or("accepted");
    };
    CHECK_THAT(says(""), ContainsSubstring("workload.jsonl:1:1: expected at least one workload"));
    CHECK_THAT(says("\n \r\n"), ContainsSubstring("expected at least one workload"));
    CHECK_THAT(
        says(good_workload + "\n\n" + good_workload + "\n"),
        ContainsSubstring("workload.jsonl:3:10: expected a uuid that no other workload has"));
    CHECK_THAT(says(good_workload + "\n{\"uuid\""),
               ContainsSubstring("workload.jsonl:2:8: expected JSON"));
    CHECK(code_of([] {
              (void)parse(good_definition, replaced(good_workload, "\"random\"", "\"custom\""));
          }) == ErrorCode::unsupported);
    std::string many;
    for (int i = 0; i < 10'001; ++i) {
        many += replaced(good_workload, "\"a\"", "\"" + std::to_string(i) + "\"") + "\n";
    }
    CHECK_THAT(says(many), ContainsSubstring("workload.jsonl:10001:1: expected at most 10000"));
}

TEST_CASE("integer scalars hold the values of their type only", "[definition]") {
    const std::string text = replaced(good_definition, "\"shape\": null, \"dtype\": \"float32\"",
                                      "\"shape\": null, \"dtype\": \"bool\"");
    const auto says = [&](const std::string& value) {
        return test::error_of([&] {
                   (void)parse(replaced(text, "\"value\": 1}", "\"value\": true}"),
                               replaced(good_workload, "0.5", value));
               })
            .value_or("accepted");
    };
    CHECK(says("false") == "accepted");
    CHECK(says("1") == "accepted");
    CHECK_THAT(says("2"), ContainsSubstring("input \"scale\": expected an integer from 0.0 to 1.0, "
                                            "found 2.0"));
    CHECK_THAT(says("0.5"), ContainsSubstring("found 0.5"));
}

TEST_CASE("a permutation must fit the type of its input", "[definition]") {
    const std::string text =
        replaced(replaced(good_definition, "\"int32\"", "\"int8\""),
                 "\"kind\": \"integers\", \"low\": 0, \"high\": 63", "\"kind\": \"permutation\"");
    (void)parse(text, replaced(good_workload, "8", "128"));
    CHECK_THAT(test::error_of([&] {
                   (void)parse(text, replaced(good_workload, "8", "129"));
               }).value_or(""),
               ContainsSubstring("workload.jsonl:1:23: input \"index\": a permutation of 129 "
                                 "values does not fit type int8"));
}

TEST_CASE("packed four-bit tensors have an even number of elements", "[definition]") {
    const std::string text =
        R"({"name": "a", "axes": {"k": {"type": "var"}}, "inputs": {},
            "outputs": {"y": {"shape": ["k"], "dtype": "float4_e2m1"}}, "reference": "r"})";
    (void)parse(text, R"({"uuid": "a", "axes": {"k": 4}})");
    CHECK_THAT(test::error_of([&] {
                   (void)parse(text, R"({"uuid": "a", "axes": {"k": 5}})");
               }).value_or(""),
               ContainsSubstring("workload.jsonl:1:23: tensor \"y\" of type float4_e2m1: expected "
                                 "an even number of elements"));
}

TEST_CASE("a task folder that cannot be read says so", "[definition]") {
    const TemporaryFolder folder;
    const std::string path = folder.path().string();
    CHECK_THAT(test::error_of([&] { (void)load_task(path + "/none"); }).value_or(""),
               ContainsSubstring("cannot open task folder " + path + "/none"));
    CHECK(code_of([&] { (void)load_task(path); }) == ErrorCode::not_found);
    write_folder(folder.path());
    CHECK_THAT(test::error_of([&] { (void)load_task(path + "/reference.cu"); }).value_or(""),
               ContainsSubstring("expected a folder, found a file"));

    std::filesystem::remove(folder.path() / "reference.cu");
    CHECK_THAT(test::error_of([&] { (void)load_task(path); }).value_or(""),
               ContainsSubstring("definition.json:22:23: cannot open"));

    const TemporaryFolder outside;
    write_file_atomically(outside.path() / "shared.cu", "// shared\n");
    std::filesystem::create_symlink(outside.path() / "shared.cu", folder.path() / "reference.cu");
    CHECK(load_task(path).reference_cuda == "// shared\n");
    std::filesystem::remove(folder.path() / "reference.cu");
    std::filesystem::create_directory(folder.path() / "reference.cu");
    CHECK_THAT(test::error_of([&] { (void)load_task(path); }).value_or(""),
               ContainsSubstring("expected a regular file"));
    std::filesystem::remove(folder.path() / "reference.cu");
    write_folder(folder.path());

    std::filesystem::remove(folder.path() / "workload.jsonl");
    CHECK(code_of([&] { (void)load_task(path); }) == ErrorCode::not_found);
}

TEST_CASE("a task built in memory is held to the same rules", "[definition]") {
    const Task good = parse(good_definition);
    check_task(good);
    const auto says = [&](const std::function<void(Task&)>& damage) {
        Task task = good;
        damage(task);
        CHECK(code_of([&] { check_task(task); }) == ErrorCode::invalid_argument);
        return test::error_of([&] { check_task(task); }).value_or("");
    };
    CHECK(says([](Task& task) { task.definition.axes[1].value = -1; }) ==
          "task \"scale_add\": axes/cols/value: axis \"cols\": expected a value above 0, found -1");
    CHECK(says([](Task& task) { task.workloads.clear(); }) ==
          "task \"scale_add\": workloads/0: expected at least one workload, found none");
    CHECK(says([](Task& task) { task.workloads[0].axes.clear(); }) ==
          "task \"scale_add\": workloads/0/axes: expected a value of axis \"rows\", found none");
    CHECK_THAT(says([](Task& task) { task.emulator_workloads[0].scalars.clear(); }),
               ContainsSubstring("kernelforge/emulator/0/inputs/scale/value: input \"scale\": "
                                 "expected a scalar value, found none"));
    CHECK_THAT(says([](Task& task) { task.definition.axes[2].expression = "pairs"; }),
               ContainsSubstring("axes/pairs/expression:1:1: axis \"pairs\": "));
    CHECK_THAT(says([](Task& task) { task.definition.axes[2].expression = "(cols"; }),
               ContainsSubstring("axes/pairs/expression:1:"));
    CHECK_THAT(says([](Task& task) { task.definition.inputs[0].scalar = true; }),
               ContainsSubstring("input \"x\": expected no axes of a scalar"));
    CHECK_THAT(says([](Task& task) { task.definition.inputs[2].dtype = DType::float4_e2m1; }),
               ContainsSubstring("input \"scale\": expected a scalar type of whole bytes"));
    CHECK_THAT(says([](Task& task) { task.init["x"].mean = 1.0 / 0.0; }),
               ContainsSubstring("kernelforge/init/x: input \"x\": expected finite numbers"));
    CHECK_THAT(says([](Task& task) { task.workloads[0].scalars["scale"] = 0.0 / 0.0; }),
               ContainsSubstring("input \"scale\": expected a finite number"));
    CHECK_THAT(says([](Task& task) { task.workloads[0].scalars["x"] = 0.0; }),
               ContainsSubstring("input \"x\": expected the name of a scalar input"));
    CHECK_THAT(says([](Task& task) { task.definition.outputs.clear(); }),
               ContainsSubstring("expected at least one output"));
    CHECK_THAT(says([](Task& task) { task.inplace["n"] = "index"; }),
               ContainsSubstring("expected an input of the same shape and type"));
    CHECK_THAT(says([](Task& task) {
                   task.definition.outputs.push_back(task.definition.outputs[0]);
                   task.definition.outputs.back().name = "y2";
                   task.inplace["y2"] = "x";
               }),
               ContainsSubstring("expected an input that no other output shares, found \"x\" of "
                                 "output \"y\""));
    CHECK_THAT(says([](Task& task) {
                   task.definition.axes.assign(300, Axis{"a", Axis::Kind::variable, 0, "", ""});
               }),
               ContainsSubstring("axes: expected at most 256 axes, found 300"));
    CHECK_THAT(says([](Task& task) { task.definition.inputs[0].shape.assign(17, "rows"); }),
               ContainsSubstring("input \"x\": expected at most 16 axes, found 17"));
    CHECK_THAT(says([](Task& task) {
                   TensorSpec spec = task.definition.inputs[0];
                   task.definition.inputs.assign(300, spec);
               }),
               ContainsSubstring("inputs: expected at most 256 tensors, found 300"));
    CHECK_THAT(says([](Task& task) { task.workloads.assign(10'001, task.workloads[0]); }),
               ContainsSubstring("expected at most 10000 workloads"));
}

TEST_CASE("the example of the task's documentation is a task", "[definition]") {
    const std::string text = read_file(test::source_folder() / "docs" / "task_format.md");
    const auto block = [&](const std::string& fence) {
        const std::size_t start = text.find(fence) + fence.size();
        return text.substr(start, text.find("```", start) - start);
    };
    const Task task = parse(block("```json\n"), block("```jsonl\n"));
    CHECK(task.workloads.size() == 2);
    REQUIRE(task.baselines.size() == 2);
    CHECK(task.baselines[1].source == "print()\n");
    CHECK(axis_values(task.definition, task.workloads[0]).at("total") == 128 * 4096);
}
