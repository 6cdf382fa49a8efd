// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <string>

#include "plan/plan.hpp"
#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::plan;
using namespace kernelforge::plan::test;

namespace {

/// A plan with one kernel that takes anything (its parameters are hidden behind a macro).
Plan loose(const std::string& lines) {
    return parse(lines +
                 "\n#define ANY ...\n__global__ void k(ANY) {}\n__global__ void j(ANY) {}\n");
}

ResolvedPlan numbers(const std::string& lines, const Environment& where = environment()) {
    return resolve(loose(lines), where);
}

std::string message(const std::string& lines, const Environment& where = environment()) {
    return kernelforge::test::error_of([&] { static_cast<void>(numbers(lines, where)); })
        .value_or("no error");
}

const ResolvedLaunch& launch_at(const ResolvedPlan& plan, std::size_t index) {
    return std::get<ResolvedLaunch>(plan.steps.at(index));
}

/// Value of the one argument of a launch, as the unsigned number that its bytes are.
std::uint64_t bits_of_argument(const std::string& argument) {
    const ResolvedPlan plan = numbers("//@launch k<<<1,1>>>(" + argument + ")");
    const ResolvedArgument& value = launch_at(plan, 0).arguments.at(0);
    std::uint64_t bits = 0;
    std::memcpy(&bits, value.value.data(), value.size);
    return bits;
}

Environment with_occupancy(int blocks) {
    Environment where = environment();
    where.occupancy = [blocks](const std::string&, int, std::int64_t) { return blocks; };
    where.clusters = [](const std::string&, int threads, std::int64_t shared_bytes, int cluster) {
        return threads + static_cast<int>(shared_bytes) + cluster;
    };
    return where;
}

}  // namespace

TEST_CASE("a launch is resolved to numbers", "[plan]") {
    const ResolvedPlan plan = numbers(
        "//@tune T = 128 256\n//@let tiles = cdiv(rows, 6)\n"
        "//@launch k<<<(min(tiles, SMS), batch), (T, 2), SMEM_MAX/2>>>(x, rows:i64, "
        "1.0/sqrt(middle*2):f32)");
    REQUIRE(plan.valid);
    const ResolvedLaunch& launch = launch_at(plan, 0);
    CHECK(launch.grid == std::array<std::int64_t, 3>{11, 8, 1});
    CHECK(launch.block == std::array<std::int64_t, 3>{128, 2, 1});
    CHECK(launch.cluster == std::array<std::int64_t, 3>{1, 1, 1});
    CHECK_FALSE(launch.has_cluster);
    CHECK(launch.shared_bytes == 116224);
    CHECK(launch.position.line == 3);
    CHECK(launch.arguments.at(0).kind == Argument::Kind::buffer);
    CHECK(launch.arguments.at(0).name == "x");
    CHECK(launch.arguments.at(1).size == 8);
    float scale = 0.0F;
    std::memcpy(&scale, launch.arguments.at(2).value.data(), 4);
    CHECK(launch.arguments.at(2).size == 4);
    CHECK(scale == 0.03125F);  // 1/32 exactly
}

TEST_CASE("bindings choose values of tunables", "[plan]") {
    Environment where = environment();
    where.bindings = {{"T", 256}};
    CHECK(launch_at(numbers("//@tune T = 128 256\n//@launch k<<<1, T>>>(x)", where), 0).block[0] ==
          256);
    CHECK(message("//@tune T = 128 512\n//@launch k<<<1, T>>>(x)", where) ==
          "c.cu:1:9: the tunable 'T' has no value 256");
    CHECK(message("//@launch k<<<1, 1>>>(x)", where) == "c.cu: the plan has no tunable 'T'");
    CHECK_THAT(message("//@tune T = 128 256 if T*8 <= cols\n//@launch k<<<1, T>>>(x)", where),
               ContainsSubstring("c.cu:1:24: the tunable 'T' is 256, for which its condition 'T*8 "
                                 "<= cols' does not hold"));
    where.bindings.clear();
    CHECK(message("//@tune T = 128 256 if T*8 <= cols\n//@launch k<<<1, T>>>(x)", where) ==
          "no error");
}

