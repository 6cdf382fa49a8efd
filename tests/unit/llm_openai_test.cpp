// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/plugin.hpp"
#include "support/catch.hpp"
#include "support/http_server.hpp"
#include "support/support.hpp"

KERNELFORGE_DECLARE_PLUGIN(llm_openai);

using namespace kernelforge;
using namespace kernelforge::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

const std::string secret_key = "sk-test-0123456789abcdef";

const std::string completion =
    R"({"id":"c","object":"chat.completion","model":"tiny-1","choices":[{"index":0,"message":)"
    R"({"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":)"
    R"({"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}})";

std::string ok() {
    return http_response(200, "application/json", completion);
}

ChatRequest request_of(const std::string& text = "hi") {
    ChatRequest request;
    request.messages = {{.role = ChatRole::user, .content = text}};
    return request;
}

/// A backend, and everything that it says.
struct Client {
    std::mutex mutex;  // guards said
    std::vector<std::string> said;
    std::unique_ptr<LlmBackend> backend;

    explicit Client(const std::string& url, Json options = Json::object(),
                    const std::string& key = secret_key) {
        options["base_url"] = url + "/v1";
        options["model"] = "tiny";
        options["api_key_name"] = "TEST_KEY";
        if (!options.contains("backoff_seconds")) options["backoff_seconds"] = 0.02;
        backend = kernelforge_plugin_llm_openai.llm_backends[0].create(
            dump_json(options),
            {.log =
                 [this](LogLevel, std::string_view line) {
                     const std::lock_guard lock(mutex);
                     said.emplace_back(line);
                 },
             .secrets = [key](std::string_view name) -> std::optional<std::string> {
                 return name == "TEST_KEY" ? std::optional(key) : std::nullopt;
             },
             .worker_path = {},
             .cache_folder = {}});
    }

    ChatReply ask(std::stop_token stop = {}, const std::string& text = "hi") {
        return backend->complete(request_of(text), stop);
    }

    /// The error's message; checks that neither it nor the log holds the key.
    std::string fails(std::stop_token stop = {}, ErrorCode code = ErrorCode::backend_failed,
                      const std::string& text = "hi") {
        std::string message = "no error";
        try {
            static_cast<void>(ask(stop, text));
        } catch (const Error& error) {
            message = error.what();
            CHECK(error.code() == code);
        }
        CHECK(message.find(secret_key) == std::string::npos);
        for (const std::string& line : said) CHECK(line.find(secret_key) == std::string::npos);
        return message;
    }

    /// Stops while a request is under way and checks that it ends within a second.
    void check_stop(std::chrono::milliseconds before, const std::string& text = "hi") {
        std::stop_source source;
        Clock::time_point stopped;
        std::jthread stopper([&] {
            std::this_thread::sleep_for(before);
            stopped = Clock::now();
            source.request_stop();
        });
        CHECK_THAT(fails(source.get_token(), ErrorCode::cancelled, text),
                   ContainsSubstring("stopped"));
        const auto ended = Clock::now();
        stopper.join();
        CHECK(ended >= stopped);
        CHECK(ended - stopped < 1s);
    }
};

std::string http_date(std::time_t time) {
    std::tm utc{};
    gmtime_r(&time, &utc);
    char text[64];
    return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

}  // namespace

