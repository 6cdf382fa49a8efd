// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/plugin.hpp"
#include "messages_format.hpp"
#include "support/catch.hpp"
#include "support/http_server.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_anthropic);

using namespace kernelforge;
using namespace kernelforge::test;

namespace {

const std::string secret_key = "sk-ant-0123456789abcdef";

Json message(Json content, const std::string& stop_reason = "end_turn") {
    return {{"type", "message"},
            {"role", "assistant"},
            {"model", "claude-x"},
            {"content", std::move(content)},
            {"stop_reason", stop_reason},
            {"usage",
             {{"input_tokens", 10},
              {"cache_creation_input_tokens", 100},
              {"cache_read_input_tokens", 1000},
              {"output_tokens", 7}}}};
}

Json text(const std::string& words) {
    return {{"type", "text"}, {"text", words}};
}

ChatRequest conversation() {
    ChatRequest request;
    request.max_output_tokens = 512;
    request.messages = {{.role = ChatRole::system, .content = "rules"},
                        {.role = ChatRole::user, .content = "task"}};
    return request;
}

std::unique_ptr<LlmBackend> backend_of(const std::string& url, Json options = Json::object()) {
    options["base_url"] = url;
    options["model"] = "claude-x";
    options["api_key_name"] = "KEY";
    if (!options.contains("backoff_seconds")) options["backoff_seconds"] = 0.01;
    return kernelforge_plugin_llm_anthropic.llm_backends[0].create(
        dump_json(options),
        {.log = {},
         .secrets = [](std::string_view) -> std::optional<std::string> { return secret_key; },
         .worker_path = {},
         .cache_folder = {}});
}

anthropic::BodyOptions body_options(const std::string& options) {
    const JsonDocument document(options, "options");
    return anthropic::decode_body_options(document.root());
}

ChatReply decoded(const Json& body) {
    const JsonDocument document(dump_json(body), "answer");
    return anthropic::decode_message(document.root(), std::nullopt);
}

std::string options_error(const Json& more) {
    Json options = {{"model", "m"}};
    options.update(more);
    try {
        static_cast<void>(
            kernelforge_plugin_llm_anthropic.llm_backends[0].create(dump_json(options), {}));
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("the anthropic backend posts a messages request and reads the reply",
          "[llm][anthropic]") {
    HttpServer server({sends(
        http_response(200, "application/json", dump_json(message({text("hel"), text("lo")}))))});
    const auto backend = backend_of(
        server.url(), {{"prices", {{"input_per_million", 3.0}, {"output_per_million", 15.0}}}});
    const ChatReply reply = backend->complete(conversation(), {});
    CHECK(reply.status == ChatStatus::ok);
    CHECK(reply.content == "hello");
    CHECK(reply.model == "claude-x");
    CHECK(reply.usage.input_tokens == 1110);
    CHECK(reply.usage.cached_input_tokens == 1000);
    CHECK(reply.usage.output_tokens == 7);
    CHECK(reply.usage.cost_usd.value_or(0) ==
          Approx((10 * 3.0 + 100 * 3.75 + 1000 * 0.3 + 7 * 15.0) / 1e6).epsilon(1e-12));
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].path == "/v1/messages");
    CHECK(requests[0].headers.at("x-api-key") == secret_key);
    CHECK(requests[0].headers.at("anthropic-version") == "2023-06-01");
    CHECK_FALSE(requests[0].headers.contains("authorization"));
    const Json body = Json::parse(requests[0].body);
    CHECK(body["model"] == "claude-x");
    CHECK(body["max_tokens"] == 512);
    CHECK(body["system"][0]["text"] == "rules");
    CHECK(body["messages"][0]["role"] == "user");
    CHECK(body["messages"][0]["content"][0]["text"] == "task");
    CHECK_FALSE(body.contains("temperature"));
}

TEST_CASE("the cached prefix of a conversation has the same bytes in its next turn",
          "[llm][anthropic]") {
    const auto options = body_options(R"({"model": "m"})");
    ChatRequest request = conversation();
    const Json first = anthropic::encode_body(request, options);
    CHECK(first["system"].back()["cache_control"] == Json{{"type", "ephemeral"}});
    CHECK(first["messages"].back()["content"].back().contains("cache_control"));
    CHECK(dump_json(first) == dump_json(anthropic::encode_body(request, options)));
    request.messages.push_back({.role = ChatRole::assistant, .content = "code"});
    request.messages.push_back({.role = ChatRole::user, .content = "it does not compile"});
    const Json second = anthropic::encode_body(request, options);
    CHECK(dump_json(second["system"]) == dump_json(first["system"]));
    CHECK(second["messages"][0]["content"][0]["text"] ==
          first["messages"][0]["content"][0]["text"]);
    // Marks do not count as content; there are two of them, of four that the service allows.
    CHECK_FALSE(second["messages"][0]["content"][0].contains("cache_control"));
    CHECK(second["messages"][2]["content"][0].contains("cache_control"));
}

TEST_CASE("the cache can be kept for an hour or left off", "[llm][anthropic]") {
    const Json hour =
        anthropic::encode_body(conversation(), body_options(R"({"model": "m", "cache": "1h"})"));
    CHECK(hour["system"][0]["cache_control"]["ttl"] == "1h");
    const Json off =
        anthropic::encode_body(conversation(), body_options(R"({"model": "m", "cache": "off"})"));
    CHECK(dump_json(off).find("cache_control") == std::string::npos);
}

TEST_CASE("tools, their calls and their results take the service's form", "[llm][anthropic]") {
    ChatRequest request = conversation();
    request.tools = {{.name = "search",
                      .description = "finds code",
                      .parameters = R"({"type":"object","properties":{"q":{"type":"string"}}})"}};
    request.messages.push_back(
        {.role = ChatRole::assistant,
         .content = "",
         .tool_calls = {{.id = "a", .name = "search", .arguments = R"({"q":"mma"})"},
                        {.id = "b", .name = "search", .arguments = ""}}});
    request.messages.push_back({.role = ChatRole::tool, .content = "found", .tool_call_id = "a"});
    request.messages.push_back({.role = ChatRole::tool, .content = "", .tool_call_id = "b"});
    request.messages.push_back({.role = ChatRole::user, .content = "go on"});
    const Json body =
        anthropic::encode_body(request, body_options(R"({"model": "m", "cache": "off"})"));
    CHECK(body["tools"][0]["input_schema"]["properties"]["q"]["type"] == "string");
    REQUIRE(body["messages"].size() == 3);
    CHECK(body["messages"][1]["content"][0]["input"]["q"] == "mma");
    CHECK(body["messages"][1]["content"][1]["input"] == Json::object());
    const Json& results = body["messages"][2]["content"];
    REQUIRE(results.size() == 3);
    CHECK(results[0] == Json{{"type", "tool_result"}, {"tool_use_id", "a"}, {"content", "found"}});
    CHECK(results[1]["tool_use_id"] == "b");
    CHECK(results[2]["text"] == "go on");

    const ChatReply reply = decoded(
        message({{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "x"}},
                 text("I look"),
                 {{"type", "tool_use"}, {"id", "c"}, {"name", "search"}, {"input", {{"q", "x"}}}}},
                "tool_use"));
    CHECK(reply.status == ChatStatus::ok);
    CHECK(reply.content == "I look");
    REQUIRE(reply.tool_calls.size() == 1);
    CHECK(reply.tool_calls[0].id == "c");
    CHECK(reply.tool_calls[0].arguments == R"({"q":"x"})");
}