TEST_CASE("a plan that is not valid for a shape resolves to nothing", "[plan]") {
    const ResolvedPlan plan = numbers(
        "//@valid rows % 7 == 0\n//@workspace s i8 [rows - 64]\n//@launch k<<<rows - 64, 1>>>(x)");
    CHECK_FALSE(plan.valid);
    CHECK(plan.steps.empty());
    CHECK(numbers(
              "//@valid rows % 8 == 0 && align(w) >= 16 && align(w) < 32\n//@launch k<<<1, 1>>>(x)")
              .valid);
}

TEST_CASE("queries speak of tensors, workspaces and the device", "[plan]") {
    const auto extent = [](const std::string& expression,
                           const Environment& where = environment()) {
        return launch_at(numbers("//@workspace s f32 [rows, 3] align=64\n//@launch k<<<(" +
                                     expression + "), 32, 96>>>(x, s)",
                                 where),
                         0)
            .grid[0];
    };
    CHECK(extent("numel(x)") == 65536);
    CHECK(extent("stride(x, 0)") == 1024);
    CHECK(extent("stride(x, 1)") == 1);
    CHECK(extent("align(x)") == 256);
    CHECK(extent("align(w)") == 16);
    CHECK(extent("numel(s) + stride(s, 0) + align(s)") == 192 + 3 + 64);
    CHECK(extent("SMS") == 132);
    CHECK(extent("L2 / 1024") == 61440);
    CHECK(extent("OCC(k)") == 1);
    CHECK(extent("OCC(k) * SMS", with_occupancy(3)) == 396);
    CHECK_THAT(message("//@launch k<<<stride(x, 2), 1>>>(x)"),
               ContainsSubstring("c.cu:1:15: stride(x, 2): expected an axis from 0 to 1"));
    CHECK_THAT(message("//@launch k<<<stride(x, -1), 1>>>(x)"),
               ContainsSubstring("expected an axis from 0 to 1"));
    CHECK_THAT(
        message(
            "//@workspace a i8 [numel(b)]\n//@workspace b i8 [numel(a)]\n//@launch k<<<1, 1>>>(x)"),
        ContainsSubstring("depends on itself"));
    CHECK_THAT(message("//@let t = numel(a)\n//@workspace a i8 [t]\n//@launch k<<<1, 1>>>(x)"),
               ContainsSubstring("depends on itself"));
    Environment bare = environment();
    bare.tensors.clear();
    CHECK_THAT(message("//@launch k<<<numel(x), 1>>>(x)", bare),
               ContainsSubstring("'x' is no tensor of this workload"));
}

TEST_CASE("OCC and CLUSTERS see block, shared memory and cluster of the launch that runs",
          "[plan]") {
    Environment where = environment();
    where.occupancy = [](const std::string& kernel, int threads, std::int64_t shared_bytes) {
        return static_cast<int>(kernel == "k" ? threads + shared_bytes : 7);
    };
    where.clusters = with_occupancy(1).clusters;
    const ResolvedPlan plan = numbers(
        "//@case rows > 1000\n//@launch k<<<OCC(k), 1>>>(x)\n//@case else\n//@launch k<<<OCC(k), "
        "64, 100>>>(x)\n//@launch j<<<OCC(j), 1>>>(x)",
        where);
    CHECK(launch_at(plan, 0).grid[0] == 164);
    CHECK(launch_at(plan, 1).grid[0] == 7);
    CHECK(launch_at(numbers("//@launch k<<<CLUSTERS(k)*4, 32, 8, cluster=4>>>(x)", where), 0)
              .grid[0] == 176);
}

