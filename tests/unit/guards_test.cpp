// SPDX-License-Identifier: Apache-2.0
#include "guards.hpp"

#include "support/catch.hpp"

using namespace kernelforge;

namespace {

constexpr std::size_t large = 1 << 20;

std::string refusal_of(const std::string& source, Policy policy = {}) {
    const auto refusal = guard_source(source, policy, large);
    return refusal ? refusal->rule + ": " + refusal->message : "";
}

CompileResult build_of(KernelFacts facts, std::string ptx = "") {
    facts.name = "k";
    CompileResult build;
    build.kernels = {std::move(facts)};
    build.ptx = std::move(ptx);
    return build;
}

std::string refusal_of_build(const CompileResult& build, Policy policy = {}) {
    const auto refusal = guard_build(build, policy, 64);
    return refusal ? refusal->rule + ": " + refusal->message : "";
}

}  // namespace

TEST_CASE("comments and white space do not make another candidate", "[guards]") {
    const std::string plain = normalised_source("int f(int a) { return a + 1; }");
    CHECK(normalised_source("// why\nint  f( int a )\n{\n\treturn a+1; /* here\n too */ }\n") ==
          plain);
    CHECK(normalised_source("int f(int a) { return a + 2; }") != plain);
    CHECK(normalised_source("intf(int a) { return a + 1; }") != plain);
    CHECK(normalised_source("int/**/x;") == normalised_source("int x;"));
}

TEST_CASE("plan lines make another candidate", "[guards]") {
    const std::string body = "__global__ void k() {}\n";
    CHECK(normalised_source("//@launch k<<<1, 32>>>()\n" + body) !=
          normalised_source("//@launch k<<<1, 64>>>()\n" + body));
    CHECK(normalised_source("//@launch k<<<1, 32>>>()\n" + body) !=
          normalised_source("// @launch k<<<1, 32>>>()\n" + body));
    CHECK(normalised_source("  //@launch  k<<<1,32>>>()\n" + body) ==
          normalised_source("//@launch k<<<1, 32>>>()\n\n" + body));
}

TEST_CASE("preprocessor lines keep their ends and their spaces", "[guards]") {
    CHECK(normalised_source("#define A (1)\n") != normalised_source("#define A(1)\n"));
    CHECK(normalised_source("#define A 1\nint x;") != normalised_source("#define A 1 int x;"));
    CHECK(normalised_source("#define A 1\n\n\nint x;") == normalised_source("#define A 1\nint x;"));
}

TEST_CASE("what looks like a comment within a string is none", "[guards]") {
    CHECK(normalised_source("f(\"// a\"); g();") != normalised_source("f(\"// b\"); g();"));
    CHECK(normalised_source("f(R\"x(/* \" )x\"); g(1);") !=
          normalised_source("f(R\"x(/* \" )x\"); g(2);"));
    CHECK(normalised_source("int n = 1'000; // a'b\nint m;") ==
          normalised_source("int n = 1'000;int m;"));
}

TEST_CASE("forbidden constructs are refused with their line", "[guards]") {
    CHECK(refusal_of("int x;\n\nvoid f() { cudaMalloc(0, 1); }") ==
          "forbidden_construct: line 3: `cudaMalloc` is not allowed: device code cannot call the "
          "CUDA "
          "runtime or driver");
    for (const char* source :
         {"cuLaunchKernel();", "printf(\"x\");", "int* p = new int;", "delete p;", "malloc(4);",
          "free(p);", "long long t = clock64();", "auto t = clock();", "k<<<1, 1>>>();",
          "asm(\"mov.u64 %0, %globaltimer;\" : \"=l\"(t));", "asm(\"mov.u32 %0, %clock;\");",
          "asm volatile(\"call foo;\");", "asm(\"discard.global.L2 [%0], 128;\");",
          "asm(\"brkpt;\");"}) {
        INFO(source);
        CHECK_THAT(refusal_of(source), ContainsSubstring("forbidden_construct: line 1"));
    }
}

TEST_CASE("what only resembles a forbidden construct is allowed", "[guards]") {
    for (const char* source :
         {"#include <cuda_bf16.h>\n#include <cuda/barrier>\nusing namespace cute;",
          "float new_max = 0;", "// printf(\"x\") and malloc\n",
          "struct A { A(const A&) = delete; };", "asm(\"trap;\");",
          "cudaGridDependencySynchronize();", "//@launch k<<<1, 32>>>(x)\nvoid f();",
          "CUtensorMap m;", "asm(\"ld.global.nc.L2::256B.v4.u32 {%0}, [%1];\");",
          "int clocks = 3;"}) {
        INFO(source);
        CHECK(refusal_of(source).empty());
    }
}

