// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include <string>

#include "plan_support.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::plan;
using namespace kernelforge::plan::test;

namespace {

const std::string launch_copy = "//@launch copy<<<rows, 256>>>(x, y, rows)";

/// What parsing these lines says, with a launch of `copy` behind them.
std::string lines_message(const std::string& lines) {
    return kernelforge::test::error_of(
               [&] { static_cast<void>(parse(with_copy(lines + "\n" + launch_copy))); })
        .value_or("no error");
}

std::string source_message(const std::string& source) {
    return kernelforge::test::error_of([&] { static_cast<void>(parse(source)); })
        .value_or("no error");
}

std::string launch_message(const std::string& launch) {
    return source_message(with_copy("//@launch " + launch));
}

Plan lines_plan(const std::string& lines) {
    return parse(with_copy(lines + "\n" + launch_copy));
}

const Launch& first_launch(const Plan& plan) {
    return std::get<Launch>(plan.steps.at(0));
}

}  // namespace

TEST_CASE("a plan with every executed directive is read", "[plan]") {
    const Plan plan = parse(
        "//@kernelforge 1\n"
        "//@requires sm_90a                //@option --use_fast_math -maxrregcount=168\n"
        "//@tune THREADS = 128 256, 512 if THREADS*4 <= cols   // a comment\n"
        "//@let tiles = cdiv(rows,128)*cdiv(cols,256)\n"
        "//@valid rows%8==0 && align(x)>=16\n"
        "//@workspace sem i32 [tiles, 4] init=zero align=128\n"
        "//@symbol gemm<THREADS, 64> as g\n"
        "//@specialize batch\n"
        "//@memset y 0\n"
        "//@case rows <= 512\n"
        "//@launch g<<<(min(tiles, SMS*OCC(g))), (THREADS), (SMEM_MAX), cluster=(8,1,1), "
        "coop>>>(x, y, sem, rows:i32, 1.0/sqrt(cols):f32, stride(x,0):i64)\n"
        "//@case else\n"
        "//@launch copy<<<dim3(rows, 2), 256>>>(x, y, rows)\n"
        "template <int T, int B> __global__ void __launch_bounds__(T) gemm(const float* x, float* "
        "y, int* sem, int m, float s, long long st) {}\n" +
        std::string(copy_kernel));
    CHECK(plan.version == 1);
    CHECK(plan.requires_arch == "sm_90a");
    CHECK(plan.options == std::vector<std::string>{"--use_fast_math", "--maxrregcount=168"});
    REQUIRE(plan.tunes.size() == 1);
    CHECK(plan.tunes[0].values == std::vector<std::int64_t>{128, 256, 512});
    REQUIRE(plan.tunes[0].condition);
    CHECK(plan.tunes[0].condition->text() == "THREADS*4 <= cols");
    REQUIRE(plan.lets.size() == 1);
    CHECK(plan.valid.has_value());
    REQUIRE(plan.workspaces.size() == 1);
    CHECK(plan.workspaces[0].element == "i32");
    CHECK(plan.workspaces[0].element_bytes == 4);
    CHECK(plan.workspaces[0].extents.size() == 2);
    CHECK(plan.workspaces[0].init == Workspace::Init::zero);
    CHECK(plan.workspaces[0].align == 128);
    REQUIRE(plan.symbols.size() == 1);
    CHECK(plan.symbols[0].expression == "gemm<THREADS, 64>");
    CHECK(plan.specialized == std::vector<std::string>{"batch"});
    CHECK(plan.steps.size() == 1);
    REQUIRE(plan.cases.size() == 2);
    CHECK(plan.cases[0].condition.has_value());
    CHECK_FALSE(plan.cases[1].condition.has_value());
    const auto& launch = std::get<Launch>(plan.cases[0].steps.at(0));
    CHECK(launch.kernel == "g");
    CHECK(launch.cooperative);
    CHECK(launch.cluster.has_value());
    REQUIRE(launch.arguments.size() == 6);
    CHECK(launch.arguments[2].name == "sem");
    CHECK(launch.arguments[3].type == "i32");
    CHECK(launch.arguments[4].kind == Argument::Kind::floating);
    CHECK(launch.arguments[5].type == "i64");
    CHECK(launch.position == SourcePosition{"c.cu", 11, 11});
}