TEST_CASE("steps outside the device's limits are refused with their line", "[plan]") {
    const auto [lines, expected] = GENERATE(table<std::string, std::string>({
        {"//@launch k<<<0, 1>>>(x)", "c.cu:1:15: grid extent x is 0, expected 1 to 2147483647"},
        {"//@launch k<<<(1, rows - 64), 1>>>(x)",
         "c.cu:1:19: grid extent y is 0, expected 1 to 65535"},
        {"//@launch k<<<-5, 1>>>(x)", "grid extent x is -5"},
        {"//@launch k<<<1 << 31, 1>>>(x)", "grid extent x is 2147483648, expected 1 to 2147483647"},
        {"//@launch k<<<(1, 65536), 1>>>(x)", "grid extent y is 65536"},
        {"//@launch k<<<(1, 1, 65536), 1>>>(x)", "grid extent z is 65536"},
        {"//@launch k<<<1, 0>>>(x)", "c.cu:1:18: block extent x is 0, expected 1 to 1024"},
        {"//@launch k<<<1, 1025>>>(x)", "block extent x is 1025, expected 1 to 1024"},
        {"//@launch k<<<1, (1, 1, 65)>>>(x)", "block extent z is 65, expected 1 to 64"},
        {"//@launch k<<<1, (64, 32)>>>(x)",
         "c.cu:1:19: the block (64, 32, 1) has 2048 threads, the device allows 1024"},
        {"//@launch k<<<1, 1, 10000000000>>>(x)",
         "c.cu:1:21: the launch asks for 10000000000 bytes of dynamic shared memory, expected 0 to "
         "232448"},
        {"//@launch k<<<1, 1, SMEM_MAX + 1>>>(x)", "asks for 232449 bytes"},
        {"//@launch k<<<1, 1, -1>>>(x)", "asks for -1 bytes"},
        {"//@launch k<<<32, 1, cluster=32>>>(x)",
         "c.cu:1:30: cluster extent x is 32, expected 1 to 16"},
        {"//@launch k<<<(8, 8), 1, cluster=(8, 4)>>>(x)",
         "the cluster (8, 4, 1) has 32 blocks, expected at most 16"},
        {"//@launch k<<<9, 1, cluster=2>>>(x)",
         "c.cu:1:11: the grid (9, 1, 1) is not divisible by the cluster (2, 1, 1)"},
        {"//@launch k<<<rows / (rows - 64), 1>>>(x)", "c.cu:1:20: division by zero"},
        {"//@launch k<<<rows << 60, 1>>>(x)", "64-bit overflow"},
        {"//@let a = 1 << 62\n//@let b = a * 4\n//@launch k<<<b, 1>>>(x)",
         "c.cu:2:14: 64-bit overflow"},
        {"//@workspace s f64 [0]\n//@launch k<<<1, 1>>>(s)",
         "c.cu:1:21: the workspace 's' has the extent 0, expected at least 1"},
        {"//@workspace s f64 [1 << 62]\n//@launch k<<<1, 1>>>(s)",
         "c.cu:1:14: the size of the workspace 's' overflows 64 bits"},
        {"//@workspace s f64 [1 << 40]\n//@launch k<<<1, 1>>>(s)",
         "the workspace 's' needs 8796093022208 bytes, the device has 151397597184"},
        {"//@workspace s i8 [100 << 30]\n//@workspace t i8 [100 << 30]\n//@launch k<<<1, 1>>>(s)",
         "c.cu:2:14: the workspaces together need more than the device's"},
        {"//@memset y 256\n//@launch k<<<1, 1>>>(x)",
         "c.cu:1:13: expected a byte from 0 to 255, found 256"},
        {"//@case rows > 100\n//@launch k<<<1, 1>>>(x)",
         "c.cu:1:4: no //@case holds for batch=8, cols=1024, middle=512, rows=64"},
        {"//@launch k<<<1, 1>>>((rows << 32):i32)",
         "'(rows << 32)' is 274877906944, which does not fit i32"},
        {"//@launch k<<<1, 1>>>(-1:u32)", "is -1, which does not fit u32"},
        {"//@launch k<<<1, 1>>>(300:u8)", "does not fit u8"},
        {"//@launch k<<<1, 1>>>(1e5:f16)", "which does not fit f16"},
        {"//@launch k<<<1, 1>>>(1e39:f32)", "which does not fit f32"},
        {"//@launch k<<<1, 1>>>(1/(rows-64):f32)", "expected a finite value, found inf"},
        {"//@launch k<<<1, 1>>>(eps:i32)", "which does not fit i32"},
        {"//@requires sm_100a\n//@launch k<<<1, 1>>>(x)",
         "c.cu:1:13: the candidate requires sm_100a, the device has sm_90a"},
    }));
    CAPTURE(lines);
    CHECK_THAT(message(lines), ContainsSubstring(expected));
}

