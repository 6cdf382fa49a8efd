// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "plan/plan.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

// Tensor maps, prepare steps, library steps, pdl, and what `//@valid` says before anything runs.

using namespace kernelforge;
using namespace kernelforge::plan;

namespace {

/// Matrices for every function: M = 64, N = 256, K = 128; w, w8, unit and c are constant.
Definition definition() {
    const auto tensor = [](std::string name, std::vector<std::string> shape, DType dtype) {
        return TensorSpec{std::move(name), std::move(shape), false, dtype, ""};
    };
    Definition result;
    result.name = "steps";
    result.axes = {{"M", Axis::Kind::variable, 0, "", ""},
                   {"N", Axis::Kind::constant, 256, "", ""},
                   {"K", Axis::Kind::constant, 128, "", ""}};
    result.inputs = {tensor("a", {"M", "K"}, DType::bfloat16),
                     tensor("w", {"N", "K"}, DType::bfloat16),
                     tensor("b", {"K", "N"}, DType::bfloat16),
                     tensor("bias", {"N"}, DType::bfloat16),
                     tensor("f", {"M", "K"}, DType::float32),
                     tensor("g", {"K", "N"}, DType::float32),
                     tensor("i", {"M", "K"}, DType::int32),
                     tensor("a8", {"M", "K"}, DType::float8_e4m3fn),
                     tensor("w8", {"N", "K"}, DType::float8_e4m3fn),
                     tensor("e8", {"N", "K"}, DType::float8_e5m2),
                     tensor("unit", {}, DType::float32),
                     tensor("f4", {"M", "K"}, DType::float4_e2m1),
                     {"s", {}, true, DType::float32, ""},
                     {"c", {}, true, DType::float32, ""}};
    result.outputs = {
        tensor("y", {"M", "N"}, DType::bfloat16), tensor("z", {"M", "N"}, DType::float32),
        tensor("r", {"M"}, DType::float32),       tensor("h", {"M", "K"}, DType::bfloat16),
        tensor("fs", {"M", "K"}, DType::float32), tensor("is", {"M", "K"}, DType::int32)};
    return result;
}

Environment environment() {
    Environment result;
    result.axes = {{"M", 64}, {"N", 256}, {"K", 128}};
    result.scalars = {{"s", 0.5}, {"c", 2.0}};
    const Definition task = definition();
    for (const auto* tensors : {&task.inputs, &task.outputs}) {
        for (const TensorSpec& tensor : *tensors) {
            if (tensor.scalar) continue;
            TensorFacts facts;
            for (const std::string& axis : tensor.shape)
                facts.shape.push_back(result.axes.at(axis));
            facts.dtype = tensor.dtype;
            result.tensors[tensor.name] = facts;
        }
    }
    result.device.multiprocessors = 132;
    result.device.max_shared_bytes_per_block = 232448;
    result.device.memory_bytes = std::int64_t{141} << 30;
    return result;
}

/// `k` takes anything, `t` one tensor map.
constexpr const char* kernels =
    "\n#define ANY ...\n__global__ void k(ANY) {}\n"
    "__global__ void t(const __grid_constant__ CUtensorMap map) {}\n"
    "__global__ void copied(CUtensorMap map) {}\n"
    "__global__ void pointer(const CUtensorMap* map) {}\n"
    "__global__ void number(int n) {}\n"
    "template <class T> __global__ void typed(T map) {}\n";

Plan parse(const std::string& lines) {
    return parse_plan(lines + kernels, "c.cu", definition(), {"w", "w8", "unit", "c"});
}

ResolvedPlan numbers(const std::string& lines, const Environment& where = environment()) {
    return resolve(parse(lines), where);
}

std::string message(const std::string& lines, const Environment& where = environment()) {
    return kernelforge::test::error_of([&] { static_cast<void>(numbers(lines, where)); })
        .value_or("no error");
}

std::string map_message(const std::string& properties) {
    return message("//@tensormap m = a " + properties + "\n//@launch t<<<1,1>>>(&m)");
}

std::string call_message(const std::string& call) {
    return message("//@call " + call);
}

}  // namespace

TEST_CASE("a tensor map is resolved to numbers and passed by its name", "[plan]") {
    const ResolvedPlan plan = numbers(
        "//@tune BOX = 64\n//@launch t<<<1, 1>>>(&m)\n"
        "//@tensormap m = s8 dims=(K, M, 2) strides=(2*K, 2*K*M) box=(BOX, 8, 1) dtype=bf16 "
        "swizzle=128B l2=256B oob=nan offset=32 steps=(1, 2, 1)\n"
        "//@workspace s8 i8 [2, M, K, 2, 2]");
    REQUIRE(plan.tensor_maps.size() == 1);
    const ResolvedTensorMap& map = plan.tensor_maps[0];
    CHECK(map.name == "m");
    CHECK(map.buffer == "s8");
    CHECK(map.dtype == "bf16");
    CHECK(map.dims == std::vector<std::int64_t>{128, 64, 2});
    CHECK(map.strides == std::vector<std::int64_t>{256, 16384});
    CHECK(map.box == std::vector<std::int64_t>{64, 8, 1});
    CHECK(map.steps == std::vector<std::int64_t>{1, 2, 1});
    CHECK(map.offset == 32);
    CHECK(map.swizzle == TensorMap::Swizzle::bytes128);
    CHECK(map.l2 == TensorMap::L2Promotion::bytes256);
    CHECK(map.nan_fill);
    CHECK(map.position.line == 3);
    const ResolvedArgument& argument = std::get<ResolvedLaunch>(plan.steps.at(0)).arguments.at(0);
    CHECK(argument.kind == Argument::Kind::tensor_map);
    CHECK(argument.name == "m");
    CHECK(argument.size == 128);
}

