// SPDX-License-Identifier: Apache-2.0
#include "http_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "chat_format.hpp"
#include "chat_json.hpp"
#include "http_client.hpp"
#include "secrets.hpp"

namespace kernelforge {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds longest_backoff{60.0};

struct TransportOptions {
    HttpOptions http;  ///< `headers` without the key
    std::string api_key_name;
    std::vector<std::string> private_texts;  ///< header values, proxy credentials
    std::size_t max_retries = 5;
    Seconds timeout{600};
    Seconds total_timeout{1800};
    Seconds backoff{1};
    std::uint64_t seed = 0;
};

bool has_control(std::string_view text) {
    return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

/// What stands between "://" and the path.
std::string_view authority_of(std::string_view url) {
    const std::size_t start = url.find("://");
    if (start != std::string_view::npos) url.remove_prefix(start + 3);
    return url.substr(0, url.find_first_of("/?#"));
}

std::string decode_url(const JsonNode& options, const HttpDialect& dialect) {
    std::string url = options.string_or("base_url", dialect.base_url);
    const auto node = options.find("base_url");
    // What may be secret is not quoted.
    if (url.find('@') != std::string::npos || url.find('?') != std::string::npos) {
        node->fail(ErrorCode::parse,
                   "expected an address without credentials and without a query; "
                   "api_key_name names a secret");
    }
    const bool http = url.starts_with("http://") || url.starts_with("https://");
    if (!http || authority_of(url).empty() || has_control(url) ||
        url.find_first_of("# ") != std::string::npos) {
        node->expected("http://HOST[:PORT][/PATH] or https://…");
    }
    while (url.ends_with('/')) url.pop_back();
    return url + dialect.path;
}

Seconds decode_seconds(const JsonNode& options, std::string_view key, Seconds absent) {
    const auto node = options.find(key);
    if (!node) return absent;
    const double value = node->as_number();
    constexpr double longest_s = 7 * 24 * 3600.0;
    if (value < 0.001 || value > longest_s) node->expected("seconds from 0.001 to 604800");
    return Seconds(value);
}

void decode_headers(const JsonNode& options, const HttpDialect& dialect, TransportOptions& result) {
    result.http.headers = {"Content-Type: application/json", "Accept: application/json",
                           "User-Agent: kernelforge"};
    result.http.headers.insert(result.http.headers.end(), dialect.headers.begin(),
                               dialect.headers.end());
    const auto node = options.find("headers");
    if (!node) return;
    node->for_each_member([&](const std::string& name, const JsonNode& value) {
        if (name.empty() || has_control(name) || name.find_first_of(" :;") != std::string::npos) {
            value.fail(ErrorCode::parse,
                       "expected the name of a header, found \"" + chat::one_line(name, 60) + "\"");
        }
        const std::string text = value.json().is_string() ? value.as_string() : std::string();
        if (text.empty() || has_control(text)) {
            value.fail(ErrorCode::parse, "expected one line of text as value of header " + name);
        }
        result.http.headers.push_back(name + ": " + text);
        result.private_texts.push_back(text);
        // A server that complains about a token quotes it without the scheme.
        for (const std::string_view scheme : {"Bearer ", "Basic "}) {
            if (text.starts_with(scheme)) {
                result.private_texts.push_back(text.substr(scheme.size()));
            }
        }
    });
}

void decode_proxy(const JsonNode& options, TransportOptions& result) {
    result.http.proxy = options.string_or("proxy", "");
    const std::string_view authority = authority_of(result.http.proxy);
    const std::size_t at = authority.rfind('@');
    if (at == std::string_view::npos) return;
    result.private_texts.emplace_back(authority.substr(0, at));
    const std::size_t colon = authority.find(':');
    if (colon < at) result.private_texts.emplace_back(authority.substr(colon + 1, at - colon - 1));
}

TransportOptions decode_options(const JsonNode& node, const HttpDialect& dialect) {
    TransportOptions result;
    result.http.url = decode_url(node, dialect);
    result.http.ca_file = node.string_or("ca_file", "");
    result.http.connect_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        decode_seconds(node, "connect_timeout_seconds", Seconds(10)));
    decode_headers(node, dialect, result);
    decode_proxy(node, result);
    result.api_key_name = node.string_or("api_key_name", "");
    if (const auto retries = node.find("max_retries")) {
        result.max_retries = static_cast<std::size_t>(retries->as_integer(0, 100));
    }
    result.timeout = decode_seconds(node, "timeout_seconds", result.timeout);
    result.total_timeout = decode_seconds(node, "total_timeout_seconds", result.total_timeout);
    result.backoff = decode_seconds(node, "backoff_seconds", result.backoff);
    if (const auto seed = node.find("seed")) {
        result.seed = static_cast<std::uint64_t>(seed->as_integer(0, INT64_MAX));
    }
    return result;
}

/// Returns true after a stop.
bool wait(Seconds time, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, time, [] { return false; });
    return stop.stop_requested();
}