TEST_CASE("a cooperative grid has to be resident", "[plan]") {
    CHECK(message("//@launch k<<<SMS*2, 128, coop>>>(x)", with_occupancy(2)) == "no error");
    CHECK_THAT(message("//@launch k<<<SMS*2+1, 128, coop>>>(x)", with_occupancy(2)),
               ContainsSubstring("c.cu:1:11: the cooperative grid (265, 1, 1) is larger than the "
                                 "264 blocks that are resident at once (2 on each of 132"));
    CHECK_THAT(
        message("//@launch k<<<(2147483647, 65535, 65535), 128, coop>>>(x)", with_occupancy(2)),
        ContainsSubstring("is larger than the 264 blocks"));
    CHECK(message("//@launch k<<<SMS*2+1, 128>>>(x)", with_occupancy(2)) == "no error");
    CHECK(message("//@launch k<<<SMS*2+1, 128, coop>>>(x)") == "no error");  // before compilation
    CHECK(launch_at(numbers("//@launch k<<<1, 1, coop>>>(x)"), 0).cooperative);
}

TEST_CASE("clusters are checked against the kernel's own dimensions and the architecture",
          "[plan]") {
    const auto resolved = [](const std::string& launch, const std::string& arch = "sm_90a") {
        Environment where = environment();
        where.device.arch = arch;
        return resolve(parse("//@launch k<<<" + launch +
                             ">>>(y)\n__global__ void __cluster_dims__(4, 1, 1) k(float* y) {}"),
                       where);
    };
    const auto text = [&](const std::string& launch, const std::string& arch = "sm_90a") {
        return kernelforge::test::error_of([&] { static_cast<void>(resolved(launch, arch)); })
            .value_or("no error");
    };
    CHECK_THAT(text("6, 32"), ContainsSubstring("is not divisible by the cluster (4, 1, 1)"));
    CHECK_THAT(text("8, 32, cluster=2"),
               ContainsSubstring(
                   "the cluster (2, 1, 1) differs from the kernel's __cluster_dims__ (4, 1, 1)"));
    CHECK_THAT(text("8, 32", "sm_80"),
               ContainsSubstring("clusters need sm_90 or later, the device has sm_80"));
    CHECK_FALSE(launch_at(resolved("8, 32, cluster=4"), 0).has_cluster);
    const ResolvedPlan own = numbers("//@launch k<<<(8, 2), 1, cluster=(4, 2)>>>(x)");
    CHECK(launch_at(own, 0).has_cluster);
    CHECK(launch_at(own, 0).cluster == std::array<std::int64_t, 3>{4, 2, 1});
}

TEST_CASE("workspaces that start at zero are cleared in front of the steps", "[plan]") {
    const ResolvedPlan plan = numbers(
        "//@memset y 255\n//@workspace a i16 [rows, 2] init=zero\n//@workspace b f64 [3] "
        "align=1024\n//@workspace c u8 [1] init=selfzero\n//@launch k<<<1, 1>>>(a, b, c)");
    REQUIRE(plan.workspaces.size() == 3);
    CHECK(plan.workspaces[0].bytes == 256);
    CHECK(plan.workspaces[0].align == 256);
    CHECK(plan.workspaces[1].bytes == 24);
    CHECK(plan.workspaces[1].align == 1024);
    CHECK(plan.workspaces[2].init == Workspace::Init::selfzero);
    REQUIRE(plan.steps.size() == 3);
    const auto& implied = std::get<ResolvedMemset>(plan.steps[0]);
    CHECK(implied.buffer == "a");
    CHECK(implied.implied);
    const auto& written = std::get<ResolvedMemset>(plan.steps[1]);
    CHECK(written.buffer == "y");
    CHECK(written.value == 255);
    CHECK_FALSE(written.implied);
}