TEST_CASE("the openai backend posts the request and reads the completion", "[llm][openai]") {
    HttpServer server({sends(ok())});
    Client client(server.url(),
                  {{"headers", {{"X-Team", "kernels"}}},
                   {"extra", {{"top_p", 0.5}}},
                   {"prices", {{"input_per_million", 1.0}, {"output_per_million", 2.0}}}});
    const ChatReply reply = client.ask();
    CHECK(reply.status == ChatStatus::ok);
    CHECK(reply.content == "hello");
    CHECK(reply.model == "tiny-1");
    CHECK(reply.usage.input_tokens == 12);
    CHECK(reply.usage.cached_input_tokens == 8);
    CHECK(reply.usage.output_tokens == 3);
    CHECK(reply.usage.cost_usd.value_or(0) == Approx(18e-6).epsilon(1e-12));
    CHECK(reply.time.count() > 0);
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].method == "POST");
    CHECK(requests[0].path == "/v1/chat/completions");
    CHECK(requests[0].headers.at("authorization") == "Bearer " + secret_key);
    CHECK(requests[0].headers.at("content-type") == "application/json");
    CHECK(requests[0].headers.at("x-team") == "kernels");
    CHECK(requests[0].headers.count("expect") == 0);
    CHECK(requests[0].body ==
          R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":16384,)"
          R"("top_p":0.5})");
    CHECK(client.said.empty());
}

TEST_CASE("a server that wants no key gets none", "[llm][openai]") {
    HttpServer server({sends(ok())});
    const auto backend = kernelforge_plugin_llm_openai.llm_backends[0].create(
        R"({"model":"m","base_url":")" + server.url() + R"("})", {});
    CHECK(backend->complete(request_of(), {}).content == "hello");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].headers.count("authorization") == 0);
    CHECK(requests[0].path == "/chat/completions");
}

TEST_CASE("a large request is sent whole and without delay", "[llm][openai]") {
    HttpServer server({sends(ok())});
    Client client(server.url());
    const std::string prompt(3 << 20, 'x');
    const auto start = Clock::now();
    CHECK(client.backend->complete(request_of(prompt), {}).content == "hello");
    // libcurl's wait for "100 Continue" would be a second.
    CHECK(Clock::now() - start < 900ms);
    CHECK_THAT(server.requests().at(0).body, ContainsSubstring(prompt));
}

TEST_CASE("chunked and slow answers are read", "[llm][openai]") {
    HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (std::size_t at = 0; at < completion.size(); at += 40) {
            const std::string piece = completion.substr(at, 40);
            char size[16];
            std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
            connection.send(size + piece + "\r\n");
            connection.pause(10ms);
        }
        connection.send("0\r\n\r\n");
    }});
    CHECK(Client(server.url()).ask().content == "hello");
}

TEST_CASE("an answer without length ends where the server hangs up", "[llm][openai]") {
    HttpServer server({sends_and_closes("HTTP/1.1 200 OK\r\n\r\n" + completion)});
    CHECK(Client(server.url()).ask().content == "hello");
}

TEST_CASE("errors that pass are retried on the same connection", "[llm][openai]") {
    for (const int status : {408, 409, 429, 500, 502, 503, 504}) {
        INFO(status);
        HttpServer server(
            {sends(http_response(status, "application/json", R"({"error":{"message":"busy"}})")),
             sends(ok())});
        Client client(server.url());
        CHECK(client.ask().content == "hello");
        const auto requests = server.requests();
        REQUIRE(requests.size() == 2);
        CHECK(requests[0].body == requests[1].body);
        CHECK(requests[1].connection == 0);
        REQUIRE(client.said.size() == 1);
        CHECK_THAT(client.said[0], ContainsSubstring("attempt 1 failed"));
        CHECK_THAT(client.said[0], ContainsSubstring("HTTP " + std::to_string(status) + ": busy"));
    }
}

TEST_CASE("a kept connection that the server closed meanwhile does no harm", "[llm][openai]") {
    HttpServer server({sends_and_closes(http_response(503, "", "")), sends(ok())});
    CHECK(Client(server.url()).ask().content == "hello");
    CHECK(server.requests().at(1).connection == 1);
}

TEST_CASE("errors that do not pass end after the retries", "[llm][openai]") {
    HttpServer server({sends(http_response(500, "text/plain", "out of\r\nmemory"))});
    Client client(server.url(), {{"max_retries", 2}});
    CHECK(client.fails() == "openai at " + server.url() +
                                "/v1/chat/completions: gave up after 3 attempts: HTTP 500: out of "
                                "memory");
    CHECK(server.requests().size() == 3);
}