TEST_CASE("why the model stopped becomes the reply's status", "[llm][anthropic]") {
    CHECK(decoded(message({text("x")}, "max_tokens")).status == ChatStatus::truncated);
    CHECK(decoded(message({text("x")}, "model_context_window_exceeded")).status ==
          ChatStatus::truncated);
    CHECK(decoded(message(Json::array(), "refusal")).status == ChatStatus::refused);
    CHECK(decoded(message({text("x")}, "stop_sequence")).status == ChatStatus::ok);
    CHECK(decoded(message(Json::array())).message == "the model gave no text");
}

TEST_CASE("an answer that says nothing of tokens gives none", "[llm][anthropic]") {
    Json body = message({text("x")});
    body.erase("usage");
    CHECK_FALSE(decoded(body).usage.input_tokens);
    body["usage"] = {{"input_tokens", -1}, {"output_tokens", 1e300}};
    CHECK_FALSE(decoded(body).usage.input_tokens);
    CHECK_FALSE(decoded(body).usage.output_tokens);
}

TEST_CASE("an overloaded service is asked again, a wrong request is not", "[llm][anthropic]") {
    const auto error = [](int status, const std::string& type) {
        return sends(http_response(
            status, "application/json",
            dump_json({{"type", "error"},
                       {"error", {{"type", type}, {"message", "no: " + secret_key}}}})));
    };
    {
        HttpServer server(
            {error(529, "overloaded_error"),
             sends(http_response(200, "application/json", dump_json(message({text("late")}))))});
        CHECK(backend_of(server.url())->complete(conversation(), {}).content == "late");
        CHECK(server.requests().size() == 2);
    }
    HttpServer server({error(400, "invalid_request_error")});
    std::string said;
    try {
        static_cast<void>(backend_of(server.url())->complete(conversation(), {}));
    } catch (const Error& failure) {
        said = failure.what();
        CHECK(failure.code() == ErrorCode::backend_failed);
    }
    CHECK_THAT(said,
               ContainsSubstring("anthropic at") && ContainsSubstring("HTTP 400: no: [secret]"));
    CHECK(server.requests().size() == 1);
}