/// The title of an HTML page, for a person; empty when this is not one.
std::optional<std::string> html_title(const HttpResponse& response, const chat::Secrets& secrets) {
    const std::size_t start = response.body.find_first_not_of(" \t\r\n");
    const char first = start == std::string::npos ? ' ' : response.body[start];
    const bool declared = response.content_type.find("text/html") != std::string::npos;
    // Servers that declare JSON as HTML exist.
    if (first != '<' && (!declared || first == '{')) return std::nullopt;
    constexpr std::size_t searched_bytes = 16384;
    std::string head = response.body.substr(0, searched_bytes);
    std::ranges::transform(head, head.begin(), [](unsigned char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
    });
    const std::size_t open = head.find("<title>");
    const std::size_t close = head.find("</title>");
    if (open == std::string::npos || close == std::string::npos || close < open) return "";
    return chat::one_line(secrets.redact(response.body.substr(open + 7, close - open - 7)), 100);
}

std::string html_sentence(const std::string& title) {
    return title.empty() ? "an HTML page" : "an HTML page, \"" + title + "\"";
}

/// Why one attempt brought no completion.
struct Failure {
    std::string sentence;
    bool worth_retrying = false;
    std::optional<Seconds> wait;  ///< as the server asks
};

/// Where a redirect leads, without what may be secret in it.
std::string redirect_target(const std::string& location) {
    if (authority_of(location).find('@') != std::string_view::npos)
        return "an address with credentials";
    return chat::one_line(location.substr(0, location.find_first_of("?#")), 200);
}

Failure refused_request(const HttpResponse& response, const chat::Secrets& secrets) {
    Failure failure{.sentence = "HTTP " + std::to_string(response.status)};
    const long status = response.status;
    if (status >= 300 && status < 400) {
        failure.sentence += ", a redirect to " + redirect_target(response.location) +
                            ", which is not followed, expected base_url to be the final address";
        return failure;
    }
    failure.worth_retrying = status == 408 || status == 409 || status == 429 || status >= 500;
    if (response.retry_after) failure.wait = *response.retry_after;
    if (const auto title = html_title(response, secrets)) {
        failure.sentence += " with " + html_sentence(*title);
        return failure;
    }
    std::optional<chat::ServerError> error;
    try {
        const JsonDocument document = secrets.parse(response.body, "answer");
        error = chat::server_error(document.root());
    } catch (const Error&) {
        // Not JSON: the text itself is what there is to say, below.
        error.reset();
    }
    const std::string& text = error ? error->message : response.body;
    failure.sentence += text.empty() ? " with an empty body" : ": " + text;
    // OpenAI answers 429 both for "slow down" and for "no money left"; only the first passes by
    // itself.
    if (error && error->code == "insufficient_quota") failure.worth_retrying = false;
    return failure;
}