TEST_CASE("Retry-After is honoured, in seconds and as a date", "[llm][openai]") {
    const auto waited = [](const std::string& header) {
        HttpServer server({sends(http_response(429, "", "", header)), sends(ok())});
        Client client(server.url(), {{"backoff_seconds", 0.001}});
        const auto start = Clock::now();
        CHECK(client.ask().content == "hello");
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const double seconds = waited("Retry-After: 1\r\n");
    CHECK(seconds >= 1.0);
    CHECK(seconds < 3.0);
    // A date has whole seconds: two from now is one or two away when it is read.
    const double date = waited("retry-after: " + http_date(std::time(nullptr) + 2) + "\r\n");
    CHECK(date >= 1.0);
    CHECK(date < 4.0);
    CHECK(waited("Retry-After: " + http_date(std::time(nullptr) - 100) + "\r\n") < 1.0);
    CHECK(waited("Retry-After: soon\r\n") < 1.0);
}

TEST_CASE("a wait beyond the total limit ends the request at once", "[llm][openai]") {
    HttpServer server({sends(http_response(429, "", "", "Retry-After: 99999999999999999999\r\n"))});
    Client client(server.url(), {{"total_timeout_seconds", 5}});
    const auto start = Clock::now();
    CHECK_THAT(client.fails(),
               ContainsSubstring("would pass total_timeout_seconds 5.0 s: HTTP 429"));
    CHECK(Clock::now() - start < 2s);
}

TEST_CASE("an exhausted quota is not retried", "[llm][openai]") {
    HttpServer server({sends(http_response(
        429, "application/json",
        R"({"error":{"message":"no credit","type":"insufficient_quota","code":"insufficient_quota"}})"))});
    CHECK_THAT(Client(server.url()).fails(), ContainsSubstring("HTTP 429: no credit"));
    CHECK(server.requests().size() == 1);
}

TEST_CASE("other refusals fail at once with the server's words, never with the key",
          "[llm][openai]") {
    HttpServer server(
        {sends(http_response(401, "application/json",
                             R"({"error":{"message":"Incorrect API key provided: )" + secret_key +
                                 " " + std::string(1000, 'y') + R"("}})"))});
    const std::string message = Client(server.url()).fails();
    CHECK_THAT(message, ContainsSubstring("HTTP 401: Incorrect API key provided: [secret] yyy"));
    const std::string prefix = "openai at " + server.url() + "/v1/chat/completions: ";
    CHECK(message.size() == prefix.size() + 300);
    CHECK(server.requests().size() == 1);
}

TEST_CASE("the key does not survive at the edge of what is quoted", "[llm][openai]") {
    // At each distance the quotation would be cut at another place of the key.
    for (std::size_t distance = 255; distance < 300; distance += 3) {
        HttpServer server(
            {sends(http_response(400, "text/plain", std::string(distance, 'z') + secret_key))});
        CHECK(Client(server.url()).fails().find("sk-t") == std::string::npos);
    }
    HttpServer server({sends(http_response(
        200, "application/json",
        R"({"choices":"pad pad pad pad pad pad pad pad pad )" + secret_key + "\"}"))});
    CHECK(Client(server.url()).fails().find("sk-t") == std::string::npos);
}

TEST_CASE("values of configured headers do not appear in errors", "[llm][openai]") {
    HttpServer server({sends(http_response(403, "text/plain", "bad token tok-987654321"))});
    Client client(server.url(), {{"headers", {{"X-Token", "tok-987654321"}}}});
    CHECK_THAT(client.fails(), ContainsSubstring("HTTP 403: bad token [secret]"));
}