TEST_CASE("the example of the format summary is a plan", "[plan]") {
    const std::string summary(format_summary());
    const std::size_t example = summary.rfind("//@kernelforge 1");
    REQUIRE(example != std::string::npos);
    const Plan plan = parse(summary.substr(example));
    CHECK(first_launch(plan).arguments[2].type == "f32");
}

TEST_CASE("a plan is there when the text has a launch or a version line", "[plan]") {
    CHECK(has_plan("//@launch k<<<1,1>>>()"));
    CHECK(has_plan("int a; //@kernelforge 1"));
    CHECK(has_plan("//@call matmul(D=y, A=x, B=w)"));
    CHECK(has_plan("//@requires sm_90 //@launch k<<<1,1>>>()"));
    CHECK_FALSE(has_plan("/* //@launch k<<<1,1>>>() */"));
    CHECK_FALSE(has_plan("// @launch k<<<1,1>>>()"));
    CHECK_FALSE(has_plan("//@launcher"));
    CHECK_FALSE(has_plan("const char* s = \"//@launch k\";"));
    CHECK_FALSE(has_plan(""));
}

TEST_CASE("directives in comments, strings and raw strings do not count", "[plan]") {
    const Plan plan =
        parse(with_copy("/* //@bogus\n//@tune A = 1\n*/\n"
                        "const char* a = \"//@bogus \\\" //@bogus\"; const char* b = "
                        "R\"x(\n//@bogus\n)x\"; char c = '\\'';\n"
                        "// text //@bogus is a comment\n" +
                        launch_copy));
    CHECK(plan.tunes.empty());
}

TEST_CASE("a directive continues behind a trailing backslash and keeps its positions", "[plan]") {
    for (const std::string prefix : {"", "//", "//@"}) {
        for (const std::string end : {"\\\n", "\\\r\n", "\\  \n"}) {
            const Plan plan = parse(with_copy("//@launch copy<<<rows, 256>>>( " + end + prefix +
                                              "   x, y, " + end + prefix + "  rows)"));
            REQUIRE(first_launch(plan).arguments.size() == 3);
            CHECK(first_launch(plan).arguments[2].position ==
                  SourcePosition{"c.cu", 3, 3 + prefix.size()});
        }
    }
    CHECK_THAT(launch_message("copy<<<rows, 256>>>(x, y,\\\n  // nope)"),
               ContainsSubstring("c.cu:2:6: unknown name 'nope'"));
}

TEST_CASE("lines may end in CRLF", "[plan]") {
    const Plan plan =
        parse("//@kernelforge 1\r\n//@let t = rows\r\n" + launch_copy + "\r\n" + copy_kernel);
    CHECK(plan.lets.size() == 1);
}

