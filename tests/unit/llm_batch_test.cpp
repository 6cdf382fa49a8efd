// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "kernelforge/plugin.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_batch);

using namespace kernelforge;
using kernelforge::test::error_of;

namespace {

ChatRequest request_of(std::uint64_t expansion, const std::string& text = "make it faster") {
    ChatRequest request;
    request.key = {expansion, 0};
    request.messages = {{.role = ChatRole::user, .content = text}};
    return request;
}

std::string completion(const std::string& content) {
    return R"({"model":"m-1","choices":[{"message":{"role":"assistant","content":")" + content +
           R"("},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}})";
}

/// A line as the Batch service writes it.
std::string service_line(const std::string& id, const std::string& content) {
    return R"({"id":"batch_req_1","custom_id":")" + id +
           R"(","response":{"status_code":200,"request_id":"r","body":)" + completion(content) +
           R"(},"error":null})"
           "\n";
}

struct Fixture {
    TemporaryFolder temporary;
    std::filesystem::path folder = temporary.path() / "batch";
    std::vector<std::string> logged;
    std::unique_ptr<LlmBackend> backend = make();

    std::unique_ptr<LlmBackend> make(Json options = Json::object()) {
        options["folder"] = folder.string();
        options["model"] = "m";
        return kernelforge_plugin_llm_batch.llm_backends[0].create(
            dump_json(options),
            {.log = [this](LogLevel, std::string_view line) { logged.emplace_back(line); },
             .secrets = {},
             .worker_path = {},
             .cache_folder = {}});
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name, std::ios::app) << text;
    }
    std::string read(const std::string& name) const { return read_file(folder / name); }
    ChatReply ask(std::uint64_t expansion) { return backend->complete(request_of(expansion), {}); }
    std::string fails(std::uint64_t expansion) {
        return error_of([&] { static_cast<void>(ask(expansion)); }).value_or("");
    }
};

}  // namespace

TEST_CASE("a request without an answer is queued once, for a service and for a person",
          "[llm][batch]") {
    Fixture fixture;
    const ChatReply reply = fixture.ask(0);
    CHECK(reply.status == ChatStatus::pending);
    CHECK_THAT(reply.message,
               ContainsSubstring("kf-0-0 waits for an answer in " + fixture.folder.string()));
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    CHECK(fixture.make()->complete(request_of(0), {}).status == ChatStatus::pending);
    CHECK(fixture.read("requests.jsonl") ==
          R"({"custom_id":"kf-0-0","method":"POST","url":"/v1/chat/completions","body":)"
          R"({"model":"m","messages":[{"role":"user","content":"make it faster"}],)"
          R"("max_tokens":16384}})"
          "\n");
    CHECK(fixture.read("prompts/kf-0-0.md") ==
          "# kf-0-0\n\nexpansion 0, turn 0. The reply, and nothing else, belongs in "
          "`answers/kf-0-0.md`.\n\n### user\n\nmake it faster\n");
    CHECK(fixture.ask(1).status == ChatStatus::pending);
    const std::string requests = fixture.read("requests.jsonl");
    CHECK(std::ranges::count(requests, '\n') == 2);
}

TEST_CASE("an answer of a batch service is picked up with its usage", "[llm][batch]") {
    Fixture fixture;
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("batch_output.jsonl",
                  service_line("kf-1-0", "one") + service_line("kf-0-0", "zero"));
    const ChatReply reply = fixture.ask(0);
    CHECK(reply.status == ChatStatus::ok);
    CHECK(reply.content == "zero");
    CHECK(reply.model == "m-1");
    CHECK(reply.usage.input_tokens == 10);
    CHECK(fixture.ask(1).content == "one");
    const auto priced =
        fixture.make({{"prices", {{"input_per_million", 1.0}, {"output_per_million", 2.0}}}});
    // 10 x 1 + 5 x 2 dollars per million; rounding only.
    CHECK(priced->complete(request_of(0), {}).usage.cost_usd.value_or(0) ==
          Approx(20e-6).epsilon(1e-12));
}

TEST_CASE("an answer may be a plain line in any output file, also one that grows later",
          "[llm][batch]") {
    Fixture fixture;
    fixture.write("mine.jsonl", R"({"custom_id":"kf-0-0","content":"a","model":"hand"})"
                                "\n");
    CHECK(fixture.ask(0).content == "a");
    CHECK(fixture.ask(0).model == "hand");
    CHECK(fixture.ask(1).status == ChatStatus::pending);
    fixture.write("mine.jsonl", R"({"custom_id":"kf-1-0","content":"b"})");
    CHECK(fixture.ask(1).content == "b");
}

TEST_CASE("an answer may be a file that a person wrote", "[llm][batch]") {
    Fixture fixture;
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("answers/kf-0-0.md", "  \n");
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("answers/kf-0-0.md", "```cuda\nx\n```\n");
    CHECK(fixture.ask(0).content == "  \n```cuda\nx\n```\n");
}

TEST_CASE("lines that cannot be used are reported once and the rest is used", "[llm][batch]") {
    Fixture fixture;
    fixture.write("out.jsonl",
                  "nonsense\n[1]\n\n"
                  R"({"custom_id":"kf-7-0"})"
                  "\n"
                  R"({"content":"no id"})"
                  "\n" +
                      service_line("kf-0-0", "good") + R"({"custom_id":"kf-1-0","cont)");
    CHECK(fixture.ask(0).content == "good");
    const std::string file = (fixture.folder / "out.jsonl").string();
    REQUIRE(fixture.logged.size() == 5);
    CHECK_THAT(fixture.logged[0], ContainsSubstring(file + ":1:2: expected JSON"));
    CHECK_THAT(fixture.logged[1], ContainsSubstring(file + ":2:1: expected an object"));
    CHECK_THAT(fixture.logged[2], ContainsSubstring(file + ":4:1: expected a member \"content\", "
                                                           "\"response\" or \"error\""));
    CHECK_THAT(fixture.logged[3],
               ContainsSubstring(file + ":5:1: expected a member \"custom_id\""));
    CHECK_THAT(fixture.logged[4], ContainsSubstring(file + ":7:"));
    const ChatReply pending = fixture.ask(1);
    CHECK(fixture.logged.size() == 5);
    CHECK_THAT(pending.message,
               ContainsSubstring("5 output lines cannot be used, the first: " + file));
}

