// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_source.hpp"

#include <string>

#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/compile_log.hpp"

using namespace kernelforge;
using namespace kernelforge::compile;

namespace {

ScannedSource scan(std::string_view text) {
    return scan_source(text, "candidate.cu", {"cute"});
}

/// The first refusal as "line:column: message"; empty when there is none.
std::string refusal(std::string_view text) {
    const ScannedSource scanned = scan(text);
    if (scanned.refusals.empty()) return {};
    const CompileDiagnostic& first = scanned.refusals.front();
    return std::to_string(first.position.line) + ":" + std::to_string(first.position.column) +
           ": " + first.message;
}

}  // namespace

TEST_CASE("the leading include block is taken apart and the rest keeps its lines and columns",
          "[compiler]") {
    const ScannedSource scanned = scan(
        "// first\n"
        "#include <cuda_bf16.h> // why\n"
        "/* more\n"
        "   text */\n"
        "#  include \"mma.h\"\n"
        "int a; /* x */ int b;\n"
        "#include <cuda/ptx>\n");
    REQUIRE(scanned.refusals.empty());
    REQUIRE(scanned.leading.size() == 2);
    CHECK(scanned.leading[0].name == "cuda_bf16.h");
    CHECK(scanned.leading[0].line == 2);
    CHECK(scanned.leading[1].name == "mma.h");
    CHECK(scanned.leading[1].line == 5);
    CHECK(scanned.includes == std::vector<std::string>{"cuda_bf16.h", "mma.h", "cuda/ptx"});
    CHECK(scanned.body_line == 6);
    CHECK(scanned.body == "int a;         int b;\n#include <cuda/ptx>\n");
}

TEST_CASE("macros stand between the include block and the body", "[compiler]") {
    const ScannedSource scanned = scan("#include <mma.h>\nint a;\n");
    const AssembledSource assembled =
        assemble_source(scanned, {{"N", 7}, {"LOW", -2}, {"LEAST", INT64_MIN}});
    CHECK(assembled.include_block == "#include <mma.h>\n");
    const std::string macros =
        "#define N 7\n#define LOW (-2)\n#define LEAST (-9223372036854775807LL-1)\n";
    const std::string rest = macros + "#line 2 \"candidate.cu\"\nint a;\n";
    CHECK(assembled.text.starts_with("#include <mma.h>\n"));
    CHECK(assembled.text.ends_with(rest));
    // One entry a line of the prefix: the include's own, then 0 for all that the candidate did not
    // write.
    const auto lines = std::count(assembled.text.begin(), assembled.text.end(), '\n') - 1;
    REQUIRE(assembled.prefix_lines.size() == static_cast<std::size_t>(lines));
    CHECK(assembled.prefix_lines[0] == 1);
    CHECK(std::count(assembled.prefix_lines.begin(), assembled.prefix_lines.end(), 0) == lines - 1);
}

TEST_CASE("a macro whose name is no identifier is an error", "[compiler]") {
    for (const char* name : {"", "1a", "a b", "defined", "__CUDA_ARCH__", "a$", "a\n#include"}) {
        CAPTURE(name);
        CHECK_THAT(test::error_of([&] {
                       (void)assemble_source(scan(""), {{name, 1}});
                   }).value_or(""),
                   ContainsSubstring("cannot define macro"));
    }
}

TEST_CASE("ordinary device code passes unchanged", "[compiler]") {
    const std::string text =
        "#define TILE 8\n"
        "#define MACRO(x) \\\n    do { x; } while (0)\n"
        "#if TILE > 4 && defined(__CUDA_ARCH__)\n"
        "constexpr int big = 1'000'000;\n"
        "#else\n"
        "#error \"don't\"\n"
        "#endif\n"
        "#pragma unroll 4\n"
        "#pragma nv_diag_suppress 177\n"
        "__device__ void f() { asm volatile(\"{ .reg .b32 a; }\\n\" ::: \"memory\"); char c = "
        "'\"'; }\n"
        "_Pragma(\"unroll\") \n"
        "__device__ const char* s = R\"x(one\ntwo)\" )x\";\n"
        "int percent = a %b; // caf\xc3\xa9\n";
    const ScannedSource scanned = scan(text);
    CHECK(refusal(text).empty());
    CHECK(scanned.body == text.substr(0, text.find("// caf")) + std::string(8, ' ') + "\n");
}

TEST_CASE("a comment inside a directive does not end it", "[compiler]") {
    const ScannedSource scanned = scan("#define A 1 /* one\ntwo\n\n*/ + 2\nint a = A;\n");
    CHECK(scanned.refusals.empty());
    CHECK(scanned.body == "#define A 1       \\\n   \\\n\\\n   + 2\nint a = A;\n");
}