TEST_CASE("malformed directives are refused with line, column and what was expected", "[plan]") {
    const auto [lines, expected] = GENERATE(table<std::string, std::string>({
        {"//@", "c.cu:1:4: expected a directive, found end of line"},
        {"//@lanch k",
         "c.cu:1:4: unknown directive '//@lanch', did you mean 'launch'; known: kernelforge, "
         "requires"},
        {"//@kernelforge", "expected the format version 1, found end of line"},
        {"//@kernelforge 2", "c.cu:1:16: expected the format version 1, found '2'"},
        {"//@kernelforge 1\n//@kernelforge 1", "c.cu:2:4: //@kernelforge is given twice"},
        {"//@requires 90",
         "c.cu:1:13: expected an architecture such as sm_90 or sm_90a, found '90'"},
        {"//@requires sm_90b", "expected an architecture"},
        {"//@requires sm_", "expected an architecture"},
        {"//@requires sm_90\n//@requires sm_90", "//@requires is given twice"},
        {"//@option", "expected a compiler option, found end of line"},
        {"//@tune", "expected the name of a tunable"},
        {"//@tune T", "expected '=', found end of line"},
        {"//@tune T =", "expected the values of the tunable 'T'"},
        {"//@tune T = if rows", "expected the values of the tunable 'T'"},
        {"//@tune T = 1.5", "c.cu:1:13: expected an integer value or 'if', found '1.5'"},
        {"//@tune T = 1 1", "c.cu:1:15: the value 1 of 'T' is given twice"},
        {"//@tune T = 99999999999",
         "expected an integer value or 'if' from -2147483648 to 2147483647"},
        {"//@tune T = 1 if", "expected an integer expression, found nothing"},
        {"//@tune T = 1 if nothing", "c.cu:1:18: unknown name 'nothing'"},
        {"//@tune T = 1 if OCC(copy) > 1", "the condition of a tunable cannot depend on OCC"},
        {"//@tune T = 1\n//@tune T = 2",
         "c.cu:2:9: the tunable 'T' is defined twice, first in line 1"},
        {"//@tune rows = 1", "the tunable 'rows' has the name of an axis"},
        {"//@tune int = 1", "has a name that C++ or CUDA reserves"},
        {"//@tune __T = 1", "has a name that C++ or CUDA reserves"},
        {"//@tune x = 1", "has the name of an input or output"},
        {"//@tune min = 1", "has the name of a built-in function"},
        {"//@tune SMS = 1", "has the name of a device fact"},
        {"//@let = 3", "expected the name of a let, found '= 3'"},
        {"//@let a 3", "expected '=', found '3'"},
        {"//@let a =", "expected an integer expression, found nothing"},
        {"//@let a = b\n//@let b = 1", "c.cu:1:12: the let 'b' is used before its line 2"},
        {"//@let a = a + 1", "the let 'a' is used before its line 1"},
        {"//@let a = rwos",
         "c.cu:1:12: unknown name 'rwos', did you mean 'rows'; known: rows, cols"},
        {"//@let a = 2*x", "c.cu:1:14: 'x' is a tensor, expected an integer: numel(x)"},
        {"//@let a = eps", "'eps' is a scalar input, which only kernel arguments may use"},
        {"//@let a = numel(q)", "numel(q): no such tensor or workspace"},
        {"//@let a = OCC(q)",
         "c.cu:1:12: OCC(q): the plan launches no kernel of this name; known: copy"},
        {"//@let a = CLUSTERS(copy)", "the first launch of this kernel has no cluster="},
        {"//@valid", "expected an integer expression, found nothing"},
        {"//@valid rows\n//@valid rows", "c.cu:2:4: //@valid is given twice"},
        {"//@let a = OCC(copy)\n//@valid a", "//@valid cannot depend on OCC or CLUSTERS"},
        {"//@workspace", "expected the name of a workspace"},
        {"//@workspace s", "expected an element type"},
        {"//@workspace s i33 [1]", "c.cu:1:16: expected an element type (i8 i16 i32 i64"},
        {"//@workspace s i32", "expected the extents in brackets"},
        {"//@workspace s i32 [1", "expected the extents in brackets"},
        {"//@workspace s i32 []", "expected an integer expression, found nothing"},
        {"//@workspace s i32 [1, what]", "c.cu:1:24: unknown name 'what'"},
        {"//@workspace s i32 [1] init=none",
         "c.cu:1:24: expected init=undef, init=zero or init=selfzero, found 'init=none'"},
        {"//@workspace s i32 [1] align=100", "expected an alignment that is a power of two"},
        {"//@workspace s i32 [1] align=8192", "expected an alignment from 1 to 4096"},
        {"//@workspace s i32 [1] fill=1", "expected init= or align=, found 'fill=1'"},
        {"//@workspace y i32 [1]", "has the name of an input or output"},
        {"//@workspace s i32 [1]\n//@let s = 1", "is defined twice"},
        {"//@symbol copy", "expected a symbol as kernel<arguments> as alias"},
        {"//@symbol copy as", "expected a symbol"},
        {"//@symbol copi as c",
         "c.cu:1:11: the source defines no kernel 'copi', did you mean 'copy'; known: copy"},
        {"//@symbol copy<1> as c", "the kernel 'copy' is no template"},
        {"//@symbol copy as c\n//@symbol copy as c",
         "c.cu:2:19: the alias 'c' is defined twice, first in line 1"},
        {"//@symbol copy as c d", "expected the end of the line, found 'd'"},
        {"//@symbol co(py as c", "expected the name of a kernel"},
        {"//@specialize", "expected the name of an axis"},
        {"//@specialize row", "//@specialize names no axis: 'row', did you mean 'rows'"},
        {"//@specialize rows, rows", "the axis 'rows' is specialised twice"},
        {"//@memset", "expected an output or a workspace"},
        {"//@memset x 0", "c.cu:1:11: 'x' is an input, which cannot be written"},
        {"//@memset z 0", "unknown output or workspace 'z'"},
        {"//@memset y", "expected an integer expression, found nothing"},
        {"//@case", "expected an integer expression, found nothing"},
        {"//@case else", "//@case else needs a //@case with a condition before it"},
        {"//@case 1\n//@case else", "c.cu:1:4: the case has no steps"},
        {"//@case 1\n//@memset y 0\n//@case else\n//@memset y 0\n//@case 1",
         "c.cu:5:4: //@case else must be the last case"},
        {"//@case nothing", "unknown name 'nothing'"},
    }));
    CAPTURE(lines);
    CHECK_THAT(lines_message(lines), ContainsSubstring(expected));
}

