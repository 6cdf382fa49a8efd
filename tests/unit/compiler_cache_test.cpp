// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "compiler_nvrtc/nvrtc_compiler.hpp"
#include "compiler_nvrtc/result_cache.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"
#include "worker/compile_toolkit.hpp"

using namespace kernelforge;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> files_below(const fs::path& folder) {
    std::vector<fs::path> result;
    if (!fs::exists(folder)) return result;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) result.push_back(entry.path());
    }
    return result;
}

std::unique_ptr<Compiler> compiler_with_cache(const fs::path& folder,
                                              const std::string& options = "{}") {
    PluginContext context;
    context.worker_path = test::worker_path();
    context.cache_folder = folder.string();
    return make_nvrtc_compiler(options, context);
}

CompileRequest request(std::string source) {
    CompileRequest result;
    result.source = std::move(source);
    result.kernels = {{"k", "k"}};
    return result;
}

const std::string good = "extern \"C\" __global__ void k(float* x) { x[0] = 1; }\n";

}  // namespace

TEST_CASE("a result is found again, also by another compiler, and stays the same", "[compiler]") {
    const TemporaryFolder folder;
    const auto first = compiler_with_cache(folder.path());
    const CompileResult made = first->compile(request(good), {});
    const CompileResult again = first->compile(request(good), {});
    const CompileResult elsewhere = compiler_with_cache(folder.path())->compile(request(good), {});
    REQUIRE(made.status == CompileStatus::ok);
    CHECK_FALSE(made.from_cache);
    CHECK(again.from_cache);
    CHECK(elsewhere.from_cache);
    CHECK(elsewhere.cubin == made.cubin);
    CHECK(elsewhere.ptx == made.ptx);
    CHECK(elsewhere.kernels.at(0).opcode_counts == made.kernels.at(0).opcode_counts);
    CHECK(files_below(folder.path() / "compile").size() == 1);
}

TEST_CASE("everything that decides a result decides the key", "[compiler]") {
    const TemporaryFolder folder;
    const auto compiler = compiler_with_cache(folder.path());
    const CompileRequest base = request(good);
    std::vector<CompileRequest> others(5, base);
    others[0].source += "\n";
    others[1].arch = "sm_80";
    others[2].options = {"--use_fast_math"};
    others[3].defines = {{"N", 1}};
    others[4].kernels = {{"other", "k"}};
    CHECK_FALSE(compiler->compile(base, {}).from_cache);
    for (const CompileRequest& other : others) CHECK_FALSE(compiler->compile(other, {}).from_cache);
    CHECK(compiler->compile(base, {}).from_cache);
}

TEST_CASE("an error is kept, a timeout is not", "[compiler]") {
    const TemporaryFolder folder;
    const auto compiler = compiler_with_cache(folder.path());
    (void)compiler->compile(request("broken"), {});
    CHECK(compiler->compile(request("broken"), {}).from_cache);
    CompileRequest late = request(good);
    late.time_limit = std::chrono::milliseconds(0);
    CHECK(compiler->compile(late, {}).status == CompileStatus::timed_out);
    CHECK(compiler->compile(request(good), {}).status == CompileStatus::ok);
}

TEST_CASE("a damaged or cut entry is ignored and written anew", "[compiler]") {
    const TemporaryFolder folder;
    const auto compiler = compiler_with_cache(folder.path());
    (void)compiler->compile(request(good), {});
    const fs::path entry = files_below(folder.path() / "compile").at(0);
    const std::string whole = read_file(entry);
    std::string flipped = whole;
    flipped[flipped.size() / 2] ^= 1;
    for (const std::string& damaged :
         {std::string(), whole.substr(0, 40), whole.substr(0, whole.size() / 2), flipped,
          std::string("kernelforge compile result 9 x")}) {
        write_file_atomically(entry, damaged);
        CHECK_FALSE(compiler->compile(request(good), {}).from_cache);
        CHECK(compiler->compile(request(good), {}).from_cache);
    }
}

TEST_CASE("a changed header makes a result old, however deep it is included", "[compiler]") {
    const TemporaryFolder folder;
    const fs::path root = folder.path() / "include";
    make_folder(root / "mine");
    write_file_atomically(root / "mine/outer.h", "#pragma once\n#include \"inner.h\"\n");
    write_file_atomically(root / "mine/inner.h", "#define VALUE 1\n");
    const auto compiler = compiler_with_cache(
        folder.path() / "cache", "{\"include_roots\": {\"mine\": \"" + root.string() + "\"}}");
    const CompileRequest wanted = request(
        "#include <mine/outer.h>\nextern \"C\" __global__ void k(float* x) { x[0] = VALUE + 0.25f; "
        "}\n");
    const CompileResult one = compiler->compile(wanted, {});
    REQUIRE(one.status == CompileStatus::ok);
    CHECK(compiler->compile(wanted, {}).from_cache);
    write_file_atomically(root / "mine/inner.h", "#define VALUE 7\n");
    const CompileResult seven = compiler->compile(wanted, {});
    REQUIRE(seven.status == CompileStatus::ok);
    CHECK_FALSE(seven.from_cache);
    CHECK(seven.cubin != one.cubin);
    // The old content is known again.
    write_file_atomically(root / "mine/inner.h", "#define VALUE 1\n");
    CHECK(compiler->compile(wanted, {}).from_cache);
}

TEST_CASE("a header that appears changes the fingerprint of a set that looked for it",
          "[compiler]") {
    const TemporaryFolder folder;
    write_file_atomically(folder.path() / "a.h",
                          "#if __has_include(<b.h>)\n#include <b.h>\n#endif\n");
    compile::HeaderIndex index({folder.path().string()});
    const std::string before = index.fingerprint({"a.h"});
    CHECK(before == index.fingerprint({"a.h"}));
    write_file_atomically(folder.path() / "b.h", "int b;\n");
    CHECK(before != index.fingerprint({"a.h"}));
}

TEST_CASE("an include made by macros brings in all headers of its folder", "[compiler]") {
    const TemporaryFolder folder;
    write_file_atomically(folder.path() / "a.h", "#define B <b.h>\n#include B\n");
    compile::HeaderIndex index({folder.path().string()});
    const std::string before = index.fingerprint({"a.h"});
    write_file_atomically(folder.path() / "b.h", "int b;\n");
    CHECK(before != index.fingerprint({"a.h"}));
}

TEST_CASE("a cache folder that cannot be written costs a warning, not the result", "[compiler]") {
    const TemporaryFolder folder;
    write_file_atomically(folder.path() / "compile", "a file where a folder should be");
    PluginContext context;
    context.worker_path = test::worker_path();
    context.cache_folder = folder.path().string();
    std::string warnings;
    context.log = [&warnings](LogLevel, std::string_view line) { warnings += line; };
    const auto compiler = make_nvrtc_compiler("{}", context);
    CHECK(compiler->compile(request(good), {}).status == CompileStatus::ok);
    CHECK_THAT(warnings, ContainsSubstring("compile cache: "));
}
