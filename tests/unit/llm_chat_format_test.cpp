// SPDX-License-Identifier: Apache-2.0
#include "chat_format.hpp"

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::chat;
using kernelforge::test::error_of;

namespace {

ChatReply decode(const std::string& text, const std::optional<Prices>& prices = {}) {
    const JsonDocument document(text, "answer");
    return decode_completion(document.root(), prices);
}

std::string fails(const std::string& text) {
    return error_of([&] { static_cast<void>(decode(text)); }).value_or("");
}

/// A completion whose only choice is `choice`.
std::string with_choice(const std::string& choice) {
    return R"({"choices":[)" + choice + "]}";
}

BodyOptions options_of(const std::string& text) {
    const JsonDocument document(text, "options");
    return decode_body_options(document.root());
}

}  // namespace

TEST_CASE("a request becomes a chat/completions body", "[llm][format]") {
    ChatRequest request;
    request.messages = {
        {.role = ChatRole::system, .content = "be brief"},
        {.role = ChatRole::user, .content = "hello"},
        {.role = ChatRole::assistant, .content = "", .tool_calls = {{"c1", "look", "{\"x\":1}"}}},
        {.role = ChatRole::tool, .content = "seen", .tool_calls = {}, .tool_call_id = "c1"}};
    request.tools = {{"look", "looks", R"({"type":"object"})"}};
    request.max_output_tokens = 77;
    const Json body = encode_body(
        request,
        options_of(R"({"model":"m","temperature":0.5,"extra":{"top_p":0.9,"model":"n"}})"));
    CHECK(dump_json(body) ==
          R"({"model":"n","messages":[{"role":"system","content":"be brief"},)"
          R"({"role":"user","content":"hello"},{"role":"assistant","content":null,"tool_calls":)"
          R"([{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"x\":1}"}}]},)"
          R"({"role":"tool","content":"seen","tool_call_id":"c1"}],"max_tokens":77,)"
          R"("temperature":0.5,"tools":[{"type":"function","function":{"name":"look",)"
          R"("description":"looks","parameters":{"type":"object"}}}],"top_p":0.9})");
}

TEST_CASE("options change the name of the output limit, and extra may remove members",
          "[llm][format]") {
    ChatRequest request;
    request.messages = {{.role = ChatRole::user, .content = "x"}};
    request.temperature = 0.25;
    const Json body =
        encode_body(request, options_of(R"({"model":"m","temperature":1,"max_tokens_field":)"
                                        R"("max_completion_tokens"})"));
    CHECK(body["max_completion_tokens"] == 16384);
    CHECK_FALSE(body.contains("max_tokens"));
    CHECK(body["temperature"] == 0.25);
    const Json less =
        encode_body(request, options_of(R"({"model":"m","extra":{"max_tokens":null}})"));
    CHECK_FALSE(less.contains("max_tokens"));
}

TEST_CASE("body options that make no sense are refused", "[llm][format]") {
    const auto refused = [](const std::string& text) {
        return error_of([&] { static_cast<void>(options_of(text)); }).value_or("");
    };
    CHECK_THAT(refused("{}"), ContainsSubstring("expected a member \"model\""));
    CHECK_THAT(refused(R"({"model":""})"), ContainsSubstring("expected the name of a model"));
    CHECK_THAT(refused(R"({"model":"m","max_tokens_field":"limit"})"),
               ContainsSubstring("expected \"max_tokens\" or \"max_completion_tokens\""));
    CHECK_THAT(refused(R"({"model":"m","temperature":-1})"), ContainsSubstring("not negative"));
    CHECK_THAT(refused(R"({"model":"m","extra":[]})"), ContainsSubstring("expected an object"));
    CHECK_THAT(refused(R"({"model":"m","extra":{"stream":true}})"),
               ContainsSubstring("expected no streaming"));
}

TEST_CASE("a tool whose parameters are no JSON object is refused", "[llm][format]") {
    ChatRequest request;
    request.tools = {{"look", "", "[1]"}};
    CHECK_THAT(error_of([&] { static_cast<void>(encode_tools(request)); }).value_or(""),
               ContainsSubstring("parameters of tool look:1:1: expected a JSON schema object"));
}

TEST_CASE("a completion gives content, usage and cost", "[llm][format]") {
    const Prices prices{
        .input_per_million = 2.0, .cached_input_per_million = 0.5, .output_per_million = 10.0};
    const ChatReply reply =
        decode(R"({"model":"m-2","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],)"
               R"("usage":{"prompt_tokens":1000,"completion_tokens":100,)"
               R"("prompt_tokens_details":{"cached_tokens":400}}})",
               prices);
    CHECK(reply.status == ChatStatus::ok);
    CHECK(reply.content == "hi");
    CHECK(reply.model == "m-2");
    CHECK(reply.usage.input_tokens == 1000);
    CHECK(reply.usage.cached_input_tokens == 400);
    CHECK(reply.usage.output_tokens == 100);
    REQUIRE(reply.usage.cost_usd);
    // 600 x 2 + 400 x 0.5 + 100 x 10 dollars per million; rounding only.
    CHECK(*reply.usage.cost_usd == Approx(0.0024).epsilon(1e-12));
}

TEST_CASE("without prices or without usage there is no cost", "[llm][format]") {
    const std::string choice = R"("choices":[{"message":{"content":"x"}}])";
    CHECK_FALSE(decode("{" + choice + R"(,"usage":{"prompt_tokens":1,"completion_tokens":1}})")
                    .usage.cost_usd);
    const ChatReply none = decode("{" + choice + R"(,"usage":null})", Prices{});
    CHECK_FALSE(none.usage.input_tokens);
    CHECK_FALSE(none.usage.cost_usd);
    const ChatReply strange = decode(
        "{" + choice + R"(,"usage":{"prompt_tokens":-4,"completion_tokens":"many"}})", Prices{});
    CHECK_FALSE(strange.usage.input_tokens);
    CHECK_FALSE(strange.usage.output_tokens);
}

