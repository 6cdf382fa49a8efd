// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "compiler_nvrtc/nvrtc_compiler.hpp"
#include "kernelforge/error.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using Clock = std::chrono::steady_clock;
using Level = CompileDiagnostic::Severity;

namespace {

PluginContext context() {
    PluginContext result;
    result.worker_path = test::worker_path();
    return result;
}

/// One compiler for all cases, so that its worker is warm.
Compiler& compiler() {
    static const std::unique_ptr<Compiler> shared = make_nvrtc_compiler("{}", context());
    return *shared;
}

CompileRequest request(std::string source, std::string kernel = "k") {
    CompileRequest result;
    result.source = std::move(source);
    result.kernels = {{kernel, kernel}};
    return result;
}

CompileResult compile(const CompileRequest& what) {
    return compiler().compile(what, {});
}

/// The first error as "line:column: message", or "line: message" where there is no column.
std::string first_error(const CompileResult& result) {
    for (const CompileDiagnostic& one : result.diagnostics) {
        if (one.severity != Level::error) continue;
        CHECK(one.position.file == "candidate.cu");
        return to_string(SourcePosition{"", one.position.line, one.position.column}).substr(1) +
               ": " + one.message;
    }
    return {};
}

const std::string good = "extern \"C\" __global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }\n";

/// Instantiates 2^n classes with ever longer argument lists.
std::string hanging(int n = 26) {
    return "template <int N, class... T> struct F {\n"
           "    using a = typename F<N - 1, T..., int>::a; using b = typename F<N - 1, T..., "
           "float>::b; };\n"
           "template <class... T> struct F<0, T...> { using a = int; using b = int; };\n"
           "extern \"C\" __global__ void k(float* x) { typename F<" +
           std::to_string(n) + ">::a v = 1; x[0] = v; }\n";
}

/// Running processes named like the worker whose parent is this process.
std::vector<pid_t> workers() {
    std::vector<pid_t> result;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "stat");
        std::string text;
        std::getline(file, text);
        const std::size_t name = text.find("(kernelforge-wor)");
        if (name == std::string::npos) continue;
        const std::string rest = text.substr(name + 17);  // " S PPID"
        if (std::stoi(rest.substr(3)) == ::getpid()) result.push_back(std::stoi(text));
    }
    return result;
}

}  // namespace

TEST_CASE("a good kernel comes back as PTX and cubin of one compile, with its facts",
          "[compiler]") {
    CompileRequest wanted = request(
        "//@kernelforge 1\n"
        "#include <cuda_bf16.h>\n"
        "extern \"C\" __global__ void __launch_bounds__(WIDTH) k(const __nv_bfloat16* x, float* y, "
        "int n) {\n"
        "    __shared__ float s[100];\n"
        "    s[threadIdx.x % 100] = __bfloat162float(x[threadIdx.x]);\n"
        "    __syncthreads();\n"
        "    y[threadIdx.x] = s[n % 100] + OFFSET;\n"
        "}\n");
    wanted.defines = {{"WIDTH", 256}, {"OFFSET", -3}};
    const CompileResult result = compile(wanted);
    REQUIRE(result.status == CompileStatus::ok);
    CHECK(result.message.empty());
    CHECK_THAT(result.ptx, ContainsSubstring(".entry k("));
    CHECK(result.cubin.substr(1, 3) == "ELF");
    CHECK_THAT(result.compiler, ContainsSubstring("NVRTC "));
    CHECK(result.arch == "sm_90a");
    CHECK_FALSE(result.from_cache);
    REQUIRE(result.kernels.size() == 1);
    const KernelFacts& facts = result.kernels[0];
    CHECK(facts.name == "k");
    CHECK(facts.lowered_name == "k");
    CHECK(facts.registers_per_thread.value_or(0) > 4);
    CHECK(facts.stack_bytes == 0);
    CHECK(facts.spill_store_bytes == 0);
    CHECK(facts.static_shared_bytes == 400);
    CHECK(facts.barriers == 1);
    CHECK(facts.max_threads_per_block == 256);
    CHECK(facts.parameter_bytes == std::vector<int>{8, 8, 4});
    CHECK(facts.opcode_counts.at("barrier") == 1);
    CHECK(result.writable_globals.empty());
}