TEST_CASE("a tensor map takes its element type from the buffer", "[plan]") {
    const auto type = [](const std::string& buffer) {
        return numbers("//@tensormap m = " + buffer +
                       " dims=(K) box=(16)\n//@workspace v i16 [K]\n//@launch t<<<1,1>>>(&m)")
            .tensor_maps[0]
            .dtype;
    };
    CHECK(type("f") == "f32");
    CHECK(type("a8") == "u8");
    CHECK(type("v") == "i16");
    CHECK(numbers("//@tensormap m = f4 dims=(K/2) box=(16) dtype=f8\n//@launch t<<<1,1>>>(&m)")
              .tensor_maps[0]
              .dtype == "u8");
    CHECK(numbers("//@tensormap m = f dims=(K) box=(16)\n//@launch t<<<1,1>>>(&m)")
              .tensor_maps[0]
              .steps == std::vector<std::int64_t>{1});
}

TEST_CASE("malformed tensor maps are refused", "[plan]") {
    const auto [line, expected] = GENERATE(table<std::string, std::string>({
        {"", "expected the name of a tensor map, found end of line"},
        {"m", "expected '=', found end of line"},
        {"a = a dims=(1) box=(1)", "has the name of an input or output"},
        {"N = a dims=(1) box=(1)", "has the name of an axis"},
        {"m = q dims=(1) box=(1)",
         "c.cu:1:18: unknown tensor or workspace 'q', did you mean 'a'; known: a, w"},
        {"m = s dims=(1) box=(1)", "unknown tensor or workspace 's'"},
        {"m = a dims=1 box=(1)", "expected dims in parentheses"},
        {"m = a dims=(1,2) box=(1,2)", "needs strides= with one value less than dims=, found 0"},
        {"m = a dims=(1,2) strides=(16) box=(1)",
         "needs box= with as many extents as dims=, found 1"},
        {"m = a box=(1)", "needs dims="},
        {"m = a dims=(1,1,1,1,1,1) box=(1)", "expected at most five dims, found 6"},
        {"m = a dims=(K,M) strides=(256) box=(8,8) steps=(1)",
         "expected steps= with as many values as dims=, found 1"},
        {"m = a dims=(1) box=(1) swizzle=4B",
         "expected a swizzle (none, 32B, 64B, 128B), found '4B'"},
        {"m = a dims=(1) box=(1) dtype=q4", "expected an element type (i8"},
        {"m = a dims=(1) box=(1) l2=1", "expected an L2 promotion (none, 64B, 128B, 256B)"},
        {"m = a dims=(1) box=(1) oob=1", "expected a fill for out-of-bounds elements (zero, nan)"},
        {"m = i dims=(K) box=(16) oob=nan", "oob=nan is for f16, bf16, f32 and f64, the map holds"},
        {"m = a dims=(1 box=(1)", "expected ')', found the end of the line"},
        {"m = a color=red",
         "expected dims, strides, box, steps, offset, dtype, swizzle, l2 or oob, found 'color'"},
        {"m = a dims=(1) dims=(1) box=(1)", "c.cu:1:29: dims= is given twice"},
        {"m = a dims=(nope) box=(1)", "c.cu:1:26: unknown name 'nope'"},
        {"m = a dims=(OCC(k)) box=(1)", "c.cu:1:26: a tensor map cannot depend on OCC"},
        {"m = f4 dims=(K) box=(16)", "a tensor map of 'f4' needs dtype="},
    }));
    CAPTURE(line);
    CHECK_THAT(message("//@tensormap " + line + "\n//@launch k<<<1,1>>>(a)"),
               ContainsSubstring(expected));
}