TEST_CASE("compiler options outside the allow-list are refused", "[plan]") {
    const auto [option, expected] = GENERATE(table<std::string, std::string>({
        {"-I/etc", "the compiler option '-I/etc' is not allowed; allowed: --use_fast_math"},
        {"-DX=1", "is not allowed"},
        {"-include=/etc/passwd", "is not allowed"},
        {"--options-file=/etc/passwd", "is not allowed"},
        {"-arch=sm_80", "(the architecture is chosen by //@requires)"},
        {"-G", "is not allowed"},
        {"-O3", "is not allowed"},
        {"-maxrregcount=8", "expected a number of registers from 16 to 255, found '8'"},
        {"-maxrregcount=many", "expected a number of registers, found 'many'"},
        {"-maxrregcount", "expected a number of registers"},
        {"--fmad=maybe", "expected --fmad=true or --fmad=false, found '--fmad=maybe'"},
        {"--use_fast_math=true", "expected --use_fast_math without a value"},
        {"-std=c++14", "expected -std=c++17 or -std=c++20, found '-std=c++14'"},
        {"-Xptxas=-v,-O3", "the assembler option '-v,-O3' is not allowed"},
        {"-Xptxas=--output-file=x", "is not allowed"},
        {"-Xptxas", "is not allowed"},
        {"-use_fast_math --use_fast_math", "c.cu:1:26: the option --use_fast_math is given twice"},
        {"-Xptxas=-O1 -Xptxas -O2", "the option -Xptxas=-O is given twice"},
        {"-ftz=true\n//@option --ftz=false", "c.cu:2:11: the option --ftz is given twice"},
    }));
    CAPTURE(option);
    CHECK_THAT(lines_message("//@option " + option), ContainsSubstring(expected));
}

TEST_CASE("compiler options are passed on in one spelling", "[plan]") {
    const Plan plan = lines_plan(
        "//@option -fmad=false -ftz=true -prec-div=false --prec-sqrt=true -default-device\n"
        "//@option -std=c++20 -Xptxas -O2 -Xptxas=-dlcm=cg "
        "-Xptxas=-allow-expensive-optimizations=true -restrict --extra-device-vectorization");
    CHECK(plan.options == std::vector<std::string>{
                              "--fmad=false", "--ftz=true", "--prec-div=false", "--prec-sqrt=true",
                              "--device-as-default-execution-space", "--std=c++20", "-Xptxas=-O2",
                              "-Xptxas=-dlcm=cg", "-Xptxas=--allow-expensive-optimizations=true",
                              "--restrict", "--extra-device-vectorization"});
}

