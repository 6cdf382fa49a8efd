// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <vector>

#include "base/files.hpp"
#include "kernelforge/plugin.hpp"
#include "kernelforge/recording.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_replay);

using namespace kernelforge;
using kernelforge::test::error_of;

namespace {

ChatRequest request_of(std::uint64_t expansion, std::uint32_t turn) {
    ChatRequest request;
    request.key = {expansion, turn};
    request.messages = {{.role = ChatRole::user, .content = "x"}};
    return request;
}

struct Fixture {
    TemporaryFolder folder;
    std::string path = (folder.path() / "r.jsonl").string();
    std::vector<std::string> logged;

    explicit Fixture(const std::string& lines) {
        std::ofstream(path) << R"({"format":"kernelforge-recording","version":1})"
                            << "\n"
                            << lines;
    }
    std::unique_ptr<LlmBackend> make(const std::string& more = "") {
        return kernelforge_plugin_llm_replay.llm_backends[0].create(
            R"({"file":")" + path + "\"" + more + "}",
            {.log = [this](LogLevel, std::string_view line) { logged.emplace_back(line); },
             .secrets = {},
             .worker_path = {},
             .cache_folder = {}});
    }
};

}  // namespace

TEST_CASE("replay answers by key, whatever the prompt", "[llm][replay]") {
    Fixture fixture(R"({"expansion":2,"turn":1,"content":"b","model":"m","prompt_sha256":"00"})"
                    "\n"
                    R"({"expansion":0,"turn":0,"content":"a"})"
                    "\n");
    const auto backend = fixture.make();
    CHECK(backend->complete(request_of(0, 0), {}).content == "a");
    CHECK(backend->complete(request_of(2, 1), {}).content == "b");
    CHECK(backend->complete(request_of(2, 1), {}).model == "m");
    CHECK(fixture.logged.empty());
}

TEST_CASE("a completion that was not recorded is named, with what there is", "[llm][replay]") {
    Fixture fixture(R"({"expansion":2,"turn":1,"content":"b"})"
                    "\n"
                    R"({"expansion":0,"turn":0,"content":"a"})"
                    "\n");
    const auto backend = fixture.make();
    CHECK(error_of([&] { static_cast<void>(backend->complete(request_of(2, 0), {})); }) ==
          fixture.path +
              ": no completion for expansion 2, turn 0 is recorded, found 2, the last "
              "for expansion 2, turn 1");
    Fixture empty("");
    CHECK_THAT(error_of([&] {
                   static_cast<void>(empty.make()->complete(request_of(0, 0), {}));
               }).value_or(""),
               ContainsSubstring("the recording is empty"));
}

TEST_CASE("check_prompts warns about a prompt that is not the recorded one", "[llm][replay]") {
    Fixture fixture(R"({"expansion":0,"turn":0,"content":"a","prompt_sha256":")" +
                    prompt_sha256(request_of(0, 0)) +
                    R"("})"
                    "\n"
                    R"({"expansion":1,"turn":0,"content":"b","prompt_sha256":"00"})"
                    "\n");
    const auto backend = fixture.make(R"(,"check_prompts":true)");
    static_cast<void>(backend->complete(request_of(0, 0), {}));
    CHECK(fixture.logged.empty());
    CHECK(backend->complete(request_of(1, 0), {}).content == "b");
    REQUIRE(fixture.logged.size() == 1);
    CHECK_THAT(
        fixture.logged[0],
        ContainsSubstring("the prompt of expansion 1, turn 0 differs from the recorded one"));
}

TEST_CASE("replay refuses a malformed recording when it is made", "[llm][replay]") {
    Fixture fixture("nonsense\n");
    CHECK_THAT(error_of([&] { static_cast<void>(fixture.make()); }).value_or(""),
               ContainsSubstring("r.jsonl:2:2: expected JSON"));
    Fixture torn(R"({"expansion":0,"tu)");
    static_cast<void>(torn.make());
    REQUIRE(torn.logged.size() == 1);
    CHECK_THAT(torn.logged[0], ContainsSubstring("dropped an incomplete last line"));
}