TEST_CASE("the names that people expect of the standard headers are there", "[compiler]") {
    for (const char* includes : {"", "#include <cuda_fp16.h>\n",
                                 "#include <cuda/std/cstdint>\n#include <cuda/std/climits>\n"}) {
        const CompileResult result = compile(
            request(std::string(includes) +
                    "extern \"C\" __global__ void k(float* x, const uint32_t* n, int64_t* m) {\n"
                    "    x[0] = n[0] > 3u ? -INFINITY : FLT_MAX;\n"
                    "    x[1] = NAN;\n"
                    "    m[0] = static_cast<int64_t>(INT_MIN) + UINT_MAX;\n"
                    "}\n"));
        INFO(result.log);
        CHECK(result.status == CompileStatus::ok);
    }
}

TEST_CASE("the type of a tensor map is there, whether or not a header names it", "[compiler]") {
    for (const char* includes : {"", "#include <cuda/barrier>\n"}) {
        const CompileResult result = compile(request(
            std::string(includes) +
            "extern \"C\" __global__ void k(const __grid_constant__ CUtensorMap map, float* x) {\n"
            "    asm volatile(\"prefetch.tensormap [%0];\" ::\"l\"(&map) : \"memory\");\n"
            "    x[0] = alignof(CUtensorMap);\n"
            "}\n"));
        INFO(result.log);
        REQUIRE(result.status == CompileStatus::ok);
        CHECK(result.kernels.at(0).parameter_bytes == std::vector<int>{128, 8});
    }
}

TEST_CASE("an error of the front end is found at its own line and column", "[compiler]") {
    const std::string body =
        "\n  extern \"C\" __global__ void k(float* x) {\n    x[0] = /* c */ nothing; }\n";
    CHECK_THAT(first_error(compile(request(body))),
               ContainsSubstring("3:20: identifier \"nothing\""));
    CompileRequest with = request("// a\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n" + body);
    with.defines = {{"A", 1}, {"B", 2}, {"C", 3}};
    const CompileResult result = compile(with);
    CHECK(result.status == CompileStatus::error);
    CHECK_THAT(first_error(result), ContainsSubstring("6:20: identifier \"nothing\" is undefined"));
    CHECK_THAT(result.log, ContainsSubstring("candidate.cu(6): error"));
    CHECK_THAT(result.message, ContainsSubstring("candidate.cu:6:20: "));
    CHECK(result.log.find("kernelforge_prefix") == std::string::npos);
    CHECK(result.cubin.empty());
}

TEST_CASE("a header that is not there is an error at its include", "[compiler]") {
    CHECK_THAT(first_error(compile(request("// a\n\n#include <cuda/nonexistent>\n" + good))),
               ContainsSubstring("3"));
}

TEST_CASE("a warning does not fail a compile", "[compiler]") {
    const CompileResult result = compile(
        request("extern \"C\" __global__ void k(float* x) {\n    int unused;\n    x[0] = 1; }\n"));
    CHECK(result.status == CompileStatus::ok);
    REQUIRE(result.diagnostics.size() == 1);
    CHECK(result.diagnostics[0].severity == Level::warning);
    CHECK(to_string(result.diagnostics[0].position) == "candidate.cu:2:9");
}

TEST_CASE("an error of ptxas is mapped to the candidate's line", "[compiler]") {
    const CompileResult shared = compile(
        request("\nextern \"C\" __global__ void k(float* x) {\n    __shared__ float s[60000];\n"
                "    s[threadIdx.x] = x[0];\n    __syncthreads();\n    x[1] = s[5];\n}\n"));
    CHECK(shared.status == CompileStatus::error);
    CHECK_THAT(first_error(shared),
               ContainsSubstring("ptxas: Entry function 'k' uses too much shared data"));
    CHECK(shared.diagnostics.at(0).position.line >= 2);
    CHECK(shared.diagnostics.at(0).position.line <= 4);

    CompileRequest wgmma = request(
        "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(float* x) {\n    x[0] = 1;\n"
        "    asm volatile(\"wgmma.fence.sync.aligned;\\n\");\n}\n");
    CHECK(compile(wgmma).status == CompileStatus::ok);
    wgmma.arch = "sm_90";
    CHECK_THAT(first_error(compile(wgmma)),
               ContainsSubstring("4:5: ptxas: Instruction 'wgmma.fence'"));
}

TEST_CASE("an instance of a template is found by its C++ name", "[compiler]") {
    CompileRequest wanted = request(
        "namespace n { template <int N, class T> __global__ void scale(T* x) { x[threadIdx.x] *= "
        "N; } }\n");
    wanted.kernels = {{"four", "n::scale<WIDTH * 2, float>"}, {"two", "n::scale<2, double>"}};
    wanted.defines = {{"WIDTH", 2}};
    const CompileResult result = compile(wanted);
    REQUIRE(result.status == CompileStatus::ok);
    REQUIRE(result.kernels.size() == 2);
    CHECK(result.kernels[0].name == "four");
    CHECK(result.kernels[0].lowered_name == "_ZN1n5scaleILi4EfEEvPT0_");
    CHECK(result.kernels[1].lowered_name == "_ZN1n5scaleILi2EdEEvPT0_");
    CHECK(result.kernels[1].registers_per_thread.has_value());
}

