// SPDX-License-Identifier: Apache-2.0
#include "evaluator_cuda/sanitizer_log.hpp"

#include "support/catch.hpp"

using namespace kernelforge;
using namespace kernelforge::cuda;

namespace {

// After the samples of NVIDIA's Compute Sanitizer documentation.

constexpr const char* memcheck_log =
    "========= COMPUTE-SANITIZER\n"
    "========= Invalid __global__ write of size 4 bytes\n"
    "=========     at void ns::scale<(int)64>(const float *, float *)+0x70 in /x/candidate.cu:12\n"
    "=========     by thread (3,0,0) in block (7,0,0)\n"
    "=========     Address 0x7f6510c00001 is misaligned\n"
    "=========     and is inside the nearest allocation at 0x7f6510c00000 of size 4 bytes\n"
    "=========     Saved host backtrace up to driver entry point at kernel launch time\n"
    "=========         Host Frame: other [0x2dbb] in libcuda.so.1\n"
    "========= \n"
    "========= Program hit unspecified launch failure (error 719) on CUDA API call to cuX.\n"
    "=========     Saved host backtrace up to driver entry point at error\n"
    "========= \n"
    "========= ERROR SUMMARY: 2 errors\n";

constexpr const char* racecheck_log =
    "========= COMPUTE-SANITIZER\n"
    "========= Warning: Race reported between Read access at scale(int *)+0x30 in candidate.cu:8\n"
    "=========     and Write access at scale(int *)+0x40 in candidate.cu:9 [4 hazards]\n"
    "========= \n"
    "========= Error: Race reported between Write access at scale(int *)+0x70 in candidate.cu:14\n"
    "=========     and Read access at scale(int *)+0xb0 in candidate.cu:17 [511 hazards]\n"
    "========= \n"
    "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n";

constexpr const char* initcheck_log =
    "========= COMPUTE-SANITIZER\n"
    "========= Uninitialized __global__ memory read of size 4 bytes\n"
    "=========     at kf_compare_tiles+0x90\n"
    "=========     by thread (0,0,0) in block (0,0,0)\n"
    "=========     Address 0x7f0000000000\n"
    "========= \n"
    "========= Uninitialized __shared__ memory read of size 4 bytes\n"
    "=========     at scale(int *)+0x90\n"
    "========= \n"
    "========= ERROR SUMMARY: 2 errors\n";

constexpr const char* clean_log =
    "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";

}  // namespace

TEST_CASE("a memcheck record gives what, kernel, line and thread, without addresses",
          "[sanitizer]") {
    const SanitizerLog log = parse_sanitizer_log(memcheck_log);
    CHECK(log.started);
    CHECK(log.ended);
    REQUIRE(log.records.size() == 2);
    CHECK(log.records[0].functions == std::vector<std::string>{"scale"});
    CHECK(log.records[1].functions.empty());
    CHECK(describe(log.records[0]) ==
          "Invalid __global__ write of size 4 bytes in scale at candidate.cu:12 by thread (3,0,0) "
          "in block (7,0,0): is misaligned");
    const SanitizerResult result = judge_log("memcheck", log, {"scale"}, "");
    CHECK(result.status == SanitizerResult::Status::findings);
    CHECK(result.message == describe(log.records[0]));
}

TEST_CASE("places in the older form, and without a source line, are understood", "[sanitizer]") {
    const SanitizerLog older = parse_sanitizer_log(
        "========= COMPUTE-SANITIZER\n"
        "========= Invalid __shared__ read of size 4 bytes\n"
        "=========     at 0x70 in /x/candidate.cu:6:scale(void)\n");
    REQUIRE(older.records.size() == 1);
    CHECK(older.records[0].functions == std::vector<std::string>{"scale"});
    CHECK(older.records[0].line == 6);
    CHECK_FALSE(older.ended);
    const SanitizerLog bare = parse_sanitizer_log(
        "========= Invalid __global__ read of size 16 bytes\n"
        "=========     at helper(float)+0x70\n"
        "=========     by thread (0,0,0) in block (0,0,0)\n"
        "=========     Address 0x10 is out of bounds\n"
        "=========     Device Frame: scale(float const*)+0x1f0\n");
    REQUIRE(bare.records.size() == 1);
    CHECK(bare.records[0].functions == std::vector<std::string>{"helper", "scale"});
    CHECK(is_about(bare.records[0], {"scale"}));
    CHECK(describe(bare.records[0]) ==
          "Invalid __global__ read of size 16 bytes in helper by thread (0,0,0) in block (0,0,0): "
          "is out of bounds");
}

TEST_CASE("of racecheck's hazards errors count and warnings do not", "[sanitizer]") {
    const SanitizerLog log = parse_sanitizer_log(racecheck_log);
    REQUIRE(log.records.size() == 2);
    CHECK(log.records[0].warning);
    CHECK_FALSE(log.records[1].warning);
    CHECK(log.records[1].functions == std::vector<std::string>{"scale", "scale"});
    CHECK(log.records[1].line == 14);
    const SanitizerResult result = judge_log("racecheck", log, {"scale"}, "");
    CHECK(result.status == SanitizerResult::Status::findings);
    CHECK(result.message == "Race reported between Write access in scale at candidate.cu:14");
}