TEST_CASE("a great many bad lines are counted, not all quoted", "[llm][batch]") {
    Fixture fixture;
    std::string text;
    for (int i = 0; i < 100; ++i) text += "x\n";
    fixture.write("out.jsonl", text);
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    REQUIRE(fixture.logged.size() == 11);
    CHECK_THAT(fixture.logged[10], ContainsSubstring("90 more lines cannot be used"));
}

TEST_CASE("an error of the batch service fails the request with its message and place",
          "[llm][batch]") {
    Fixture fixture;
    const std::string file = (fixture.folder / "errors.jsonl").string();
    fixture.write(
        "errors.jsonl",
        R"({"custom_id":"kf-0-0","response":null,"error":{"code":"x","message":"expired"}})"
        "\n"
        R"({"custom_id":"kf-1-0","response":{"status_code":400,"body":)"
        R"({"error":{"message":"too long"}}},"error":null})"
        "\n"
        R"({"custom_id":"kf-2-0","response":null,"error":null})"
        "\n"
        R"({"custom_id":"kf-3-0","error":""})"
        "\n"
        R"({"custom_id":"kf-4-0","response":{"body":{"choices":[]}}})"
        "\n");
    CHECK(fixture.fails(0) == file + ":1: the batch service reports: expired");
    CHECK(fixture.fails(1) == file + ":2: the batch service reports: HTTP 400: too long");
    CHECK_THAT(fixture.fails(2), ContainsSubstring("neither a response nor an error"));
    CHECK_THAT(fixture.fails(3), ContainsSubstring("an error without a message"));
    CHECK_THAT(fixture.fails(4), ContainsSubstring("expected at least one choice"));
    // A second batch with the same request repairs it.
    fixture.write("later.jsonl", service_line("kf-0-0", "good"));
    CHECK(fixture.ask(0).content == "good");
}

TEST_CASE("a prompt that another run asked under the same key is refused", "[llm][batch]") {
    Fixture fixture;
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("answers/kf-0-0.md", "answer to the first prompt");
    const auto error = error_of(
        [&] { static_cast<void>(fixture.make()->complete(request_of(0, "another prompt"), {})); });
    REQUIRE(error);
    CHECK(*error == (fixture.folder / "requests.jsonl").string() +
                        ":1: kf-0-0 was asked with another prompt, by another run; expected a "
                        "folder of its own for each run");
}

TEST_CASE("an interrupted line of requests.jsonl is written again, a malformed one is an error",
          "[llm][batch]") {
    Fixture fixture;
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("requests.jsonl", R"({"custom_id":"kf-1-0","meth)");
    CHECK(fixture.make()->complete(request_of(1), {}).status == ChatStatus::pending);
    const std::string requests = fixture.read("requests.jsonl");
    CHECK(std::ranges::count(requests, '\n') == 2);
    CHECK_THAT(requests, ContainsSubstring("\n{\"custom_id\":\"kf-1-0\",\"method\":\"POST\""));
    fixture.write("requests.jsonl", "nonsense\n");
    CHECK_THAT(fixture.fails(2), ContainsSubstring("requests.jsonl:3:2: expected JSON"));
}

TEST_CASE("a copy of the requests among the outputs is no answer and no error", "[llm][batch]") {
    Fixture fixture;
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    fixture.write("part-1.jsonl", fixture.read("requests.jsonl"));
    CHECK(fixture.ask(0).status == ChatStatus::pending);
    CHECK(fixture.logged.empty());
}

TEST_CASE("prompts that are not valid UTF-8 are recognised again", "[llm][batch]") {
    Fixture fixture;
    for (int i = 0; i < 2; ++i) {
        CHECK(fixture.make()->complete(request_of(0, "a\xff\xfe z"), {}).status ==
              ChatStatus::pending);
    }
}

TEST_CASE("concurrent requests are each queued exactly once", "[llm][batch]") {
    Fixture fixture;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                for (std::uint64_t expansion = 0; expansion < 5; ++expansion) {
                    static_cast<void>(fixture.ask(expansion));
                }
            });
        }
    }
    const std::string requests = fixture.read("requests.jsonl");
    CHECK(std::ranges::count(requests, '\n') == 5);
}

TEST_CASE("batch options that make no sense are refused", "[llm][batch]") {
    const auto refused = [](const char* options) {
        return error_of([&] {
                   static_cast<void>(
                       kernelforge_plugin_llm_batch.llm_backends[0].create(options, {}));
               })
            .value_or("");
    };
    CHECK_THAT(refused(R"({"model":"m"})"), ContainsSubstring("expected a member \"folder\""));
    CHECK_THAT(refused(R"({"folder":"","model":"m"})"), ContainsSubstring("expected a folder"));
    CHECK_THAT(refused(R"({"folder":"/dev/null/x","model":"m"})"),
               ContainsSubstring("cannot create folder"));
    CHECK_THAT(refused(R"({"folder":"/tmp","model":"m","prices":{"input_per_million":-1}})"),
               ContainsSubstring("not negative"));
}