TEST_CASE("a line splice with white space behind the backslash has one meaning", "[compiler]") {
    CHECK(scan("#define A 1 \\  \n + 2\n").body == "#define A 1 \\\n + 2\n");
    CHECK(scan("// comment \\  \n#include </etc/passwd>\nint a;\n").body ==
          std::string(14, ' ') + "\n" + std::string(22, ' ') + "\nint a;\n");
}

TEST_CASE("a backslash before a comment does not become a line splice", "[compiler]") {
    const ScannedSource first = scan("int a; /\\// comment\n#include <cuda/ptx>\n");
    REQUIRE(first.refusals.empty());
    CHECK(first.includes == std::vector<std::string>{"cuda/ptx"});
    CHECK(scan(first.body).includes == first.includes);
}

TEST_CASE("line ends of Windows and a byte order mark are understood", "[compiler]") {
    const ScannedSource scanned = scan("\xef\xbb\xbf#include <mma.h>\r\nint a;\r\n");
    CHECK(scanned.refusals.empty());
    CHECK(scanned.leading.size() == 1);
    CHECK(scanned.body == "int a;\n");
}

TEST_CASE("what could read a file is refused at its line and column", "[compiler]") {
    struct Case {
        const char* text;
        const char* expected;
    };
    const Case cases[] = {
        {"\n  #include \"/etc/passwd\"", "2:12: header </etc/passwd>"},
        {"#include </etc/passwd>", "1:10: header"},
        {"#include <../../etc/passwd>", "1:10: header"},
        {"#include <cuda/../../../etc/passwd>", "1:10: header"},
        {"#include <cuda/./x>", "1:10: header"},
        {"#include <cuda//x>", "1:10: header"},
        {"#include \"secret.txt\"", "1:10: header"},
        {"#include <stdint.h>", "use <cuda/std/cstdint>"},
        {"#include <math.h>", "leave it out"},
        {"#define F </etc/passwd>\n#include F", "2:1: #include needs a header's name"},
        {"#inc\\\nlude </etc/passwd>", "2:6: header"},
        {"#\\\ninclude </etc/passwd>", "2:9: header"},
        {"/**/ # /**/ include /**/ </etc/passwd>", "1:26: header"},
        {"int a; /*\n*/ #include </etc/passwd>", "2:13: header"},
        {"int a; /*\n*/ #line 4 \"x\"", "2:4: #line is not allowed"},
        {"%:include </etc/passwd>", "1:11: header"},
        {"?\?=include </etc/passwd>", "1:1: trigraphs"},
        {"// c ?\?/\n#include </etc/passwd>", "1:6: trigraphs"},
        {"#include <mma.h> int a;", "1:1: expected #include <header> and nothing more"},
        {"#include <mma.h", "1:1: expected #include <header>"},
        {"#include_next <mma.h>", "#include_next is not allowed"},
        {"#import <mma.h>", "#import is not allowed"},
        {"#embed \"/etc/passwd\"", "#embed is not allowed"},
        {"int a[] = {\n#embed </etc/passwd>\n};", "2:1: #embed is not allowed"},
        {"#if __has_include(</etc/passwd>)\n#endif", "1:5: __has_include is not allowed"},
        {"#if __has_embed(</etc/passwd>)\n#endif", "1:5: __has_embed is not allowed"},
        {"#line 4 \"other.cu\"", "1:1: #line is not allowed"},
        {"# 4 \"other.cu\"", "1:1: # with a line number is not allowed"},
        {"#ident \"x\"", "#ident is not allowed"},
        {"#pragma include_alias(\"a\", \"b\")", "1:9: this pragma"},
        {"#pragma GCC dependency \"/etc/passwd\"", "this pragma"},
        {"_Pragma(\"include_alias\")", "1:1: _Pragma must"},
        {"#define P(x) _Pragma(#x)", "1:14: _Pragma must"},
        {"__pragma(x)", "1:1: __pragma is not allowed"},
        {"// a\r#include </etc/passwd>", "1:5: a carriage return"},
        {"const char* a = R\"(\n#include </etc/passwd>\n)\";", "2:1: #, %: and /*"},
        {"#if 0\nR\"x(\n#endif\n#include </etc/passwd>\n)x\"\n#endif", "3:1: #, %: and /*"},
        {"#define A R\"(\n)\"", "a raw string is not allowed in a directive"},
        {"R\"(abc", "this raw string does not end"},
        {"\"abc\nint a;", "1:1: this literal does not end"},
        {"'/*\n*/ 'x'", "1:1: this literal does not end"},
        {"int a; /* never", "1:8: this comment does not end"},
        {"int \xc2\xa0 a;", "1:5: characters outside ASCII"},
        {"\xc2\xa0#include </etc/passwd>", "1:1: characters outside ASCII"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text);
        CHECK_THAT(refusal(one.text), ContainsSubstring(one.expected));
    }
    CHECK_THAT(refusal(std::string("int a;\0", 7)), ContainsSubstring("1:7: control characters"));
    CHECK_THAT(scan(std::string(max_source_bytes + 1, ' ')).refusals.at(0).message,
               ContainsSubstring("at most"));
}