TEST_CASE("secrets that the server echoes with JSON escapes do not leave the backend",
          "[llm][openai]") {
    const std::string key = R"(sk"quote/slash\back-A1)";
    const std::string token = "tok/987\"654321";
    const Json options = {{"headers", {{"X-Token", token}, {"Authorization", "Bearer b/earer-1"}}},
                          {"max_retries", 0}};
    const std::string echo = R"(sk\"quote\/sl\u0061sh\\back-\u0041\u0031)"
                             R"( tok\/987\u0022654321 b\/earer-1)";
    const std::string clean = "[secret] [secret] [secret]";
    SECTION("in a reply") {
        // The arguments are JSON in a JSON string.
        HttpServer server({sends(http_response(
            200, "application/json",
            R"({"model":"m )" + echo + R"(","choices":[{"message":{"content":"c )" + echo +
                R"(","tool_calls":[{"id":"i )" + echo + R"(","function":{"name":"n )" + echo +
                R"(","arguments":"{\"a\":\"sk\\\"quote\\/slash\\\\back-\\u00411\"}"}}]}}]})"))});
        const ChatReply reply = Client(server.url(), options, key).ask();
        CHECK(reply.model == "m " + clean);
        CHECK(reply.content == "c " + clean);
        REQUIRE(reply.tool_calls.size() == 1);
        CHECK(reply.tool_calls[0].id == "i " + clean);
        CHECK(reply.tool_calls[0].name == "n " + clean);
        CHECK(reply.tool_calls[0].arguments == R"({"a":"[secret]"})");
    }
    SECTION("in a refusal, also at the edge of what is quoted") {
        for (std::size_t distance = 0; distance < 300; distance += 7) {
            HttpServer server(
                {sends(http_response(200, "application/json",
                                     R"({"choices":[{"message":{"refusal":")" +
                                         std::string(distance, 'z') + echo + R"("}}]})"))});
            const ChatReply reply = Client(server.url(), options, key).ask();
            CHECK(reply.status == ChatStatus::refused);
            CHECK(reply.message.find("sk\"") == std::string::npos);
            CHECK(reply.message.find("tok") == std::string::npos);
            if (distance == 0) CHECK(reply.message == "the model declined: " + clean);
        }
    }
    SECTION("in errors, of JSON and of what is none") {
        for (const std::string& body :
             {R"({"error":{"message":"bad )" + echo + R"("}})", "bad " + echo}) {
            for (const int status : {400, 500}) {
                HttpServer server({sends(http_response(status, "application/json", body))});
                CHECK_THAT(Client(server.url(), options, key).fails(),
                           ContainsSubstring("HTTP " + std::to_string(status)) &&
                               ContainsSubstring("bad " + clean));
            }
        }
        HttpServer server({sends(http_response(200, "application/json",
                                               R"({"error":{"message":"bad )" + echo + R"("}})"))});
        CHECK_THAT(Client(server.url(), options, key).fails(), ContainsSubstring("bad " + clean));
    }
}

TEST_CASE("a secret that looks like a number does not spoil the numbers of an answer",
          "[llm][openai]") {
    HttpServer server({sends(http_response(
        200, "application/json",
        R"({"created":1700000000,"choices":[{"message":{"content":"at 1700000000"}}]})"))});
    Client client(server.url(), {{"headers", {{"X-Project", "1700000000"}}}});
    CHECK(client.ask().content == "at [secret]");
}

TEST_CASE("answers that are no completion give one sentence", "[llm][openai]") {
    const auto message = [](const std::string& bytes) {
        HttpServer server({sends(bytes)});
        Client client(server.url());
        const std::string text = client.fails();
        CHECK(server.requests().size() == 1);
        CHECK(text.find('\n') == std::string::npos);
        return text;
    };
    CHECK_THAT(message(http_response(200, "application/json", "{\"choices\":[")),
               ContainsSubstring("answer:1:13: expected JSON"));
    CHECK_THAT(message(http_response(200, "application/json", R"({"choices":[]})")),
               ContainsSubstring("expected at least one choice, found none"));
    CHECK_THAT(
        message(http_response(200, "text/html; charset=utf-8",
                              "<html><head><title>Sign in\n please</title></head></html>")),
        ContainsSubstring("expected JSON, found an HTML page, \"Sign in please\"; base_url may"));
    CHECK_THAT(message(http_response(200, "application/json", R"({"error":{"message":"gone"}})")),
               ContainsSubstring("the server reports: gone"));
    CHECK_THAT(message(http_response(404, "text/html", "<!doctype html><p>nothing")),
               ContainsSubstring("HTTP 404 with an HTML page"));
    CHECK_THAT(message(http_response(400, "", "")),
               ContainsSubstring("HTTP 400 with an empty body"));
}

