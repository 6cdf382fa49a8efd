// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include "base/json_text.hpp"
#include "kernelforge/plugin.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_command);

using namespace kernelforge;
using kernelforge::test::error_of;

namespace {

/// A backend that runs a line of shell.
std::unique_ptr<LlmBackend> shell(const std::string& line, Json options = Json::object()) {
    options["argv"] = {"/bin/sh", "-c", line};
    return kernelforge_plugin_llm_command.llm_backends[0].create(dump_json(options), {});
}

ChatRequest request_of(const std::string& text) {
    ChatRequest request;
    request.key = {4, 1};
    request.messages = {{.role = ChatRole::user, .content = text}};
    return request;
}

std::string fails(LlmBackend& backend) {
    return error_of([&] { static_cast<void>(backend.complete(request_of("x"), {})); }).value_or("");
}

}  // namespace

TEST_CASE("a command gets the request as JSON on stdin", "[llm][command]") {
    ChatRequest request = request_of("hello");
    request.temperature = 0.5;
    const auto backend = shell(R"(sed 's/.*/{"content":"seen"}/; w /dev/stderr' | head -1)");
    CHECK(backend->complete(request, {}).content == "seen");
    // The request itself as content of the reply: quoted as a JSON string by sed.
    const auto echo = shell(R"(sed 's/\\/\\\\/g; s/"/\\"/g; s/^/{"content":"/; s/$/"}/')");
    CHECK(echo->complete(request, {}).content ==
          R"({"format":"kernelforge-chat","version":1,"expansion":4,"turn":1,)"
          R"("messages":[{"role":"user","content":"hello"}],"tools":[],)"
          R"("max_output_tokens":16384,"temperature":0.5})");
}

TEST_CASE("a command's reply may carry status, usage and tool calls", "[llm][command]") {
    const auto backend =
        shell(R"(echo '{"content":"half","status":"truncated","model":"m","message":"cut",)"
              R"("usage":{"input_tokens":5,"output_tokens":2,"cost_usd":0.1},)"
              R"("tool_calls":[{"id":"1","name":"f","arguments":"{}"}]}')");
    const ChatReply reply = backend->complete(request_of("x"), {});
    CHECK(reply.status == ChatStatus::truncated);
    CHECK(reply.content == "half");
    CHECK(reply.model == "m");
    CHECK(reply.message == "cut");
    CHECK(reply.usage.input_tokens == 5);
    CHECK(reply.usage.output_tokens == 2);
    CHECK(reply.usage.cost_usd == 0.1);
    REQUIRE(reply.tool_calls.size() == 1);
    CHECK(reply.tool_calls[0].name == "f");
    CHECK(reply.time.count() > 0);
}

TEST_CASE("in text format a command gets a transcript and its output is the content",
          "[llm][command]") {
    const auto backend = shell("cat; echo end", {{"format", "text"}});
    CHECK(backend->complete(request_of("hello"), {}).content == "### user\n\nhello\nend\n");
    ChatRequest request = request_of("x");
    request.tools = {{"f", "", "{}"}};
    CHECK_THAT(error_of([&] { static_cast<void>(backend->complete(request, {})); }).value_or(""),
               ContainsSubstring("expected format \"json\" for a request with tools"));
}

TEST_CASE("a large prompt reaches a command that does not read it", "[llm][command]") {
    const auto backend = shell("echo done", {{"format", "text"}});
    CHECK(backend->complete(request_of(std::string(4 << 20, 'x')), {}).content == "done\n");
}

TEST_CASE("a command that fails is reported with how it ended and its last words",
          "[llm][command]") {
    CHECK(fails(*shell("echo first >&2; echo no such model >&2; exit 3")) ==
          "command /bin/sh: exit code 3: no such model");
    CHECK(fails(*shell("exit 4")) == "command /bin/sh: exit code 4");
    CHECK_THAT(fails(*shell("kill -9 $$")), ContainsSubstring("signal 9"));
    CHECK_THAT(fails(*shell("echo why >&2")),
               ContainsSubstring("expected a reply on stdout, found nothing, on stderr: why"));
    CHECK_THAT(fails(*shell("echo nonsense")), ContainsSubstring("stdout:1:2: expected JSON"));
    CHECK_THAT(fails(*shell(R"(echo '{"content":"x","colour":1}')")),
               ContainsSubstring("unknown member \"colour\""));
    CHECK_THAT(fails(*shell("head -c 40000000 /dev/zero")),
               ContainsSubstring("expected less than 32 MiB"));
}

TEST_CASE("a command that does not end is killed after its time", "[llm][command]") {
    const auto backend = shell("sleep 20", {{"timeout_seconds", 0.2}});
    const auto start = std::chrono::steady_clock::now();
    CHECK_THAT(fails(*backend), ContainsSubstring("expected an answer within 200 ms"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("a command that writes without end is killed at the limit", "[llm][command]") {
    const auto start = std::chrono::steady_clock::now();
    CHECK_THAT(fails(*shell("yes", {{"timeout_seconds", 60}})),
               ContainsSubstring("expected less than 32 MiB on stdout, found more"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("of a failing command's last line 300 bytes are quoted", "[llm][command]") {
    const std::string message =
        fails(*shell("printf '%01000d' 0 >&2; exit 4", {{"timeout_seconds", 60}}));
    CHECK(message == "command /bin/sh: exit code 4: " + std::string(297, '0') + "...");
}

TEST_CASE("a command is started in the working folder", "[llm][command]") {
    const auto backend = shell("pwd", {{"format", "text"}, {"working_folder", "/usr"}});
    CHECK(backend->complete(request_of("x"), {}).content == "/usr\n");
}

TEST_CASE("a program that does not exist is an error that names it", "[llm][command]") {
    const auto backend = kernelforge_plugin_llm_command.llm_backends[0].create(
        R"({"argv":["/no/such/program"]})", {});
    CHECK_THAT(fails(*backend), ContainsSubstring("/no/such/program"));
}

TEST_CASE("command options that make no sense are refused", "[llm][command]") {
    const auto refused = [](const char* options) {
        return error_of([&] {
                   static_cast<void>(
                       kernelforge_plugin_llm_command.llm_backends[0].create(options, {}));
               })
            .value_or("");
    };
    CHECK_THAT(refused("{}"),
               ContainsSubstring("llm command options:1:1: expected a member \"argv\""));
    CHECK_THAT(refused(R"({"argv":[]})"), ContainsSubstring("expected a program"));
    CHECK_THAT(refused(R"({"argv":["a"],"format":"xml"})"),
               ContainsSubstring("expected \"json\" or \"text\""));
    CHECK_THAT(refused(R"({"argv":["a"],"timeout_seconds":0})"),
               ContainsSubstring("expected seconds from 0.001"));
}