TEST_CASE("a completion tells when it was cut off or declined", "[llm][format]") {
    const ChatReply cut =
        decode(with_choice(R"({"message":{"content":"half"},"finish_reason":"length"})"));
    CHECK(cut.status == ChatStatus::truncated);
    CHECK(cut.content == "half");
    CHECK_FALSE(cut.message.empty());
    CHECK(decode(with_choice(R"({"message":{"content":null},"finish_reason":"length"})")).status ==
          ChatStatus::truncated);
    CHECK(decode(with_choice(R"({"message":{"content":""},"finish_reason":"content_filter"})"))
              .status == ChatStatus::refused);
    const ChatReply declined =
        decode(with_choice(R"({"message":{"content":null,"refusal":"I will not"}})"));
    CHECK(declined.status == ChatStatus::refused);
    CHECK_THAT(declined.message, ContainsSubstring("I will not"));
}

TEST_CASE("content may be null, absent or a list of parts", "[llm][format]") {
    CHECK(decode(with_choice(R"({"message":{"content":null}})")).content.empty());
    CHECK(decode(with_choice(R"({"message":{}})")).message == "the model gave no text");
    CHECK(decode(with_choice(
                     R"({"message":{"content":[{"type":"text","text":"a"},{"text":"b"},{}]}})"))
              .content == "ab");
}

TEST_CASE("tool calls are read, with arguments as text or as an object", "[llm][format]") {
    const ChatReply reply = decode(with_choice(
        R"({"message":{"content":null,"tool_calls":[)"
        R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
        R"({"function":{"name":"g","arguments":{"b":2}}}]},"finish_reason":"tool_calls"})"));
    CHECK(reply.status == ChatStatus::ok);
    REQUIRE(reply.tool_calls.size() == 2);
    CHECK(reply.tool_calls[0].id == "c1");
    CHECK(reply.tool_calls[0].name == "f");
    CHECK(reply.tool_calls[0].arguments == R"({"a":1})");
    CHECK(reply.tool_calls[1].arguments == R"({"b":2})");
}

TEST_CASE("a completion that is none says so with its position", "[llm][format]") {
    CHECK_THAT(fails("[]"), ContainsSubstring("answer:1:1: expected an object"));
    CHECK_THAT(fails("{}"), ContainsSubstring("expected a member \"choices\""));
    CHECK_THAT(fails(R"({"choices":[]})"),
               ContainsSubstring("answer:1:12: expected at least one choice"));
    CHECK_THAT(fails(R"({"choices":3})"), ContainsSubstring("answer:1:12: expected an array"));
    CHECK_THAT(fails(R"({"choices":[{}]})"), ContainsSubstring("expected a member \"message\""));
    CHECK_THAT(fails(R"({"choices":[{"message":7}]})"), ContainsSubstring("expected an object"));
    CHECK_THAT(fails(R"({"choices":[{"message":{"content":7}}]})"),
               ContainsSubstring("expected a string, found 7"));
    CHECK_THAT(fails(R"({"error":{"message":"no money"}})"),
               ContainsSubstring("the server reports: no money"));
}

TEST_CASE("the error of a server is found in its usual places", "[llm][format]") {
    const auto message = [](const std::string& text) {
        const JsonDocument document(text, "answer");
        const auto error = server_error(document.root());
        return error ? error->message : "none";
    };
    CHECK(message(R"({"error":{"message":"a","code":"c"}})") == "a");
    CHECK(message(R"({"error":"b"})") == "b");
    CHECK(message(R"({"error":{"status":5}})") == R"({"status":5})");
    CHECK(message(R"({"detail":"c"})") == "c");
    CHECK(message(R"({"detail":[{"loc":1}]})") == R"([{"loc":1}])");
    CHECK(message(R"({"object":"error","message":"d"})") == "d");
    CHECK(message(R"({"error":null})") == "none");
    CHECK(message("7") == "none");
}

TEST_CASE("text of others is put on one line of limited length", "[llm][format]") {
    CHECK(one_line("a\r\n\t b\x01 c ") == "a b c");
    CHECK(one_line("abcdefgh", 6) == "abc...");
    CHECK(one_line("abcdef", 6) == "abcdef");
    CHECK(one_line("ab\xc3\xa9\xc3\xa9", 6) == "ab\xc3\xa9\xc3\xa9");
    // Cut between characters, never inside one.
    CHECK(one_line("ab\xc3\xa9\xc3\xa9xyz", 6) == "ab...");
}

TEST_CASE("a transcript shows who says what", "[llm][format]") {
    ChatRequest request;
    request.messages = {
        {.role = ChatRole::system, .content = "rules"},
        {.role = ChatRole::assistant, .content = "", .tool_calls = {{"c1", "f", "{}"}}},
        {.role = ChatRole::tool, .content = "seen\n", .tool_calls = {}, .tool_call_id = "c1"}};
    CHECK(transcript(request) ==
          "### system\n\nrules\n\n### assistant\n\ncalls f (c1): {}\n\n### tool c1\n\nseen\n");
}

TEST_CASE("an answer with a hostile number of members is refused in bounded time",
          "[llm][format]") {
    std::string text = "{";
    for (int i = 0; i < 100'000; ++i) text += "\"" + std::to_string(i) + "\":1,";
    CHECK_THAT(fails(text + "\"a\":1}"), ContainsSubstring("expected at most 8192 members"));
}