TEST_CASE("an HTML error page of a gateway is retried and named", "[llm][openai]") {
    HttpServer server({sends(http_response(
        502, "text/html", "<html><title>502 Bad Gateway</title><body>...</body></html>"))});
    Client client(server.url(), {{"max_retries", 1}});
    CHECK_THAT(client.fails(), ContainsSubstring("gave up after 2 attempts: HTTP 502 with an HTML "
                                                 "page, \"502 Bad Gateway\""));
}

TEST_CASE("a redirect is not followed", "[llm][openai]") {
    HttpServer other({sends(ok())});
    HttpServer server(
        {sends(http_response(307, "", "", "Location: " + other.url() + "/v1?token=abc\r\n"))});
    const std::string message = Client(server.url()).fails();
    CHECK_THAT(message, ContainsSubstring("HTTP 307, a redirect to " + other.url() +
                                          "/v1, which is "
                                          "not followed"));
    CHECK(message.find("token") == std::string::npos);
    CHECK(other.requests().empty());
}

TEST_CASE("an answer that is cut off is retried and then reported", "[llm][openai]") {
    const std::string cut = "the answer was cut off";
    const std::string empty = "expected JSON, found an empty answer";
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", cut},
        {"HTTP/1.1 200 OK\r\nContent-Le", empty},
        {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"ch", cut},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{\"choi", cut},
        {http_response(200, "", ""), empty}};
    for (const auto& [bytes, sentence] : cases) {
        INFO(bytes);
        HttpServer server({sends_and_closes(bytes)});
        CHECK_THAT(Client(server.url(), {{"max_retries", 1}}).fails(),
                   ContainsSubstring("gave up after 2 attempts: " + sentence));
        HttpServer later({sends_and_closes(bytes), sends(ok())});
        CHECK(Client(later.url()).ask().content == "hello");
    }
}

TEST_CASE("an answer that is no HTTP is one sentence", "[llm][openai]") {
    HttpServer server({sends_and_closes("SSH-2.0-OpenSSH_9.2\r\n")});
    Client client(server.url(), {{"max_retries", 0}});
    CHECK_THAT(client.fails(), ContainsSubstring("HTTP/0.9"));
}

TEST_CASE("a body without end is given up at 32 MiB", "[llm][openai]") {
    HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
        connection.send("HTTP/1.1 200 OK\r\n\r\n");
        const std::string block(1 << 20, ' ');
        for (int i = 0; i < 40; ++i) connection.send(block);
        connection.close_after();
    }});
    CHECK_THAT(Client(server.url()).fails(), ContainsSubstring("the answer is longer than 32 MiB"));
    CHECK(server.requests().size() == 1);
}

TEST_CASE("headers without end are given up", "[llm][openai]") {
    HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
        connection.send("HTTP/1.1 200 OK\r\n");
        const std::string line = "X-More: " + std::string(1000, 'h') + "\r\n";
        for (int i = 0; i < 3000; ++i) connection.send(line);
        connection.close_after();
    }});
    // Which of the two limits speaks depends on libcurl's version.
    const std::string message = Client(server.url(), {{"max_retries", 0}}).fails();
    CHECK_THAT(message, ContainsSubstring("header"));
}