TEST_CASE("a kernel of the plan that the source lacks is an error of the candidate", "[compiler]") {
    const CompileResult result = compile(request(good, "missing"));
    CHECK(result.status == CompileStatus::error);
    CHECK_THAT(result.message, ContainsSubstring("missing"));
}

TEST_CASE("spills and writable globals are seen", "[compiler]") {
    CompileRequest wanted = request(
        "__device__ int counter[10];\n__device__ float start = 5;\n__constant__ int fixed[4];\n"
        "extern \"C\" __global__ void k(float* x, int n) {\n"
        "    float a[64];\n"
        "    _Pragma(\"unroll\") for (int i = 0; i < 64; ++i) a[i] = x[i * n];\n"
        "    __syncthreads();\n"
        "    _Pragma(\"unroll\") for (int i = 0; i < 64; ++i) x[i * n + 1] = a[63 - i] * start + "
        "fixed[1];\n"
        "    counter[0] = n;\n}\n");
    wanted.options = {"-maxrregcount=32"};
    const CompileResult result = compile(wanted);
    REQUIRE(result.status == CompileStatus::ok);
    CHECK(result.kernels.at(0).registers_per_thread == 32);
    CHECK(result.kernels.at(0).spill_store_bytes.value_or(0) > 0);
    CHECK(result.kernels.at(0).spill_load_bytes.value_or(0) > 0);
    auto globals = result.writable_globals;
    std::sort(globals.begin(), globals.end());
    CHECK(globals == std::vector<std::pair<std::string, std::uint64_t>>{
                         {"counter", 40}, {"fixed", 16}, {"start", 4}});
}

TEST_CASE("a candidate cannot get a file's content into anything that comes back", "[compiler]") {
    const TemporaryFolder folder;
    const std::string secret = "kf_secret_4711";
    const std::string path = (folder.path() / "secret.txt").string();
    write_file_atomically(path, "int " + secret + " = 1; syntax error " + secret + "\n");
    const std::string tricks[] = {
        "#include \"@\"\n",
        "#include <@>\n",
        "#include <cuda/../../../../../../..@>\n",
        "#include <../../../../../..@>\n",
        "#define F \"@\"\n#include F\n",
        "#define F <@>\n#include F\n",
        "#inc\\\nlude \"@\"\n",
        "# /**/ include /**/ \"@\"\n",
        "%:include \"@\"\n",
        "int a; /*\n*/ #include \"@\"\n",
        "?\?=include \"@\"\n",
        "// c ?\?/\n#include \"@\"\n",
        "// c\r#include \"@\"\n",
        "/* c\r*/#include \"@\"\n",
        "#if 0\nR\"(\n#endif\n#include \"@\"\n)\"\n#endif\n",
        "#if 0\n' /*\n#endif\n#include \"@\"\n#if 0\n*/ '\n#endif\n",
        "#include_next \"@\"\n",
        "#import \"@\"\n",
        "#embed \"@\"\n",
        "__device__ char a[] = {\n#embed \"@\"\n};\n",
        "#line 1 \"@\"\nint broken = ;\n",
        "# 1 \"@\"\nint broken = ;\n",
        "#pragma include_alias(\"mma.h\", \"@\")\n#include \"mma.h\"\n",
        "_Pragma(\"include_alias(\\\"mma.h\\\", \\\"@\\\")\")\n",
        "#pragma GCC dependency \"@\"\n",
        "asm(\".include \\\"@\\\"\");\n",
        "asm(\"\\n#include \\\"@\\\"\\n\");\n",
        "__device__ void f() { asm volatile(\".incbin \\\"@\\\"\"); }\n",
        "__global__ void f() { asm volatile(\"\\n.include \\\"@\\\"\\n\"); }\n",
        "__global__ void f() { asm volatile(\"\\n#include \\\"@\\\"\\n\"); }\n",
        "#define S(x) #x\n__global__ void f() { asm volatile(S(.incl) \"ude \\\"@\\\";\"); }\n",
        "#define G(a, b) a##b\n#if G(__has_, include)(\"@\")\n#error there\n#endif\n#include "
        "\"@\"\n",
        "#define G(a, b) a##b\nG(_Pra, gma)(\"include_alias(\\\"mma.h\\\", \\\"@\\\")\")\n#include "
        "<mma.h>\n",
    };
    int refused = 0;
    for (const std::string& trick : tricks) {
        std::string source = trick + good;
        for (std::size_t at = source.find('@'); at != std::string::npos;
             at = source.find('@', at)) {
            source.replace(at, 1, path);
        }
        CAPTURE(source);
        const CompileResult result = compile(request(source));
        if (result.status == CompileStatus::error) ++refused;
        std::string all = result.message + result.log + result.ptx + result.cubin;
        for (const CompileDiagnostic& one : result.diagnostics)
            all += one.message + one.position.file;
        CHECK(all.find(secret) == std::string::npos);
    }
    CHECK(refused >= 27);
}