TEST_CASE("answers that are no messages are refused with the place", "[llm][anthropic]") {
    for (const char* body :
         {R"({"type":"message"})", R"({"content":[{"text":"x"}]})", R"({"content":"x"})", "[]",
          R"({"content":[{"type":"text"}]})", R"({"type":"error","error":{"message":"m"}})"}) {
        const JsonDocument document(body, "answer");
        CHECK_THROWS_AS(anthropic::decode_message(document.root(), std::nullopt), Error);
    }
}

TEST_CASE("conversations that the service would refuse are refused before", "[llm][anthropic]") {
    const auto options = body_options(R"({"model": "m"})");
    ChatRequest request;
    request.messages = {{.role = ChatRole::system, .content = "rules"}};
    CHECK_THROWS_AS(anthropic::encode_body(request, options), Error);
    request.messages.push_back({.role = ChatRole::assistant, .content = "x"});
    CHECK_THROWS_AS(anthropic::encode_body(request, options), Error);
    request = conversation();
    request.messages.push_back({.role = ChatRole::assistant, .content = ""});
    CHECK_THROWS_AS(anthropic::encode_body(request, options), Error);
    request = conversation();
    request.messages.push_back({.role = ChatRole::assistant,
                                .content = "",
                                .tool_calls = {{.id = "a", .name = "f", .arguments = "[1]"}}});
    CHECK_THROWS_AS(anthropic::encode_body(request, options), Error);
}

TEST_CASE("wrong options of the anthropic backend are named", "[llm][anthropic]") {
    CHECK_THAT(options_error({{"cache", "10m"}}), ContainsSubstring("\"off\", \"5m\" or \"1h\""));
    CHECK_THAT(options_error({{"cache", true}}), ContainsSubstring("\"off\", \"5m\" or \"1h\""));
    CHECK_THAT(options_error({{"temperature", 1.5}}), ContainsSubstring("from 0 to 1"));
    CHECK_THAT(options_error({{"max_tokens_field", "x"}}), ContainsSubstring("unknown member"));
    CHECK_THAT(options_error({{"extra", {{"stream", true}}}}), ContainsSubstring("streaming"));
    CHECK_THAT(options_error({{"base_url", "https://api.anthropic.com/v1/"}}),
               ContainsSubstring("without /v1"));
    CHECK_THAT(options_error({{"model", ""}}), ContainsSubstring("name of a model"));
    CHECK(options_error({{"prices", {{"input_per_million", 1}, {"output_per_million", 2}}}}) ==
          "no error");
}