TEST_CASE("a candidate over the size limit is refused", "[guards]") {
    const auto refusal = guard_source("int x;", {}, 5);
    REQUIRE(refusal);
    CHECK(refusal->rule == "size");
}

TEST_CASE("matrix instructions are refused where the policy forbids them", "[guards]") {
    Policy vector_only;
    vector_only.vector_fp32_only = true;
    const std::string source = "asm(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {};\");";
    CHECK(refusal_of(source).empty());
    CHECK_THAT(refusal_of(source, vector_only), ContainsSubstring("policy: line 1: `mma`"));
    CHECK_THAT(refusal_of("nvcuda::wmma::fragment<> f;", vector_only), ContainsSubstring("policy"));
    KernelFacts facts;
    facts.opcode_counts = {{"hgmma", 2}, {"exit", 1}};
    CHECK(refusal_of_build(build_of(facts)).empty());
    CHECK_THAT(refusal_of_build(build_of(facts), vector_only),
               ContainsSubstring("kernel k: `hgmma`"));
}

TEST_CASE("spills and empty kernels are refused", "[guards]") {
    KernelFacts facts;
    facts.spill_store_bytes = 64;
    CHECK(refusal_of_build(build_of(facts)).empty());
    facts.spill_store_bytes = 65;
    CHECK_THAT(refusal_of_build(build_of(facts)), ContainsSubstring("spills: kernel k: 65 bytes"));
    KernelFacts empty;
    CHECK(refusal_of_build(build_of(empty)).empty());
    empty.opcode_counts = {{"exit", 1}, {"bra", 1}, {"nop", 8}};
    CHECK(refusal_of_build(build_of(empty)) == "empty_kernel: kernel k does nothing");
}

TEST_CASE("a macro cannot hide a forbidden call from the compiled code", "[guards]") {
    for (const char* ptx :
         {".extern .func (.param .b32 r) vprintf (.param .b64 a);",
          ".extern .func (.param .b64 r) malloc (.param .b64 a);", "mov.u64 %rd1, %globaltimer;",
          "call.uni (r), cudaLaunchDeviceV2, (a);"}) {
        INFO(ptx);
        CHECK_THAT(refusal_of_build(build_of({}, ptx)),
                   ContainsSubstring("the compiled code uses"));
    }
    CHECK(
        refusal_of_build(
            build_of({}, ".file 1 \"/x/printf/malloc.cu\"\n// %clock\nld.global.f32 %f1, [%rd1];"))
            .empty());
}

TEST_CASE("identity is plan and machine code", "[guards]") {
    CompiledCandidate a;
    a.candidate.source = "//@launch k<<<1, 32>>>()\n// a\n";
    a.builds.resize(1);
    a.builds[0].cubin = "code";
    a.build_of_workload = {0, 0};
    CompiledCandidate b = a;
    b.candidate.source = "//@launch k<<<1, 32>>>()\n// b\n";
    CHECK(build_identity(a) == build_identity(b));
    b.builds[0].cubin = "other";
    CHECK(build_identity(a) != build_identity(b));
    b = a;
    b.candidate.source = "//@launch k<<<1, 64>>>()\n";
    CHECK(build_identity(a) != build_identity(b));
    b = a;
    b.build_of_workload = {0};
    CHECK(build_identity(a) != build_identity(b));
}

TEST_CASE("damaged machine code has an identity too", "[guards]") {
    CompiledCandidate a;
    a.builds.resize(1);
    a.build_of_workload = {0};
    for (const std::string& cubin :
         {std::string(), std::string("\177ELF"), std::string("\177ELF") + std::string(60, '\xff'),
          std::string("\177ELF") + std::string(200, '\0')}) {
        a.builds[0].cubin = cubin;
        CHECK(build_identity(a).size() == 64);
    }
}

TEST_CASE("guards survive unfinished text", "[guards]") {
    for (const char* source :
         {"", "\"", "'", "/*", "//", "R\"", "R\"x(", "asm(\"", "\\", "#", "//@", "1'"}) {
        CHECK(normalised_source(source).size() <= 8);
        CHECK(refusal_of(source).empty());
    }
}

TEST_CASE("library steps are refused where the policy does not allow them", "[guards]") {
    const std::string source = "int a;\n//@call matmul(D=y, A=x, B=w)\n";
    CHECK(refusal_of(source) == "policy: line 2: this task does not allow library steps (//@call)");
    Policy policy;
    policy.library_calls = true;
    CHECK(refusal_of(source, policy).empty());
    CHECK(refusal_of("// //@call is not a directive here\n// call matmul(\n").empty());
}