TEST_CASE("a candidate cannot find out whether a file exists", "[compiler]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "there").string();
    const std::string source = "#define G(a, b) a##b\n#if G(__has_, include)(\"" + path +
                               "\")\n#error it is there\n#endif\n" + good;
    const CompileResult before = compile(request(source));
    write_file_atomically(path, "x");
    const CompileResult after = compile(request(source));
    CHECK(before.status == after.status);
    CHECK(before.log == after.log);
}

TEST_CASE("a candidate that hangs the compiler is killed on time and the next one compiles",
          "[compiler]") {
    CompileRequest hang = request(hanging());
    hang.time_limit = std::chrono::milliseconds(400);
    const auto start = Clock::now();
    const CompileResult result = compile(hang);
    CHECK(result.status == CompileStatus::timed_out);
    CHECK(result.message == "the compile took longer than 400 ms");
    CHECK(Clock::now() - start < std::chrono::seconds(2));
    CHECK(compile(request(good)).status == CompileStatus::ok);
}

TEST_CASE("a candidate that takes too much memory is stopped", "[compiler]") {
    CompileRequest bomb = request(
        "__device__ const char big[1500000000] = {1};\n"
        "extern \"C\" __global__ void k(float* x) { x[0] = big[(int)x[1]]; }\n");
    bomb.memory_limit_bytes = std::uint64_t{256} << 20;
    bomb.time_limit = std::chrono::seconds(20);
    const CompileResult result = compile(bomb);
    CHECK(result.status == CompileStatus::out_of_memory);
    CHECK(result.message.find('\n') == std::string::npos);
    CHECK_FALSE(result.message.empty());
    CHECK(compile(request(good)).status == CompileStatus::ok);
}

TEST_CASE("a giant log is capped and its errors are still in order", "[compiler]") {
    std::string source = "extern \"C\" __global__ void k(float* x) {\n    int a = 0;\n";
    for (int i = 0; i < 3000; ++i)
        source += "    int unused_" + std::to_string(i) + std::string(40, 'y') + ";\n";
    const CompileResult result = compile(request(source + "x[0] = a; }\n"));
    CHECK(result.status == CompileStatus::ok);
    CHECK(result.log.size() <= 64 * 1024);
    CHECK_THAT(result.log, ContainsSubstring("bytes left out"));
    REQUIRE(result.diagnostics.size() >= 100);
    CHECK(result.diagnostics[0].position.line == 3);
}

TEST_CASE("a worker that is killed in the middle is replaced", "[compiler]") {
    const auto own = make_nvrtc_compiler(R"({"precompiled_headers": 0})", context());
    const std::vector<pid_t> before = workers();
    CHECK(own->compile(request(good), {}).status == CompileStatus::ok);
    std::vector<pid_t> mine = workers();
    std::erase_if(mine,
                  [&](pid_t pid) { return std::count(before.begin(), before.end(), pid) != 0; });
    REQUIRE(mine.size() == 1);
    CompileRequest hang = request(hanging());
    hang.time_limit = std::chrono::milliseconds(700);
    std::jthread killer([pid = mine[0]] {
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        ::kill(pid, SIGKILL);
    });
    // Its worker gone, the request is tried once more, by another one.
    CHECK(own->compile(hang, {}).status == CompileStatus::timed_out);
    CHECK(own->compile(request(good), {}).status == CompileStatus::ok);
}

TEST_CASE("compiles from several threads each get their own answer", "[compiler]") {
    std::vector<CompileResult> results(8);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < results.size(); ++i) {
            threads.emplace_back([i, &results] {
                CompileRequest one = request(
                    "extern \"C\" __global__ void k(float* x) { __shared__ float s[N]; "
                    "s[threadIdx.x] = x[1]; __syncthreads(); x[0] = s[3]; }\n");
                one.defines = {{"N", 100 + static_cast<std::int64_t>(i)}};
                results[i] = compile(one);
            });
        }
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
        CHECK(results[i].status == CompileStatus::ok);
        CHECK(results[i].kernels.at(0).static_shared_bytes == 400 + 4 * static_cast<int>(i));
    }
}