class HttpBackend final : public LlmBackend {
  public:
    HttpBackend(TransportOptions options, HttpDialect dialect, PluginContext context)
        : options_(std::move(options)),
          dialect_(std::move(dialect)),
          context_(std::move(context)),
          generator_(options_.seed) {}

    ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
        chat::check_request(request, stop, dialect_.name);
        const auto start = Clock::now();
        const std::string key = api_key();
        std::vector<std::string> private_texts = options_.private_texts;
        private_texts.push_back(key);
        const chat::Secrets secrets(std::move(private_texts));
        HttpOptions http = options_.http;
        if (!key.empty()) http.headers.push_back(dialect_.key_header + key);
        HttpClient client(std::move(http));
        const std::string body = dialect_.encode(request);
        for (std::size_t attempt = 1;; ++attempt) {
            Failure failure;
            auto reply = ask(client, body, start, secrets, stop, failure);
            if (reply) {
                secrets.redact(*reply);
                reply->time = Clock::now() - start;
                return *std::move(reply);
            }
            back_off(failure, attempt, start, secrets, stop);
        }
    }

  private:
    /// Empty when the server wants none.
    std::string api_key() const {
        if (options_.api_key_name.empty()) return {};
        const std::string where = at_server() + ": ";
        auto key = context_.secrets ? context_.secrets(options_.api_key_name) : std::nullopt;
        constexpr std::string_view space = " \t\r\n";
        // Keys that were read from a file end in a newline.
        while (key && !key->empty() && space.find(key->back()) != space.npos) key->pop_back();
        if (!key || key->empty()) {
            throw Error(ErrorCode::not_found,
                        where + "no secret is named " + options_.api_key_name);
        }
        if (has_control(*key)) {
            throw Error(ErrorCode::invalid_argument, where + "expected one line as secret " +
                                                         options_.api_key_name +
                                                         ", found control characters");
        }
        return *std::move(key);
    }

    /// One attempt. Nothing, and `failure` filled in, when it brought no completion.
    std::optional<ChatReply> ask(HttpClient& client, const std::string& body,
                                 Clock::time_point start, const chat::Secrets& secrets,
                                 const std::stop_token& stop, Failure& failure) const {
        const Seconds left = options_.total_timeout - (Clock::now() - start);
        const auto limit = std::chrono::ceil<std::chrono::milliseconds>(
            std::clamp(left, Seconds(0.001), options_.timeout));
        HttpResponse response = client.post(body, limit, stop);
        // Before messages cut out of it what they quote.
        response.location = secrets.redact(std::move(response.location));
        switch (response.outcome) {
            case HttpResponse::Outcome::stopped:
                throw_stopped();
            case HttpResponse::Outcome::failed:
            case HttpResponse::Outcome::too_large:
                failure = {.sentence = response.failure,
                           .worth_retrying = response.worth_retrying,
                           .wait = std::nullopt};
                return std::nullopt;
            case HttpResponse::Outcome::answered:
                break;
        }
        if (response.status < 200 || response.status >= 300) {
            failure = refused_request(response, secrets);
            return std::nullopt;
        }
        return read(response, secrets, failure);
    }

    std::optional<ChatReply> read(const HttpResponse& response, const chat::Secrets& secrets,
                                  Failure& failure) const {
        if (const auto title = html_title(response, secrets)) {
            failure.sentence =
                "expected JSON, found " + html_sentence(*title) + "; base_url may be wrong";
            return std::nullopt;
        }
        if (response.body.empty()) {
            // Also what libcurl makes of a connection that closes inside the headers.
            failure.sentence = "expected JSON, found an empty answer";
            failure.worth_retrying = true;
            return std::nullopt;
        }
        try {
            const JsonDocument document = secrets.parse(response.body, "answer");
            return dialect_.decode(document.root());
        } catch (const Error& error) {
            failure.sentence = error.what();
            return std::nullopt;
        }
    }

    /// Waits for the next attempt. @throws Error when there is to be none
    void back_off(const Failure& failure, std::size_t attempt, Clock::time_point start,
                  const chat::Secrets& secrets, const std::stop_token& stop) {
        const std::string sentence = harmless(failure.sentence, secrets);
        if (!failure.worth_retrying) fail(sentence);
        const std::string gave_up =
            "gave up after " + std::to_string(attempt) + (attempt == 1 ? " attempt" : " attempts");
        if (attempt > options_.max_retries) fail(gave_up + ": " + sentence);
        const Seconds pause = failure.wait ? *failure.wait : backoff(attempt);
        const Seconds spent = Clock::now() - start;
        if (spent + pause >= options_.total_timeout) {
            fail(gave_up + ", as waiting " + seconds_text(pause) +
                 " more would pass total_timeout_seconds " + seconds_text(options_.total_timeout) +
                 ": " + sentence);
        }
        if (context_.log) {
            context_.log(LogLevel::warning, at_server() + ": attempt " + std::to_string(attempt) +
                                                " failed, next in " + seconds_text(pause) + ": " +
                                                sentence);
        }
        if (wait(pause, stop)) throw_stopped();
    }

    /// Doubles with each attempt; the random half keeps many clients from coming back together.
    Seconds backoff(std::size_t attempt) {
        const double factor =
            std::exp2(static_cast<double>(std::min<std::size_t>(attempt, 20) - 1));
        const Seconds longest = std::min(options_.backoff * factor, longest_backoff);
        const std::lock_guard lock(mutex_);
        return longest * (0.5 + 0.5 * static_cast<double>(generator_() >> 11) * 0x1p-53);
    }

    static std::string seconds_text(Seconds time) {
        if (time < Seconds(1)) return std::to_string(std::llround(time.count() * 1000)) + " ms";
        const auto tenths = static_cast<long long>(std::llround(time.count() * 10));
        return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
    }

    static std::string harmless(const std::string& text, const chat::Secrets& secrets) {
        constexpr std::size_t longest_message_bytes = 300;
        return chat::one_line(secrets.redact(text), longest_message_bytes);
    }

    [[noreturn]] void fail(const std::string& sentence) const {
        throw Error(ErrorCode::backend_failed, at_server() + ": " + sentence);
    }

    [[noreturn]] void throw_stopped() const {
        throw Error(ErrorCode::cancelled, at_server() + ": stopped");
    }

    [[nodiscard]] std::string at_server() const {
        return dialect_.name + " at " + options_.http.url;
    }

    const TransportOptions options_;
    const HttpDialect dialect_;
    const PluginContext context_;
    std::mutex mutex_;  // guards generator_
    std::mt19937_64 generator_;
};

}  // namespace

void check_http_options(const JsonNode& node, std::initializer_list<std::string_view> own) {
    std::vector<std::string_view> known = {"base_url",
                                           "api_key_name",
                                           "max_retries",
                                           "timeout_seconds",
                                           "connect_timeout_seconds",
                                           "total_timeout_seconds",
                                           "backoff_seconds",
                                           "seed",
                                           "headers",
                                           "proxy",
                                           "ca_file"};
    known.insert(known.end(), own.begin(), own.end());
    node.only_members(known);
}

std::unique_ptr<LlmBackend> make_http_backend(const JsonNode& options, HttpDialect dialect,
                                              const PluginContext& context) {
    TransportOptions transport = decode_options(options, dialect);
    return std::make_unique<HttpBackend>(std::move(transport), std::move(dialect), context);
}

}  // namespace kernelforge