TEST_CASE("numbers of a tensor map keep the driver's rules and stay in the buffer", "[plan]") {
    const auto [properties, expected] = GENERATE(table<std::string, std::string>({
        {"dims=(K, M) strides=(2*K) box=(64, 64) swizzle=128B", "no error"},
        {"dims=(K, M) strides=(2*K) box=(64, 256)", "no error"},
        {"dims=(K - 128) box=(8)",
         "c.cu:1:26: tensor map 'm': dimension 0 is 0, expected from 1 to 4294967296"},
        {"dims=(K) box=(257)",
         "c.cu:1:34: tensor map 'm': box extent 0 is 257, expected from 1 "
         "to 256"},
        {"dims=(K) box=(0)", "box extent 0 is 0"},
        {"dims=(K, M) strides=(2*K + 8) box=(64, 1)",
         "c.cu:1:41: tensor map 'm': stride 0 is 264, expected a multiple of 16 from 16 to"},
        {"dims=(K, M) strides=(0) box=(64, 1)", "stride 0 is 0"},
        {"dims=(K, 1) strides=(1 << 40) box=(64, 1)", "stride 0 is 1099511627776"},
        {"dims=(K) box=(8) steps=(2)",
         "step 0 is 2, but elements of the innermost dimension are always loaded one by one"},
        {"dims=(K, M) strides=(2*K) box=(8, 8) steps=(1, 9)", "step 1 is 9, expected from 1 to 8"},
        {"dims=(K) box=(8) offset=8", "the offset is 8, expected a multiple of 16 from 0"},
        {"dims=(K) box=(8) offset=-16", "the offset is -16"},
        {"dims=(K) box=(12)",
         "c.cu:1:34: tensor map 'm': the inner box extent has 24 bytes, expected a multiple of 16"},
        {"dims=(K) box=(128) swizzle=128B",
         "the inner box extent has 256 bytes, the swizzle allows at most 128"},
        {"dims=(K) box=(32) swizzle=32B", "has 64 bytes, the swizzle allows at most 32"},
        {"dims=(K) box=(64) swizzle=64B", "has 128 bytes, the swizzle allows at most 64"},
        {"dims=(K, M + 1) strides=(2*K) box=(64, 1)",
         "c.cu:1:14: tensor map 'm': it ends 16640 bytes behind the start of 'a', which has 16384"},
        {"dims=(K, M) strides=(2*K) box=(64, 1) offset=16", "it ends 16400 bytes behind"},
        {"dims=(1 << 32, 1 << 32, 1 << 32) strides=((1 << 40) - 16, (1 << 40) - 16) box=(64, 1, 1)",
         "it ends more than 2^63 bytes behind"},
    }));
    CAPTURE(properties);
    CHECK_THAT(map_message(properties), ContainsSubstring(expected));
    Environment old = environment();
    old.device.arch = "sm_80";
    CHECK_THAT(
        message("//@tensormap m = a dims=(K) box=(8)\n//@launch t<<<1,1>>>(&m)", old),
        ContainsSubstring("c.cu:1:14: tensor maps need sm_90 or later, the device has sm_80"));
}

TEST_CASE("a tensor map is passed to a grid constant of its type", "[plan]") {
    const auto [launch, expected] = GENERATE(table<std::string, std::string>({
        {"t<<<1,1>>>(&m)", "no error"},
        {"t<<<1,1>>>(& m)", "no error"},
        {"k<<<1,1>>>(&m, a, &m)", "no error"},
        {"typed<int><<<1,1>>>(&m)", "no error"},
        {"t<<<1,1>>>(m)",
         "expected a tensor map as &name for parameter 1 'const __grid_constant__ "
         "CUtensorMap map' (c.cu:5:19), found 'm'"},
        {"t<<<1,1>>>(a)", "expected a tensor map as &name"},
        {"t<<<1,1>>>(&a)", "a buffer is passed by its name alone, found '&a'"},
        {"t<<<1,1>>>(&n)", "there is no //@tensormap 'n'"},
        {"copied<<<1,1>>>(&m)",
         "the tensor map 'm' is passed to parameter 1 'CUtensorMap map' "
         "(c.cu:6:24), expected 'const __grid_constant__ CUtensorMap'"},
        {"pointer<<<1,1>>>(&m)", "expected 'const __grid_constant__ CUtensorMap'"},
        {"number<<<1,1>>>(&m)", "expected 'const __grid_constant__ CUtensorMap'"},
    }));
    CAPTURE(launch);
    CHECK_THAT(message("//@tensormap m = a dims=(K) box=(8)\n//@launch " + launch),
               ContainsSubstring(expected));
}

TEST_CASE("the compiled parameter of a tensor map has 128 bytes", "[plan]") {
    const Plan plan = parse("//@tensormap m = a dims=(K) box=(8)\n//@launch t<<<1,1>>>(&m)");
    CompileResult build;
    build.kernels = {KernelFacts{.name = "t"}};
    build.kernels[0].parameter_bytes = {128};
    const ResolvedPlan resolved = resolve(plan, environment());
    const auto check = [&] { check_build(plan, resolved, build, environment().device); };
    CHECK_FALSE(kernelforge::test::error_of(check));
    build.kernels[0].parameter_bytes = {8};
    CHECK_THAT(kernelforge::test::error_of(check).value_or(""),
               ContainsSubstring("has 8 bytes, the launch passes the tensor map 'm' of 128"));
}