TEST_CASE("a stop returns within a second and frees the worker", "[compiler]") {
    std::stop_source source;
    std::jthread stopper([&source] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        source.request_stop();
    });
    const auto start = Clock::now();
    const CompileResult result = compiler().compile(request(hanging()), source.get_token());
    CHECK(result.status == CompileStatus::cancelled);
    CHECK(Clock::now() - start < std::chrono::seconds(1));
    CHECK(compiler().compile(request(good), source.get_token()).status == CompileStatus::cancelled);
    CHECK(compile(request(good)).status == CompileStatus::ok);
}

TEST_CASE("a precompiled header does not change the machine code", "[compiler]") {
    const CompileRequest wanted = request(
        "#include <cuda_fp16.h>\nextern \"C\" __global__ void k(__half* x) { x[0] = __hadd(x[1], "
        "x[2]); }\n");
    const auto plain = make_nvrtc_compiler(R"({"precompiled_headers": 0})", context());
    const CompileResult with = compile(wanted);
    const CompileResult without = plain->compile(wanted, {});
    REQUIRE(with.status == CompileStatus::ok);
    CHECK(with.cubin == without.cubin);
    CHECK(with.ptx == without.ptx);
    CHECK(with.log.find("precompiled") == std::string::npos);
}

TEST_CASE("an architecture that NVRTC does not know is named with those that it knows",
          "[compiler]") {
    CompileRequest wanted = request(good);
    wanted.arch = "sm_999";
    const CompileResult result = compile(wanted);
    CHECK(result.status == CompileStatus::error);
    CHECK_THAT(result.message,
               ContainsSubstring("does not know architecture sm_999; it knows sm_"));
}

TEST_CASE("requests that are not well-formed are errors of the caller", "[compiler]") {
    const auto said = [](CompileRequest what) {
        return test::error_of([&] { (void)compile(what); }).value_or("");
    };
    CompileRequest arch = request(good);
    arch.arch = "sm_90 -I/etc";
    CHECK_THAT(said(arch), ContainsSubstring("architecture \"sm_90 -I/etc\""));
    CompileRequest option = request(good);
    option.options = {"-I/etc"};
    CHECK_THAT(said(option), ContainsSubstring("option \"-I/etc\" is not among"));
    CHECK_THAT(said(request(good, "k); int a = (1")),
               ContainsSubstring("not a plain C++ name expression"));
    CompileRequest define = request(good);
    define.defines = {{"1x", 1}};
    CHECK_THAT(said(define), ContainsSubstring("cannot define macro"));
}

TEST_CASE("a machine without NVRTC gets a sentence with the remedy", "[compiler]") {
    const auto said = [](const char* options) {
        return test::error_of([&] { (void)make_nvrtc_compiler(options, context()); }).value_or("");
    };
    CHECK_THAT(said(R"({"nvrtc_library": "/nowhere/libnvrtc.so"})"),
               ContainsSubstring("no file /nowhere/libnvrtc.so"));
    CHECK_THAT(said(R"({"include_folders": ["/nowhere"]})"),
               ContainsSubstring("no folder /nowhere"));
    CHECK_THAT(said(R"({"include_roots": {"cute": "/nowhere"}})"),
               ContainsSubstring("/nowhere/cute"));
    CHECK_THAT(said(R"({"include_roots": {"../x": "/nowhere"}})"),
               ContainsSubstring("include root"));
    CHECK_THAT(said(R"({"speed": 1})"), ContainsSubstring("speed"));
    PluginContext lost = context();
    lost.worker_path = "/nowhere/kernelforge-worker";
    CHECK_THAT(test::error_of([&] { (void)make_nvrtc_compiler("{}", lost); }).value_or(""),
               ContainsSubstring("/nowhere/kernelforge-worker"));
}

TEST_CASE("a library that cannot be loaded is an unsupported machine", "[compiler]") {
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "libnvrtc.so").string();
    write_file_atomically(path, "not a library");
    const auto broken = make_nvrtc_compiler("{\"nvrtc_library\": \"" + path + "\"}", context());
    for (int round = 0; round < 2; ++round) {
        try {
            (void)broken->compile(request(good), {});
            FAIL("it compiled");
        } catch (const Error& error) {
            CHECK(error.code() == ErrorCode::unsupported);
            CHECK_THAT(error.what(), ContainsSubstring("cannot load " + path));
        }
    }
}