TEST_CASE("the first case that holds runs, behind the steps that always run", "[plan]") {
    const std::string lines =
        "//@launch k<<<1, 1>>>(x)\n//@case rows < 64\n//@launch k<<<2, 1>>>(x)\n//@case rows <= "
        "64\n//@launch k<<<3, 1>>>(x)\n//@case else\n//@launch k<<<4, 1>>>(x)";
    const ResolvedPlan plan = numbers(lines);
    REQUIRE(plan.steps.size() == 2);
    CHECK(launch_at(plan, 0).grid[0] == 1);
    CHECK(launch_at(plan, 1).grid[0] == 3);
    Environment where = environment();
    where.axes["rows"] = 65;
    CHECK(launch_at(numbers(lines, where), 1).grid[0] == 4);
}

TEST_CASE("integers are passed in their width", "[plan]") {
    CHECK(bits_of_argument("-1:i8") == 0xFF);
    CHECK(bits_of_argument("-128:i8") == 0x80);
    CHECK(bits_of_argument("255:u8") == 0xFF);
    CHECK(bits_of_argument("-2:i16") == 0xFFFE);
    CHECK(bits_of_argument("65535:u16") == 0xFFFF);
    CHECK(bits_of_argument("rows:i32") == 64);
    CHECK(bits_of_argument("4294967295:u32") == 0xFFFFFFFF);
    CHECK(bits_of_argument("-1:i64") == 0xFFFFFFFFFFFFFFFF);
    CHECK(bits_of_argument("rows:u64") == 64);
    CHECK(bits_of_argument("k*2:i32") == 14);
}

TEST_CASE("floating-point scalars are rounded to nearest, ties to even", "[plan]") {
    // Reference bits: IEEE 754 binary16, and binary32 cut to its upper half for bfloat16.
    const auto [text, expected] = GENERATE(table<std::string, std::uint64_t>({
        {"1.0:f16", 0x3C00},
        {"-2.0:f16", 0xC000},
        {"0.0:f16", 0x0000},
        {"65504:f16", 0x7BFF},
        {"65519:f16", 0x7BFF},
        {"0.1:f16", 0x2E66},
        {"5.9604644775390625e-8:f16", 0x0001},
        {"2.98023223876953125e-8:f16", 0x0000},
        {"2.9802322387695316e-8:f16", 0x0001},
        {"8.94069671630859375e-8:f16", 0x0002},
        {"6.103515625e-5:f16", 0x0400},
        {"6.1005353927612305e-5:f16", 0x0400},
        {"1.00048828125:f16", 0x3C00},
        {"1.00146484375:f16", 0x3C02},
        {"1.0:bf16", 0x3F80},
        {"-1.5:bf16", 0xBFC0},
        {"0.1:bf16", 0x3DCD},
        {"1.00390625:bf16", 0x3F80},
        {"1.01171875:bf16", 0x3F82},
        {"3.3895313892515355e38:bf16", 0x7F7F},
        {"1.0:f32", 0x3F800000},
        {"0.1:f32", 0x3DCCCCCD},
        {"eps:f32", 0x3727C5AC},
        {"1e-45:f32", 0x00000001},
        {"3.4028234663852886e38:f32", 0x7F7FFFFF},
        {"1.0:f64", 0x3FF0000000000000},
        {"-0.0:f64", 0x8000000000000000},
    }));
    CAPTURE(text);
    CHECK(bits_of_argument(text) == expected);
}