TEST_CASE("directives are checked in groups that are skipped as well", "[compiler]") {
    CHECK_THAT(refusal("#if 0\n#include \"x.h\"\n#endif\n"),
               ContainsSubstring("2:10: header <x.h>"));
}

TEST_CASE("headers below an extra root are allowed when the root is configured", "[compiler]") {
    CHECK(include_allowed("cute/tensor.hpp", {"cute"}));
    CHECK_FALSE(include_allowed("cutlass/cutlass.h", {"cute"}));
    CHECK_FALSE(include_allowed("cute/../x", {"cute"}));
    CHECK_FALSE(include_allowed("cute/", {"cute"}));
    CHECK(include_allowed("cuda/std/array", {}));
    CHECK(include_allowed("cub/block/block_reduce.cuh", {}));
    CHECK_FALSE(include_allowed("thrust/sort.h", {}));
}

TEST_CASE("only options that neither touch files nor change the kind of output are allowed",
          "[compiler]") {
    for (const char* good : {"--use_fast_math", "-use_fast_math", "-maxrregcount=168", "-std=c++17",
                             "-Xptxas=-O1", "--ptxas-options=--warn-on-spills", "-fmad=false",
                             "-diag-suppress=177,550", "-Xptxas=-dlcm=ca"}) {
        CAPTURE(good);
        CHECK(option_allowed(good));
    }
    for (const char* bad : {"",
                            "-I/etc",
                            "--include-path=/etc",
                            "-include=/etc/passwd",
                            "--pre-include=x",
                            "-pch",
                            "--create-pch=x",
                            "-use-pch=x",
                            "-time=x",
                            "-fdevice-time-trace=x",
                            "-dlto",
                            "-arch=sm_80",
                            "-G",
                            "-Xptxas=-o=x",
                            "-std=c++11",
                            "-maxrregcount=a",
                            "-maxrregcount=",
                            "-DX=1",
                            "-Xptxas=--output-file",
                            "-optix-ir",
                            "use_fast_math"}) {
        CAPTURE(bad);
        CHECK_FALSE(option_allowed(bad));
    }
}

TEST_CASE("places in the prefix of a log become places in the candidate", "[compiler]") {
    const ScannedSource scanned = scan("\n\n#include <mma.h>\nint a;\n");
    const AssembledSource assembled = assemble_source(scanned, {{"N", 1}});
    CHECK(mapped_log("kernelforge_prefix.cu(1): error: x\n1 error in \"kernelforge_prefix.cu\".\n",
                     scanned,
                     assembled) == "candidate.cu(3): error: x\n1 error in \"candidate.cu\".\n");
}

TEST_CASE("a long log keeps its beginning and its end", "[compiler]") {
    const std::string log = capped_log("first\n" + std::string(1 << 20, 'x') + "\nlast\n");
    CHECK(log.size() <= max_log_bytes);
    CHECK(log.starts_with("first\n"));
    CHECK(log.ends_with("last\n"));
    CHECK_THAT(log, ContainsSubstring("bytes left out"));
}

TEST_CASE("assembler messages are mapped through the line table of the text", "[compiler]") {
    const std::string ptx =
        ".visible .entry k(\n.param .u64 p\n)\n{\n\t.loc\t1 7 3\n\tbad;\n\t.loc\t2 9 1, "
        "function_name $x, "
        "inlined_at 1 12 5\n\tworse;\n}\n\t.file\t1 \"/candidate.cu\"\n\t.file\t2 \"/inc/x.h\"\n";
    const auto found = read_diagnostics(
        "ptxas application ptx input, line 6; error   : first\n"
        "ptxas application ptx input, line 8; fatal   : second\n"
        "ptxas error   : Entry function 'k' uses too much\n"
        "ptxas fatal   : Ptx assembly aborted due to errors\n",
        "", "candidate.cu", ptx);
    REQUIRE(found.size() == 3);
    CHECK(to_string(found[0].position) == "candidate.cu:7:3");
    CHECK(found[0].message == "ptxas: first");
    CHECK(to_string(found[1].position) == "candidate.cu:12:5");
    CHECK(to_string(found[2].position) == "candidate.cu:7:3");
}