TEST_CASE("prepare steps stand apart and their workspaces are marked", "[plan]") {
    const std::string lines =
        "//@workspace packed bf16 [N, K]\n//@workspace other f32 [4]\n"
        "//@prepare memset packed 1\n"
        "//@prepare k<<<N, 128>>>(w, packed, M:i32, c:f32)\n"
        "//@prepare t<<<1, 1>>>(&m)\n//@tensormap m = third dims=(64) box=(64)\n"
        "//@workspace third f32 [64]\n"
        "//@launch number<<<1, 1>>>(1)\n";
    const ResolvedPlan plan = numbers(lines);
    REQUIRE(plan.prepare.size() == 3);
    CHECK(std::get<ResolvedMemset>(plan.prepare[0]).buffer == "packed");
    CHECK(std::get<ResolvedLaunch>(plan.prepare[1]).grid[0] == 256);
    CHECK(plan.steps.size() == 1);
    REQUIRE(plan.workspaces.size() == 3);
    CHECK(plan.workspaces[0].prepared);
    CHECK(plan.workspaces[0].element == "bf16");
    CHECK(plan.workspaces[0].shape == std::vector<std::int64_t>{256, 128});
    CHECK_FALSE(plan.workspaces[1].prepared);
    CHECK(plan.workspaces[2].prepared);
    const Candidate candidate{lines + kernels, {}};
    const CompileRequest request =
        compile_request(parse(lines), candidate, definition(), environment().axes, "sm_90a");
    CHECK(request.kernels.size() == 3);
    CompileResult build;
    build.kernels = {KernelFacts{.name = "number"}};
    CHECK_THAT(kernelforge::test::error_of([&] {
                   check_build(parse(lines), plan, build, environment().device);
               }).value_or(""),
               ContainsSubstring("c.cu:4:12: kernel 'k': not among the compiled kernels"));
}

TEST_CASE("prepare steps see constant inputs and workspaces only", "[plan]") {
    const auto [lines, expected] = GENERATE(table<std::string, std::string>({
        {"//@prepare k<<<1,1>>>(a, p)",
         "c.cu:1:23: 'a' is no constant input; //@prepare may use workspaces and constant inputs, "
         "which are: w w8 unit c"},
        {"//@prepare k<<<1,1>>>(w, y)", "c.cu:1:26: 'y' is an output"},
        {"//@prepare k<<<1,1>>>(w, p, s:f32)", "'s' is no constant input"},
        {"//@prepare k<<<1,1>>>(w, p, (c*2):f32)", "no error"},
        {"//@tensormap m = a dims=(K) box=(8)\n//@prepare k<<<1,1>>>(&m, p)",
         "'a' is no constant input"},
        {"//@tensormap m = w dims=(K) box=(8)\n//@prepare k<<<1,1>>>(&m, p)", "no error"},
        {"//@prepare memset y 0", "c.cu:1:19: 'y' is an output, which //@prepare cannot write"},
        {"//@prepare memset w 0", "'w' is an input, which cannot be written"},
        {"//@prepare memset p 256", "expected a byte from 0 to 255, found 256"},
        {"//@prepare memset", "expected an output or a workspace"},
        {"//@prepare", "expected kernel<<<grid, block>>>(arguments)"},
        {"//@prepare number<<<1,1>>>(1, 2)", "expected 1 arguments for number(int n)"},
        {"//@prepare memset p 0\n//@memset p 1",
         "c.cu:2:11: the workspace 'p' is prepared by //@prepare, so no step of a call may write"},
        {"//@prepare memset p 0\n//@call reduce(D=p, A=f, op=sum, outer=M, n=K)",
         "c.cu:2:16: the workspace 'p' is prepared"},
        {"//@prepare memset zeroed 0",
         "the workspace 'zeroed' is prepared by //@prepare, expected init=undef"},
        {"//@prepare k<<<1,1,pdl>>>(p)",
         "pdl overlaps the launch directly above it, and this is "
         "the first step that runs"},
    }));
    CAPTURE(lines);
    CHECK_THAT(message(lines + "\n//@workspace p f32 [M]\n//@workspace zeroed f32 [4] init=zero\n"
                               "//@launch k<<<1,1>>>(a)"),
               ContainsSubstring(expected));
}

TEST_CASE("preparing alone is no plan, and a task without constant inputs says so", "[plan]") {
    CHECK_THAT(message("//@workspace p f32 [4]\n//@prepare k<<<1,1>>>(p)"),
               ContainsSubstring("expected at least one //@launch or //@call line"));
    const auto error = kernelforge::test::error_of([] {
        static_cast<void>(parse_plan(std::string("//@prepare k<<<1,1>>>(w)\n//@launch "
                                                 "k<<<1,1>>>(a)") +
                                         kernels,
                                     "c.cu", definition()));
    });
    CHECK_THAT(error.value_or(""), ContainsSubstring("which are none in this task"));
}