TEST_CASE("a float32 argument has the bits that the compiler's conversion gives", "[plan]") {
    for (const double value :
         {3.14159, 1e-40, 1.17549435e-38, 16777217.0, 1.0 / 3.0, 123456789.123, 7e-46}) {
        char text[64];
        std::snprintf(text, sizeof text, "%.17g:f32", value);
        const auto narrow = static_cast<float>(value);
        std::uint32_t expected = 0;
        std::memcpy(&expected, &narrow, sizeof expected);
        CAPTURE(text);
        CHECK(bits_of_argument(text) == expected);
    }
    CHECK_THAT(message("//@launch k<<<1,1>>>(65520:f16)"), ContainsSubstring("does not fit f16"));
    CHECK_THAT(message("//@launch k<<<1,1>>>(3.4e38:bf16)"),
               ContainsSubstring("does not fit bf16"));
}

TEST_CASE("a compile request carries options, defines in order and kernels", "[plan]") {
    Candidate candidate;
    candidate.source =
        "//@option -maxrregcount=64\n//@tune T = 128 256\n//@tune U = 1 2\n//@specialize "
        "rows\n//@symbol ns::g<T, rows, cols, TT> as fast\n"
        "//@launch fast<<<1, T>>>(y)\n//@case rows > 1\n//@launch k<<<1, 1>>>(y)\n//@launch "
        "g<U><<<1, 1>>>(y)\n//@launch k<<<2, 1>>>(y)\n//@case else\n//@launch in<<<2, 1>>>(y)\n"
        "namespace ns { template <int... A> __global__ void g(float* y) {} __global__ void "
        "in(float* y) {} }\n__global__ void k(float* y) {}\n";
    candidate.bindings = {{"U", 2}};
    const Plan plan = parse(candidate.source);
    const CompileRequest request =
        compile_request(plan, candidate, definition(), environment().axes, "sm_90a");
    CHECK(request.source == candidate.source);
    CHECK(request.file_name == "c.cu");
    CHECK(request.arch == "sm_90a");
    CHECK(request.options == std::vector<std::string>{"--maxrregcount=64"});
    CHECK(request.defines == std::vector<std::pair<std::string, std::int64_t>>{
                                 {"cols", 1024}, {"T", 128}, {"U", 2}, {"rows", 64}});
    CHECK(
        request.kernels ==
        std::vector<std::pair<std::string, std::string>>{
            {"fast", "ns::g<128, 64, 1024, TT>"}, {"k", "k"}, {"g<U>", "g<2>"}, {"in", "ns::in"}});
}

TEST_CASE("a compile request refuses bindings and architectures that the plan does not have",
          "[plan]") {
    Candidate candidate{"//@requires sm_90a\n//@tune T = 1 2\n//@specialize rows\n" +
                            with_copy("//@launch copy<<<1, T>>>(x, y, 1)"),
                        {}};
    const Plan plan = parse(candidate.source);
    const auto text = [&](Bindings bindings, const std::string& arch,
                          std::map<std::string, std::int64_t> axes) {
        candidate.bindings = std::move(bindings);
        return kernelforge::test::error_of([&] {
                   static_cast<void>(compile_request(plan, candidate, definition(), axes, arch));
               })
            .value_or("no error");
    };
    CHECK(text({{"T", 2}}, "sm_90a", environment().axes) == "no error");
    CHECK(text({{"T", 3}}, "sm_90a", environment().axes) ==
          "c.cu:2:9: the tunable 'T' has no value 3");
    CHECK(text({{"U", 3}}, "sm_90a", environment().axes) == "c.cu: the plan has no tunable 'U'");
    CHECK(text({}, "sm_80", environment().axes) ==
          "c.cu:1:13: the candidate requires sm_90a, compiled for sm_80");
    CHECK(text({}, "sm_90a", {}) == "c.cu: the specialised axis 'rows' has no value");
}