TEST_CASE("a specialised constant axis changes nothing", "[plan]") {
    CHECK(lines_plan("//@specialize cols batch").specialized == std::vector<std::string>{"batch"});
}

TEST_CASE("launches are read in the spellings that people use", "[plan]") {
    for (const std::string launch :
         {"copy<<<rows, 256>>>(x, y, rows)", "copy<<<(rows),(256)>>>(x,y,rows:i32);",
          "copy <<< dim3(rows, 1, 1), dim3(256) >>> ( x, y, rows : int )",
          "copy<<<(rows)*(1), 256, 0, stream>>>(x, y, rows)",
          "copy<<<rows, 256, (1024), 0>>>(x, y, (rows > 3 ? rows : 3):i32)",
          "copy<<<rows, 256>>>(x, y, rows > 3 ? rows : 3)", "::copy<<<rows>>3, 256>>>(x, y, k)"}) {
        CAPTURE(launch);
        CHECK(launch_message(launch) == "no error");
    }
    const Plan plan = parse(with_copy("//@launch copy<<<(rows, 2), 128, 64*4>>>(x, y, 7)"));
    CHECK(first_launch(plan).grid[1].evaluate({}) == 2);
    CHECK(first_launch(plan).grid[2].evaluate({}) == 1);
    CHECK(first_launch(plan).shared_bytes.evaluate({}) == 256);
    CHECK(first_launch(plan).arguments[2].type == "i32");
}

TEST_CASE("malformed launches are refused", "[plan]") {
    const auto [launch, expected] = GENERATE(table<std::string, std::string>({
        {"", "expected kernel<<<grid, block>>>(arguments), found end of line"},
        {"copy(x, y, rows)", "expected kernel<<<grid, block>>>(arguments)"},
        {"copy<<<rows, 256>(x, y, rows)", "expected '>>>' after the launch configuration"},
        {"copy<<<rows, 256>>>", "expected '(' and the arguments"},
        {"copy<<<rows, 256>>>(x, y, rows",
         "expected ')' after the arguments, found the end of the line"},
        {"copy<<<rows, 256>>>(x, y, rows) twice",
         "c.cu:1:43: expected the end of the line, found 'twice'"},
        {"<<<rows, 256>>>(x)", "expected the name of a kernel"},
        {"copi<<<rows, 256>>>(x, y, rows)",
         "c.cu:1:11: the source defines no kernel 'copi', did you mean 'copy'"},
        {"copy<<<rows>>>(x, y, rows)", "expected the grid and the block in <<<grid, block>>>"},
        {"copy<<<, 256>>>(x, y, rows)", "expected the grid as (x)"},
        {"copy<<<(1,2,3,4), 256>>>(x, y, rows)",
         "expected at most three extents of the grid, found 4"},
        {"copy<<<rows, nope>>>(x, y, rows)", "c.cu:1:24: unknown name 'nope'"},
        {"copy<<<rows, 256, 0, other>>>(x, y, rows)",
         "c.cu:1:32: expected cluster=(x, y, z), coop or pdl, found 'other'"},
        {"copy<<<rows, 256, coop, 0>>>(x, y, rows)",
         "expected cluster=(x, y, z), coop or pdl, found '0'"},
        {"copy<<<rows, 256, cluster>>>(x, y, rows)", "expected '='"},
        {"copy<<<rows, 256, cluster=2, cluster=2>>>(x, y, rows)", "the cluster is given twice"},
        {"copy<<<rows, OCC(copy)>>>(x, y, rows)",
         "block, shared memory and cluster cannot depend on OCC"},
        {"copy<<<rows, 256>>>(x, y)",
         "c.cu:1:31: expected 3 arguments for copy(const float* x, float* y, int n) (c.cu:2:17), "
         "found 2"},
        {"copy<<<rows, 256>>>()", "expected 3 arguments"},
        {"copy<<<rows, 256>>>(x, y, )", "expected an argument, found end of line"},
        {"copy<<<rows, 256>>>(x, y, z)", "unknown name 'z'"},
        {"copy<<<rows, 256>>>(&x, y, rows)", "a buffer is passed by its name alone, found '&x'"},
        {"copy<<<rows, 256>>>(&tA, y, rows)", "there is no //@tensormap 'tA'"},
        {"copy<<<rows, 256>>>(x:f32, y, rows)", "'x' is a buffer, which is passed without a type"},
        {"copy<<<rows, 256>>>(rows, y, rows)",
         "the scalar 'rows' is passed to parameter 1 'const float* x' (c.cu:2:22), which is a "
         "pointer"},
        {"copy<<<rows, 256>>>(x, y, y)",
         "the buffer 'y' is passed to parameter 3 'int n' (c.cu:2:74), which is no pointer"},
        {"copy<<<rows, 256>>>(w, y, rows)",
         "'w' holds bfloat16, but is passed to parameter 1 'const float* x'"},
        {"copy<<<rows, 256>>>(x, y, rows:f32)",
         "expected i32 for parameter 3 'int n' (c.cu:2:74), found f32"},
        {"copy<<<rows, 256>>>(x, y, rows:i64)", "expected i32 for parameter 3"},
        {"copy<<<rows, 256>>>(x, y, rows:i33)", "expected a type (i8 i16"},
        {"copy<<<rows, 256>>>(x, y, 1.5)", "expected an integer, found '1.5'"},
        {"copy<<<rows, 256>>>(x, y, rows+)", "expected a number, a name or '('"},
        {"copy<<<rows, 256>>>(x + 1, y, rows)", "which is a pointer; buffers: x, w, y"},
    }));
    CAPTURE(launch);
    CHECK_THAT(launch_message(launch), ContainsSubstring(expected));
}