TEST_CASE("pdl needs a launch directly above it in what runs", "[plan]") {
    const auto [lines, expected] = GENERATE(table<std::string, std::string>({
        {"//@launch k<<<1,1>>>(a)\n//@launch k<<<1,1,pdl>>>(a)", "no error"},
        {"//@launch k<<<1,1>>>(a)\n//@case M > 1\n//@launch k<<<2,1,0,pdl,cluster=2>>>(a)",
         "no error"},
        {"//@launch k<<<1,1,pdl>>>(a)",
         "c.cu:1:11: pdl overlaps the launch directly above it, and this is the first step"},
        {"//@case M > 100\n//@launch k<<<1,1>>>(a)\n//@case else\n//@launch k<<<1,1,pdl>>>(a)",
         "c.cu:4:11: pdl overlaps"},
        {"//@launch k<<<1,1>>>(a)\n//@memset y 0\n//@launch k<<<1,1,pdl>>>(a)",
         "c.cu:3:11: pdl overlaps the launch directly above it, where a memset runs"},
        {"//@workspace p i8 [1] init=zero\n//@launch k<<<1,1,pdl>>>(p)",
         "where the memset of an init=zero workspace runs"},
        {"//@call reduce(D=r, A=f, op=sum, outer=M, n=K)\n//@launch k<<<1,1,pdl>>>(r)",
         "where a library step runs"},
    }));
    CAPTURE(lines);
    CHECK_THAT(message(lines), ContainsSubstring(expected));
    CHECK(std::get<ResolvedLaunch>(
              numbers("//@launch k<<<1,1>>>(a)\n//@launch k<<<1,1,pdl>>>(a)").steps.at(1))
              .pdl);
}

TEST_CASE("clusters may have up to sixteen blocks", "[plan]") {
    CHECK(message("//@launch k<<<32, 1, cluster=16>>>(a)") == "no error");
    CHECK_THAT(message("//@launch k<<<34, 1, cluster=17>>>(a)"),
               ContainsSubstring("cluster extent x is 17, expected 1 to 16"));
}

TEST_CASE("a library step is resolved with types and shapes", "[plan]") {
    const ResolvedPlan plan = numbers(
        "//@workspace q i8 [M, K]\n"
        "//@call matmul(D=y, A=q:e4m3, B=w8^T, bias=bias, epilogue=gelu, alpha=1/sqrt(K), "
        "A_scale=unit, batch=M/64)");
    REQUIRE(plan.steps.size() == 1);
    const auto& call = std::get<ResolvedCall>(plan.steps[0]);
    CHECK(call.function == "matmul");
    CHECK(call.position.line == 2);
    REQUIRE(call.find("B") != nullptr);
    CHECK(call.find("B")->transposed);
    CHECK(call.find("B")->dtype == "e4m3");
    CHECK(call.find("B")->shape == std::vector<std::int64_t>{256, 128});
    CHECK(call.find("A")->dtype == "e4m3");
    CHECK_FALSE(call.find("A")->transposed);
    CHECK(call.find("D")->dtype == "bf16");
    CHECK(call.find("epilogue")->name == "gelu");
    CHECK(call.find("alpha")->floating == Approx(0.08838834764831845));
    CHECK(call.find("batch")->integer == 1);
    CHECK(call.find("A_scale")->shape.empty());
    CHECK(call.find("beta") == nullptr);
    CHECK(has_calls(parse("//@case M > 3\n//@call sort(D=fs, A=f, n=K)")));
    CHECK_FALSE(has_calls(parse("//@launch k<<<1,1>>>(a)")));
}

TEST_CASE("a plan of library steps alone has no kernels to compile", "[plan]") {
    const std::string line = "//@call matmul(D=y, A=a, B=w^T)";
    const Plan plan = parse_plan(line, "c.cu", definition());
    const CompileRequest request =
        compile_request(plan, {line, {}}, definition(), environment().axes, "sm_90a");
    CHECK(request.kernels.empty());
    CHECK_FALSE(kernelforge::test::error_of([&] {
        check_build(plan, resolve(plan, environment()), CompileResult(), environment().device);
    }));
}