TEST_CASE("an attempt that takes too long is given up and retried", "[llm][openai]") {
    HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
                           connection.pause(5s);
                           connection.close_after();
                       },
                       sends(ok())});
    Client client(server.url(), {{"timeout_seconds", 0.2}});
    CHECK(client.ask().content == "hello");
    REQUIRE(client.said.size() == 1);
    CHECK_THAT(client.said[0], ContainsSubstring("timed out"));
}

TEST_CASE("a server that cannot be reached is retried and then reported", "[llm][openai]") {
    Client closed(closed_port_url(), {{"max_retries", 1}});
    CHECK_THAT(closed.fails(), ContainsSubstring("gave up after 2 attempts: Failed to connect"));
    HangingPort hanging;
    Client slow(hanging.url(), {{"max_retries", 0}, {"connect_timeout_seconds", 0.2}});
    CHECK_THAT(slow.fails(), ContainsSubstring("gave up after 1 attempt: "));
}

TEST_CASE("a stop ends a request in every phase within a second", "[llm][openai]") {
    SECTION("before it begins") {
        HttpServer server({sends(ok())});
        std::stop_source source;
        source.request_stop();
        CHECK_THAT(Client(server.url()).fails(source.get_token(), ErrorCode::cancelled),
                   ContainsSubstring("stopped"));
        CHECK(server.requests().empty());
    }
    SECTION("while connecting") {
        HangingPort port;
        Client(port.url()).check_stop(100ms);
    }
    SECTION("while the server thinks") {
        HttpServer server(
            {[](const HttpRequest&, HttpConnection& connection) { connection.pause(30s); }});
        Client(server.url()).check_stop(100ms);
        CHECK(server.requests().size() == 1);
    }
    SECTION("inside the headers") {
        HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
            connection.send("HTTP/1.1 200 OK\r\nContent-Ty");
            connection.pause(30s);
        }});
        Client(server.url()).check_stop(100ms);
    }
    SECTION("inside a slow body") {
        HttpServer server({[](const HttpRequest&, HttpConnection& connection) {
            connection.send("HTTP/1.1 200 OK\r\n\r\n");
            for (int i = 0; i < 300; ++i) {
                connection.send(" ");
                connection.pause(100ms);
            }
        }});
        Client(server.url()).check_stop(150ms);
    }
    SECTION("while waiting for the next attempt") {
        HttpServer server({sends(http_response(429, "", "", "Retry-After: 600\r\n"))});
        Client(server.url()).check_stop(200ms);
        CHECK(server.requests().size() == 1);
    }
    SECTION("while sending a body that nobody reads") {
        // More than the buffers of both sockets hold.
        HangingPort port(HangingPort::Kind::unread);
        Client(port.url()).check_stop(400ms, std::string(16 << 20, 'x'));
    }
}

TEST_CASE("proxies are used only when the options say so", "[llm][openai]") {
    HttpServer server({sends(ok())});
    const std::string nowhere = closed_port_url();
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
        ::setenv(name, nowhere.c_str(), 1);
    }
    ::setenv("no_proxy", "*", 1);
    CHECK(Client(server.url()).ask().content == "hello");

    HttpServer proxy({sends(ok())});
    std::string address = proxy.url();
    address.insert(address.find("//") + 2, "user:password-1@");
    Client client("http://model.invalid", {{"proxy", address}});
    CHECK(client.ask().content == "hello");
    CHECK(proxy.requests().at(0).path == "http://model.invalid/v1/chat/completions");
    CHECK(proxy.requests().at(0).headers.count("proxy-authorization") == 1);
    for (const char* name : {"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "no_proxy"}) {
        ::unsetenv(name);
    }
}