TEST_CASE("records about other kernels, and initcheck's about shared memory, do not count",
          "[sanitizer]") {
    const SanitizerLog log = parse_sanitizer_log(initcheck_log);
    REQUIRE(log.records.size() == 2);
    CHECK(judge_log("initcheck", log, {"scale"}, "").status == SanitizerResult::Status::clean);
    CHECK(judge_log("initcheck", log, {"kf_compare_tiles"}, "").status ==
          SanitizerResult::Status::findings);
    const SanitizerLog reference = parse_sanitizer_log(
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n"
        "=========     at scale(int *)+0x90 in /x/reference.cu:3\n"
        "========= ERROR SUMMARY: 1 error\n");
    CHECK(judge_log("memcheck", reference, {"scale"}, "").status == SanitizerResult::Status::clean);
}

TEST_CASE("only a whole log is clean", "[sanitizer]") {
    CHECK(judge_log("memcheck", parse_sanitizer_log(clean_log), {"scale"}, "").status ==
          SanitizerResult::Status::clean);
    const SanitizerResult cut =
        judge_log("memcheck", parse_sanitizer_log("========= COMPUTE-SANITIZER\n"), {"scale"}, "");
    CHECK(cut.status == SanitizerResult::Status::failed);
    CHECK(cut.message == "its log ends without a summary");
    CHECK(judge_log("memcheck", parse_sanitizer_log(""), {"scale"}, "").message ==
          "it wrote no log");
    CHECK(judge_log("memcheck", parse_sanitizer_log(clean_log), {"scale"}, "no verdict in 60 s")
              .message == "no verdict in 60 s");
}

TEST_CASE("a kernel's names are its identifier in plan and machine code", "[sanitizer]") {
    CompiledCandidate candidate;
    candidate.builds.resize(1);
    KernelFacts plain;
    plain.name = "scale";
    plain.lowered_name = "scale";
    KernelFacts aliased;
    aliased.name = "wide";
    aliased.lowered_name = "_ZN2ns4gemmILi64EEEvPKf";
    KernelFacts flat;
    flat.name = "flat";
    flat.lowered_name = "_Z7softmaxIfEvPKT_";
    candidate.builds[0].kernels = {plain, aliased, flat};
    const std::set<std::string> names = kernel_names(candidate);
    for (const char* name : {"scale", "wide", "gemm", "flat", "softmax"}) {
        CHECK(names.contains(name));
    }
    CHECK(names.size() == 6);  // and the namespace
}

TEST_CASE("a kernel in an unnamed namespace or a class of a template is known by its own name",
          "[sanitizer]") {
    for (const char* place : {"(anonymous namespace)::scale(float *)+0x70", "<unnamed>::scale+0x70",
                              "void <unnamed>::scale<(int)64>(float *)+0x70",
                              "void ns::Tile<(int)8, float>::scale(float *)+0x70"}) {
        const SanitizerLog log = parse_sanitizer_log(
            std::string("========= COMPUTE-SANITIZER\n"
                        "========= Invalid __global__ write of size 4 bytes\n"
                        "=========     at ") +
            place + " in /x/candidate.cu:12\n========= ERROR SUMMARY: 1 error\n");
        INFO(place);
        REQUIRE(log.records.size() == 1);
        CHECK(log.records[0].functions == std::vector<std::string>{"scale"});
    }
    CompiledCandidate candidate;
    candidate.builds.resize(1);
    KernelFacts unnamed;
    unnamed.name = "(anonymous namespace)::scale";
    unnamed.lowered_name = "scale_1";
    candidate.builds[0].kernels = {unnamed};
    CHECK(kernel_names(candidate).contains("scale"));
}

TEST_CASE("names that a candidate chooses are no summary, heading or reference", "[sanitizer]") {
    const SanitizerLog log = parse_sanitizer_log(
        "========= COMPUTE-SANITIZER\n"
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at void SUMMARY::scale(float *)+0x70 in /x/preference.cuh:3\n");
    CHECK_FALSE(log.ended);
    REQUIRE(log.records.size() == 1);
    CHECK(judge_log("memcheck", log, {"scale"}, "").status == SanitizerResult::Status::findings);
    const SanitizerLog race = parse_sanitizer_log(
        "========= COMPUTE-SANITIZER\n"
        "========= Error: Race reported between Write access at SUMMARY::scale(int *)+0x70\n"
        "=========     and Read access at SUMMARY::scale(int *)+0xb0 [511 hazards]\n"
        "========= \n"
        "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n");
    CHECK(race.ended);
    CHECK(judge_log("racecheck", race, {"scale"}, "").status == SanitizerResult::Status::findings);
}

TEST_CASE("a finding of a kernel with a very long name is said in a short sentence",
          "[sanitizer]") {
    const std::string name(100000, 'k');
    const SanitizerLog log = parse_sanitizer_log(
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at " +
        name + "+0x70\n");
    const SanitizerResult result = judge_log("memcheck", log, {name}, "");
    CHECK(result.status == SanitizerResult::Status::findings);
    CHECK(result.message.size() < 1000);
}

TEST_CASE("a name of digits only is read once", "[sanitizer]") {
    CompiledCandidate candidate;
    candidate.builds.resize(1);
    KernelFacts digits;
    digits.lowered_name = "_Z" + std::string(300000, '9');
    candidate.builds[0].kernels = {digits};
    CHECK(kernel_names(candidate).empty());
}