TEST_CASE("a source without a launch is refused at its end", "[plan]") {
    CHECK_THAT(
        source_message(copy_kernel),
        ContainsSubstring("c.cu:2:1: expected at least one //@launch or //@call line, found none"));
    CHECK_THAT(source_message(with_copy("// @launch copy<<<1,1>>>()")),
               ContainsSubstring("without a blank"));
    CHECK_THAT(source_message("//@memset y 0"),
               ContainsSubstring("expected at least one //@launch or //@call line"));
}

TEST_CASE("limits of the plan are errors and take no time", "[plan]") {
    CHECK_THAT(source_message(std::string(2 << 20, ' ')),
               ContainsSubstring("expected at most 1048576"));
    std::string lines;
    for (int i = 0; i < 1001; ++i) lines += "//@let a" + std::to_string(i) + " = 1\n";
    CHECK_THAT(lines_message(lines),
               ContainsSubstring("c.cu:1001:4: expected at most 1000 directives"));
    lines.clear();
    for (int i = 0; i < 300; ++i) lines += "//@let a" + std::to_string(i) + " = 1\n";
    CHECK_THAT(lines_message(lines), ContainsSubstring("expected at most 256 lets"));
    CHECK_THAT(lines_message("//@let a = " + std::string(20000, '1')),
               ContainsSubstring("expected at most 16384"));
    std::string values = "//@tune T =";
    for (int i = 0; i < 70; ++i) values += " " + std::to_string(i);
    CHECK_THAT(lines_message(values), ContainsSubstring("expected at most 64 values"));
}