TEST_CASE("malformed library steps are refused", "[plan]") {
    const auto [call, expected] = GENERATE(table<std::string, std::string>({
        {"", "expected a library function, found end of line"},
        {"matmull(D=y, A=a, B=b)",
         "c.cu:1:9: unknown library function 'matmull', did you mean "
         "'matmul'; known: matmul, sdpa, reduce, sort"},
        {"matmul", "expected the arguments in parentheses"},
        {"matmul(D=y, A=a, B=b) x", "expected the arguments in parentheses"},
        {"matmul()", "expected an argument as key=value"},
        {"matmul(D)", "expected '=', found end of line"},
        {"matmul(D=)", "expected a value for D="},
        {"matmul(D=a+b)", "'a' is an input, which cannot be written"},
        {"matmul(D=y, A=a+b)", "expected the end of the line, found '+b'"},
        {"matmul(D=y, A=a)", "c.cu:1:9: matmul needs B="},
        {"matmul(D=y, A=a, B=b, B=b)", "c.cu:1:31: B= is given twice"},
        {"matmul(D=y, A=a, B=b, E=b)",
         "matmul has no argument 'E', did you mean 'D'; known: D, A, B, C, bias"},
        {"matmul(D=y, A=q, B=b)", "c.cu:1:23: unknown buffer 'q', did you mean 'a'; known: a, w"},
        {"matmul(D=y, A=s, B=b)", "'s' is a scalar input, expected a buffer"},
        {"matmul(D=y^T, A=a, B=b)", "D= cannot be transposed"},
        {"matmul(D=y, A=a^X, B=b)", "expected '^T'"},
        {"matmul(D=y, A=a:f32, B=b)", "expected e4m3 or e5m2, found 'f32'"},
        {"matmul(D=y, A=a:e4m3, B=b)", "'a' has elements of 16 bits, expected 8 for e4m3"},
        {"matmul(D=y, A=a, B=b, epilogue=silu)", "expected one of none, relu, gelu, found 'silu'"},
        {"matmul(D=y, A=a, B=b, batch=nope)", "unknown name 'nope'"},
        {"matmul(D=y, A=a, B=b, batch=OCC(k))", "a library step cannot depend on OCC or CLUSTERS"},
        {"matmul(D=y, A=a, B=b, alpha=1/0)", "expected a finite value, found inf"},
        {"matmul(D=y, A=y, B=b)", "'y' is A= and also written as D="},
        {"sort(D=is, A=i, values=i, values_out=is, n=K)", "'is' is values_out= and also written"},
    }));
    CAPTURE(call);
    CHECK_THAT(call_message(call), ContainsSubstring(expected));
}

TEST_CASE("matmul checks shapes and types", "[plan]") {
    const auto [arguments, expected] = GENERATE(table<std::string, std::string>({
        {"D=y, A=a, B=b", "no error"},
        {"D=y, A=a, B=w^T", "no error"},
        {"D=z, A=a, B=w^T", "no error"},
        {"D=z, A=f, B=g, compute=tf32", "no error"},
        {"D=y, A=a, B=b, C=y, beta=0.5, bias=bias", "no error"},
        {"D=z, A=a8, B=w8^T, A_scale=unit, B_scale=unit", "no error"},
        {"D=y, A=a8, B=e8^T", "no error"},
        {"D=y, A=a, B=w",
         "c.cu:1:26: matmul: B=w is 256 x 128 and A is 64 x 128, expected 128 rows of B"},
        {"D=h, A=a, B=b", "c.cu:1:16: matmul: D=h is 64 x 128, expected 64 x 256"},
        {"D=y, A=a, B=b, batch=3", "A=a has 64 rows, which batch=3 does not divide"},
        {"D=y, A=a, B=b, batch=0", "batch is 0, expected 1 to"},
        {"D=y, A=a, B=b, batch=2",
         "matmul: B=b is 64 x 256 and A is 32 x 128, expected 128 rows of B"},
        {"D=y, A=a, B=g", "B=g holds f32, expected bf16"},
        {"D=y, A=f, B=g", "D=y holds bf16, expected f32"},
        {"D=y, A=i, B=b", "A=i holds i32, expected f64 or f32 or f16 or bf16 or e4m3 or e5m2"},
        {"D=y, A=a, B=b, compute=tf32", "compute is tf32, which is for A and B of f32, found bf16"},
        {"D=y, A=a, B=b, C=a", "C=a is 64 x 128, expected 64 x 256 as D"},
        {"D=y, A=a, B=b, C=z", "C=z holds f32, expected bf16"},
        {"D=y, A=a, B=b, beta=1", "beta is given without C"},
        {"D=y, A=a, B=b, bias=a", "bias=a has 8192 elements, expected 256 (one for each column"},
        {"D=y, A=a, B=b, A_scale=unit", "A_scale=unit is for A and B of 8-bit floats, found bf16"},
        {"D=y, A=a8, B=w8^T, A_scale=bias", "A_scale=bias holds bf16, expected f32"},
        {"D=y, A=a8, B=w8^T, A_scale=f", "A_scale=f has 8192 elements, expected 1"},
        {"D=is, A=a8, B=w8^T", "D=is is 64 x 128, expected 64 x 256"},
        {"D=y, A=a8, B=w^T", "B=w holds bf16, expected e4m3 or e5m2"},
        {"D=v, A=e8, B=e8^T", "B=e8 holds e5m2 as A does, expected e4m3 for one of them"},
        {"D=t8, A=a8^T, B=a8", "A=a8 is transposed, which 8-bit floats cannot be"},
        {"D=v, A=e8, B=k8:e4m3", "B=k8 is not transposed, expected B=k8^T for 8-bit floats"},
    }));
    CAPTURE(arguments);
    // Shapes that the definition does not have.
    const std::string spaces =
        "\n//@workspace v bf16 [N, N]\n//@workspace t8 bf16 [K, K]\n//@workspace k8 u8 [K, N]";
    CHECK_THAT(message("//@call matmul(" + arguments + ")" + spaces), ContainsSubstring(expected));
}