TEST_CASE("a missing or unusable secret is named, not shown", "[llm][openai]") {
    const auto message = [](const std::optional<std::string>& key) {
        const auto backend = kernelforge_plugin_llm_openai.llm_backends[0].create(
            R"({"model":"m","api_key_name":"MY_KEY","base_url":"http://127.0.0.1:9"})",
            {.log = {},
             .secrets = [key](std::string_view) { return key; },
             .worker_path = {},
             .cache_folder = {}});
        return error_of([&] { static_cast<void>(backend->complete(request_of(), {})); })
            .value_or("");
    };
    CHECK_THAT(message(std::nullopt), ContainsSubstring("no secret is named MY_KEY"));
    CHECK_THAT(message("  \n"), ContainsSubstring("no secret is named MY_KEY"));
    const std::string split = message("abcdefgh\r\nX-Evil: 1");
    CHECK_THAT(split, ContainsSubstring("expected one line as secret MY_KEY"));
    CHECK(split.find("abcdefgh") == std::string::npos);
}

TEST_CASE("a key that was read from a file loses its newline", "[llm][openai]") {
    HttpServer server({sends(ok())});
    const auto backend = kernelforge_plugin_llm_openai.llm_backends[0].create(
        R"({"model":"m","api_key_name":"K","base_url":")" + server.url() + R"("})",
        {.log = {},
         .secrets = [](std::string_view) { return "key-from-file\n"; },
         .worker_path = {},
         .cache_folder = {}});
    CHECK(backend->complete(request_of(), {}).content == "hello");
    CHECK(server.requests().at(0).headers.at("authorization") == "Bearer key-from-file");
}

TEST_CASE("the pauses between attempts repeat with the seed", "[llm][openai]") {
    const auto pauses = [](int seed) {
        HttpServer server({sends(http_response(500, "", "")), sends(http_response(500, "", "")),
                           sends(http_response(500, "", "")), sends(ok())});
        Client client(server.url(), {{"seed", seed}, {"backoff_seconds", 0.1}});
        static_cast<void>(client.ask());
        std::string text;
        for (const std::string& line : client.said) {
            const std::size_t at = line.find("next in ");
            text += line.substr(at, line.find(':', at) - at) + ";";
        }
        return text;
    };
    const std::string first = pauses(1);
    CHECK(first == pauses(1));
    CHECK(first != pauses(2));
}

TEST_CASE("openai options that make no sense are refused", "[llm][openai]") {
    const auto refused = [](const std::string& more) {
        return error_of([&] {
                   static_cast<void>(kernelforge_plugin_llm_openai.llm_backends[0].create(
                       R"({"model":"m",)" + more + "}", {}));
               })
            .value_or("");
    };
    CHECK_THAT(refused(R"("base_url":"ftp://x")"), ContainsSubstring("expected http://HOST"));
    CHECK_THAT(refused(R"("base_url":"http://a b")"), ContainsSubstring("expected http://HOST"));
    CHECK_THAT(refused(R"("base_url":"http://")"), ContainsSubstring("expected http://HOST"));
    CHECK_THAT(refused(R"("base_url":"http://a/v1?key=1")"), ContainsSubstring("without a query"));
    const std::string credentials = refused(R"("base_url":"https://me:secret-word@host/v1")");
    CHECK_THAT(credentials, ContainsSubstring("without credentials"));
    CHECK(credentials.find("secret-word") == std::string::npos);
    CHECK_THAT(refused(R"("timeout_seconds":0)"), ContainsSubstring("expected seconds from 0.001"));
    CHECK_THAT(refused(R"("max_retries":-1)"),
               ContainsSubstring("expected an integer from 0 to 100"));
    CHECK_THAT(refused(R"("headers":{"A b":"c"})"),
               ContainsSubstring("expected the name of a header"));
    CHECK_THAT(refused(R"("headers":{"A":"c\r\nB: d"})"),
               ContainsSubstring("expected one line of text as value of header A"));
    const std::string number = refused(R"("headers":{"A":123456789})");
    CHECK_THAT(number, ContainsSubstring("llm openai options:1:") &&
                           ContainsSubstring("expected one line of text as value of header A"));
    CHECK(number.find("123456789") == std::string::npos);
    CHECK_THAT(refused(R"("prices":{"input_per_million":1})"),
               ContainsSubstring("expected a member \"output_per_million\""));
}