TEST_CASE("kernel signatures are read as people write them", "[plan]") {
    const auto [kernel, launch, expected] = GENERATE(table<std::string, std::string, std::string>({
        {"extern \"C\" __global__ void k(const float *x, float *y) {}", "k<<<1,1>>>(x, y)",
         "no error"},
        {"extern \"C\" {\n__global__ void k(const float *x, float *y) {}\n}", "k<<<1,1>>>(x, y)",
         "no error"},
        {"__global__ __launch_bounds__(256, 2) void k(const float* x, // the input\n  float* /* "
         "out, really */ y,\n int n = 3) {}",
         "k<<<1,1>>>(x, y, 3)", "no error"},
        {"__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) k(float* __restrict__ "
         "y) {}",
         "k<<<2,1>>>(y)", "no error"},
        {"#define BOUNDS(x) __launch_bounds__(x)\n__global__ void BOUNDS(32) k(float* y) {}",
         "k<<<1,1>>>(y)", "no error"},
        {"static __global__ void k(void) {}", "k<<<1,1>>>()", "no error"},
        {"__global__ void k() {}", "k<<<1,1>>>(x)", "expected 0 arguments for k()"},
        {"__global__ void k(unsigned long long n, std::int64_t m, size_t s) {}",
         "k<<<1,1>>>(rows, rows, rows)", "no error"},
        {"__global__ void k(const half* w) {}", "k<<<1,1>>>(w)", "'w' holds bfloat16"},
        {"__global__ void k(const __nv_bfloat16* w, const uint4* v, void* p) {}",
         "k<<<1,1>>>(w, w, w)", "no error"},
        {"using T = float;\n__global__ void k(const T* w) {}", "k<<<1,1>>>(w)",
         "'w' holds bfloat16"},
        {"typedef float real;\n__global__ void k(real eps) {}", "k<<<1,1>>>(eps)", "no error"},
        {"struct P { int a; };\n__global__ void k(P p) {}", "k<<<1,1>>>(rows)",
         "a type is needed, because parameter 1 'P p' (c.cu:3:19) does not tell it: write "
         "rows:i32"},
        {"template <typename T> __global__ void k(T* y, T a) {}", "k<float><<<1,1>>>(y, 2.0:f32)",
         "no error"},
        {"template <typename T> __global__ void k(T* y, T a) {}", "k<float><<<1,1>>>(y, 2.0)",
         "a type is needed"},
        {"template <int A, int B = (A > 3 ? 1 : 2)> __global__ void k(float* y) {}",
         "k<8><<<1,1>>>(y)", "no error"},
        {"template <int A> __global__ void k(float* y) {}", "k<<<1,1>>>(y)",
         "the kernel 'k' is a template: name an instance with //@symbol k<…> as alias"},
        {"template <int A> __global__ void k(float* y) {}\ntemplate __global__ void k<3>(float* "
         "y);",
         "k<3><<<1,1>>>(y)", "no error"},
        {"template <> __global__ void k<3>(float* y) {}\n__global__ void j(float*) {}",
         "j<<<1,1>>>(y)", "no error"},
        {"__global__ void k(float* y);\n__global__ void k(float* y) {}", "k<<<1,1>>>(y)",
         "no error"},
        {"__global__ void k(float* y);\n__global__ void k(float* y, int n) {}",
         "k<<<1,1>>>(y, rows:i32)", "no error"},
        {"namespace a { __global__ void k(float* y) {} }", "k<<<1,1>>>(y)", "no error"},
        {"namespace a { __global__ void k(float* y) {} }", "a::k<<<1,1>>>(y)", "no error"},
        {"namespace a { __global__ void k(float* y) {} } namespace b { __global__ void k(float* y) "
         "{} }",
         "k<<<1,1>>>(y)", "the kernel name 'k' is ambiguous"},
        {"#define MAKE(name) __global__ void name(float* y) {}\nMAKE(k)", "k<<<1,1>>>(y)",
         "no error"},
        {"#define PARAMS float* y, int n\n__global__ void k(PARAMS) {}", "k<<<1,1>>>(y, rows:i32)",
         "no error"},
        {"template <class... Ts> __global__ void k(Ts... values) {}", "k<float*><<<1,1>>>(y)",
         "no error"},
        {"__global__ void k(float y[], const float (*x)[4]) {}", "k<<<1,1>>>(y, x)", "no error"},
        {"__global__ void k(const std::pair<int, int> p, float* y) {}", "k<<<1,1>>>(y)",
         "expected 2 arguments"},
        {"__global__ void k(float* y, int cols) {}", "k<<<1,1>>>(y, cols)",
         "c.cu:2:29: the parameter 'cols' of kernel 'k' has the name of a macro, because 'cols' is "
         "a constant"},
        {"#undef cols\n__global__ void k(float* y, int cols) {}", "k<<<1,1>>>(y, cols)",
         "no error"},
        {"template <int cols> __global__ void k(float* y) {}", "k<3><<<1,1>>>(y)",
         "the template parameter 'cols' of kernel 'k' has the name of a macro"},
        {"// __global__ void k(float* y) {}", "k<<<1,1>>>(y)",
         "the source defines no kernel 'k'; there are none"},
        {"__global__ void k(float* y", "k<<<1,1>>>(y)", "no error"},
    }));
    CAPTURE(kernel);
    CHECK_THAT(source_message("//@launch " + launch + "\n" + kernel + "\n"),
               ContainsSubstring(expected));
}