TEST_CASE("8-bit matmul wants multiples of sixteen", "[plan]") {
    CHECK_THAT(message("//@workspace p u8 [8, K]\n//@workspace d bf16 [M, 8]\n"
                       "//@call matmul(D=d, A=a8, B=p:e4m3^T)"),
               ContainsSubstring("B=p is 128 x 8 after transposition, expected multiples of 16"));
}

TEST_CASE("sdpa checks shapes, types and strides", "[plan]") {
    // [batch 2, len 32, heads 2, dim 64] each, and packed [2, 32, 3, 128].
    const std::string spaces =
        "\n//@workspace q bf16 [2, 32, 2, 64]\n//@workspace o bf16 [2, 32, 2, 64]\n"
        "//@workspace packed bf16 [2, 32, 3, 128]\n//@workspace l f32 [2, 2, 32]\n"
        "//@workspace kv bf16 [2, 32, 1, 64]\n";
    const std::string size = ", batch=2, heads=2, q_len=32, kv_len=32, scale=0.125";
    const auto [arguments, expected] = GENERATE(table<std::string, std::string>({
        {"O=o, Q=q, K=q, V=q, dim=64", "no error"},
        {"O=o, Q=q, K=kv, V=kv, dim=64, kv_heads=1, causal=1, lse=l", "no error"},
        {"O=o, Q=packed, K=packed, V=packed, dim=64, q_stride=384, k_stride=384, v_stride=384, "
         "k_offset=128, v_offset=256",
         "no error"},
        {"O=o, Q=packed, K=packed, V=packed, dim=64, v_stride=384, v_offset=264",
         "V=packed has 24576 elements, 64 rows of 128 with offset 264 and stride 384 need 24584"},
        {"O=o, Q=q, K=q, V=q, dim=128", "Q=q has 8192 elements, 64 rows of 256"},
        {"O=o, Q=q, K=q, V=q, dim=60", "dim is 60, expected a multiple of 8"},
        {"O=o, Q=q, K=q, V=q, dim=264", "dim is 264, expected 8 to 256"},
        {"O=o, Q=q, K=q, V=q, dim=64, q_stride=64", "q_stride is 64, expected 128 to"},
        {"O=o, Q=q, K=q, V=q, dim=32, q_stride=100", "q_stride is 100, expected a multiple of 8"},
        {"O=o, Q=q, K=q, V=q, dim=32, o_offset=4", "o_offset is 4, expected a multiple of 8"},
        {"O=o, Q=q, K=q, V=q, dim=64, causal=2", "causal is 2, expected 0 to 1"},
        {"O=o, Q=q, K=q, V=q, dim=64, kv_heads=3", "kv_heads is 3, expected 1 to 2"},
        {"O=o, Q=q, K=f, V=q, dim=64", "K=f holds f32, expected bf16"},
        {"O=o, Q=f, K=q, V=q, dim=64", "Q=f holds f32, expected bf16 or f16"},
        {"O=o, Q=q, K=q, V=q, dim=64, lse=o2", "lse=o2 holds bf16, expected f32"},
        {"O=o, Q=q, K=q, V=q, dim=64, lse=l2", "lse=l2 has 4 elements, expected 128 (batch"},
        {"O=o, Q=q, K=q, V=q", "sdpa needs dim="},
    }));
    CAPTURE(arguments);
    CHECK_THAT(message("//@call sdpa(" + arguments + size + ")" + spaces +
                       "//@workspace o2 bf16 [128]\n//@workspace l2 f32 [4]"),
               ContainsSubstring(expected));
    CHECK_THAT(
        message("//@call sdpa(O=o, Q=q, K=q, V=q, dim=64, batch=2, heads=2, q_len=16, "
                "kv_len=32, scale=1, causal=1)" +
                spaces),
        ContainsSubstring("causal is 1 with q_len=16 and kv_len=32, expected equal lengths"));
    CHECK_THAT(message("//@call sdpa(O=o, Q=q, K=q, V=q, dim=32, batch=2, heads=3, kv_heads=2, "
                       "q_len=32, kv_len=32, scale=1)" +
                       spaces),
               ContainsSubstring("kv_heads is 2, which does not divide heads=3"));
}