TEST_CASE("architectures suit by the rules of their suffix", "[plan]") {
    const auto suits = [](const std::string& required, const std::string& arch) {
        Environment where = environment();
        where.device.arch = arch;
        return message("//@requires " + required + "\n//@launch k<<<1, 1>>>(x)", where) ==
               "no error";
    };
    CHECK(suits("sm_80", "sm_90a"));
    CHECK(suits("sm_90", "sm_90"));
    CHECK_FALSE(suits("sm_90a", "sm_90"));
    CHECK_FALSE(suits("sm_90a", "sm_100a"));
    CHECK_FALSE(suits("sm_100", "sm_90a"));
    CHECK(suits("sm_100f", "sm_103a"));
    CHECK_FALSE(suits("sm_100f", "sm_120a"));
}

TEST_CASE("what was compiled is checked against the launches", "[plan]") {
    const Plan plan = loose("//@launch k<<<1, 256, 1000>>>(x, rows:i32)");
    const ResolvedPlan resolved = resolve(plan, environment());
    KernelFacts facts;
    facts.name = "k";
    facts.parameter_bytes = {8, 4};
    const auto text = [&](const KernelFacts& each, CompileStatus status = CompileStatus::ok) {
        CompileResult build;
        build.status = status;
        build.message = "line 3";
        build.kernels = {each};
        return kernelforge::test::error_of(
                   [&] { check_build(plan, resolved, build, environment().device); })
            .value_or("no error");
    };
    CHECK(text(facts) == "no error");
    CHECK(text(KernelFacts{.name = "k"}) == "no error");
    CHECK_THAT(text(facts, CompileStatus::error),
               ContainsSubstring("c.cu: the candidate was not compiled: line 3"));
    CHECK_THAT(text(KernelFacts{.name = "other"}),
               ContainsSubstring("c.cu:1:11: kernel 'k': not among the compiled kernels"));
    facts.parameter_bytes = {8};
    CHECK_THAT(text(facts),
               ContainsSubstring("the compiled kernel takes 1 parameters, the launch passes 2"));
    facts.parameter_bytes = {8, 8};
    CHECK_THAT(text(facts),
               ContainsSubstring("parameter 2 has 8 bytes, the launch passes a scalar of 4"));
    facts.parameter_bytes = {4, 4};
    CHECK_THAT(text(facts),
               ContainsSubstring("parameter 1 has 4 bytes, the launch passes the buffer 'x' of 8"));
    facts.parameter_bytes.clear();
    facts.parameter_types = {"float*"};
    CHECK_THAT(text(facts), ContainsSubstring("takes 1 parameters"));
    facts = KernelFacts{.name = "k"};
    facts.max_threads_per_block = 128;
    CHECK_THAT(text(facts),
               ContainsSubstring("the block has 256 threads, __launch_bounds__ allows 128"));
    facts.max_threads_per_block = 256;
    facts.static_shared_bytes = 231448;
    CHECK(text(facts) == "no error");
    facts.static_shared_bytes = 231449;
    CHECK_THAT(text(facts), ContainsSubstring("static (231449) and dynamic (1000) shared memory "
                                              "are 232449 bytes, the device allows 232448"));
    facts.static_shared_bytes = 0;
    facts.registers_per_thread = 255;
    CHECK(text(facts) == "no error");
}

TEST_CASE("a block whose registers do not fit a multiprocessor is refused", "[plan]") {
    const Plan plan = loose("//@launch k<<<1, 1024>>>(x)");
    CompileResult build;
    build.kernels = {KernelFacts{.name = "k"}};
    build.kernels[0].registers_per_thread = 64;
    const auto text = [&] {
        return kernelforge::test::error_of([&] {
                   check_build(plan, resolve(plan, environment()), build, environment().device);
               })
            .value_or("no error");
    };
    CHECK(text() == "no error");
    build.kernels[0].registers_per_thread = 65;
    CHECK_THAT(
        text(),
        ContainsSubstring(
            "1024 threads of 65 registers need 73728 registers, a multiprocessor has 65536"));
}