TEST_CASE("template arguments see macros only", "[plan]") {
    const std::string kernel = "\ntemplate <int A> __global__ void k(float* y) {}\n";
    CHECK_THAT(
        source_message("//@symbol k<rows> as g\n//@launch g<<<1,1>>>(y)" + kernel),
        ContainsSubstring(
            "c.cu:1:13: 'rows' has no value when the kernel is compiled: add //@specialize rows"));
    CHECK_THAT(
        source_message("//@let t = 1\n//@symbol k<t> as g\n//@launch g<<<1,1>>>(y)" + kernel),
        ContainsSubstring("'t' has no value when the kernel is compiled"));
    CHECK(source_message("//@specialize rows\n//@symbol k<rows> as g\n//@launch g<<<1,1>>>(y)" +
                         kernel) == "no error");
    CHECK(source_message(
              "//@let t = 1\nconstexpr int t = 3;\n//@symbol k<t> as g\n//@launch g<<<1,1>>>(y)" +
              kernel) == "no error");
    CHECK_THAT(
        source_message("//@tune A = 1\n//@symbol k<A> as g\n//@launch g<<<1,1>>>(y)" + kernel),
        ContainsSubstring("the template parameter 'A' of kernel 'k' has the name of a macro, "
                          "because 'A' is a tunable"));
}

TEST_CASE("an axis and a tensor of one name are told apart by the parameter", "[plan]") {
    Definition both = definition();
    both.axes.push_back({"x", Axis::Kind::variable, 0, "", ""});
    const Plan plan = parse_plan(with_copy("//@launch copy<<<1, 1>>>(x, y, x)"), "c.cu", both);
    CHECK(first_launch(plan).arguments[0].kind == Argument::Kind::buffer);
    CHECK(first_launch(plan).arguments[2].kind == Argument::Kind::integer);
}

TEST_CASE("a scalar input takes the type of the parameter, or its own", "[plan]") {
    const Plan plan = parse(
        "//@launch k<<<1,1>>>(eps, k, eps:f64, k*2+rows)\n__global__ void k(float a, int b, double "
        "c, long long d) {}");
    CHECK(first_launch(plan).arguments[0].type == "f32");
    CHECK(first_launch(plan).arguments[1].type == "i32");
    CHECK(first_launch(plan).arguments[1].kind == Argument::Kind::floating);
    CHECK(first_launch(plan).arguments[3].type == "i64");
    const Plan unread = parse(
        "//@launch k<<<1,1>>>(eps, k)\n#define MAKE(n) __global__ void n(float a, int b) "
        "{}\nMAKE(k)");
    CHECK(first_launch(unread).arguments[0].type == "f32");
    CHECK(first_launch(unread).arguments[1].type == "i32");
}