TEST_CASE("reduce and sort check shapes and types", "[plan]") {
    const auto [call, expected] = GENERATE(table<std::string, std::string>({
        {"reduce(D=r, A=f, op=mean, outer=M, n=K)", "no error"},
        {"reduce(D=r, A=a, op=max, outer=M, n=K)", "no error"},
        {"reduce(D=sums, A=f, op=sum, outer=1, n=M, inner=K)", "no error"},
        {"reduce(D=r, A=f, op=sum, outer=M, n=M)", "A=f has 8192 elements, expected 4096 (outer"},
        {"reduce(D=fs, A=f, op=sum, outer=M, n=K)", "D=fs has 8192 elements, expected 64"},
        {"reduce(D=r, A=f, op=sum, outer=M, n=0)", "n is 0, expected 1 to"},
        {"reduce(D=r, A=f, op=prod, outer=M, n=K)", "expected one of sum, max, min, mean"},
        {"reduce(D=r, A=i, op=sum, outer=M, n=K)", "D=r holds f32, expected i32 or i64"},
        {"reduce(D=r, A=i, op=mean, outer=M, n=K)",
         "op is mean, which is for floating-point types, found i32"},
        {"reduce(D=r, A=a8, op=sum, outer=M, n=K)", "A=a8 holds e4m3, expected f32 or f64"},
        {"reduce(D=r, A=f, op=sum, outer=1 << 62, n=1 << 62)", "expected 9223372036854775807"},
        {"sort(D=fs, A=f, n=K)", "no error"},
        {"sort(D=fs, A=f, n=K, descending=1, values=i, values_out=is)", "no error"},
        {"sort(D=fs, A=f, n=100)", "A=f has 8192 elements, which n=100 does not divide"},
        {"sort(D=r, A=f, n=K)", "D=r has 64 elements, expected 8192 (as A)"},
        {"sort(D=is, A=f, n=K)", "D=is holds i32, expected f32"},
        {"sort(D=fs, A=f, n=K, values=i)", "values=i is given without values_out"},
        {"sort(D=fs, A=f, n=K, values_out=is)", "values_out=is is given without values"},
        {"sort(D=fs, A=f, n=K, values=a, values_out=is)", "values=a holds bf16, expected i32"},
        {"sort(D=fs, A=f, n=K, values=i, values_out=z)", "values_out=z holds f32, expected i32"},
        {"sort(D=fs, A=f, n=K, descending=2)", "descending is 2, expected 0 to 1"},
    }));
    CAPTURE(call);
    CHECK_THAT(message("//@call " + call + "\n//@workspace sums f32 [K]"),
               ContainsSubstring(expected));
}

TEST_CASE("validity can be asked for without a build", "[plan]") {
    const Plan plan = parse(
        "//@let a16 = align(a)\n//@valid M % 8 == 0 && a16 >= 16\n"
        "//@launch k<<<M / (M - 64), 1>>>(a)");
    CHECK(is_valid_for(plan, environment()));
    Environment where = environment();
    where.axes["M"] = 63;
    CHECK_FALSE(is_valid_for(plan, where));
    where = environment();
    where.tensors["a"].address = 0x1008;
    CHECK_FALSE(is_valid_for(plan, where));
    CHECK(is_valid_for(parse("//@launch k<<<1, 1>>>(a)"), where));
    CHECK_THAT(kernelforge::test::error_of([&] {
                   static_cast<void>(is_valid_for(
                       parse("//@valid 1 / (M - 64)\n//@launch k<<<1, 1>>>(a)"), where));
               }).value_or(""),
               ContainsSubstring("c.cu:1:12: division by zero"));
}

TEST_CASE("the alignment that a plan demands is the least for which it is valid", "[plan]") {
    const auto demanded = [](const std::string& lines, const std::string& tensor) {
        return demanded_alignment(parse(lines + "\n//@launch k<<<1, 1>>>(a)"), environment(),
                                  tensor);
    };
    CHECK(demanded("//@valid align(a) >= 16 && align(w) % 4 == 0", "a") == 16);
    CHECK(demanded("//@valid align(a) >= 16 && align(w) % 4 == 0", "w") == 4);
    CHECK_FALSE(demanded("//@valid align(a) >= 16", "w"));
    CHECK_FALSE(demanded("", "a"));
    CHECK(demanded("//@let d = align(a) / 2\n//@let e = d + M\n//@valid e >= 64 + 32", "a") == 64);
    CHECK(demanded("//@valid align(a) >= 512", "a") == 256);
    CHECK(demanded("//@valid align(a) >= 1", "a") == 1);
}

TEST_CASE("a call line is found in any text", "[plan]") {
    CHECK(first_call("int a;\n//@call matmul(").value().line == 2);
    CHECK_FALSE(first_call("//@launch k<<<1,1>>>(a) // call\n// @call x\nint call;"));
}

TEST_CASE("the summaries speak of every directive", "[plan]") {
    for (const std::string word : {"//@tensormap", "//@prepare", "pdl", "cluster", "CUtensorMap"}) {
        CAPTURE(word);
        CHECK(format_summary().find(word) != std::string_view::npos);
    }
    CHECK(format_summary().find("//@call") == std::string_view::npos);
    for (const std::string word : {"matmul(", "sdpa(", "reduce(", "sort("})
        CHECK(call_summary().find("//@call " + word) != std::string_view::npos);
}
