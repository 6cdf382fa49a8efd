// SPDX-License-Identifier: Apache-2.0
#include "http_client.hpp"

#include <curl/curl.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <ctime>
#include <string_view>

#include "kernelforge/error.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_header_bytes = std::size_t{1} << 20;
constexpr int poll_slice_ms = 100;

/// CURLOPT_NOSIGNAL leaves SIGPIPE alone, and TLS libraries write without MSG_NOSIGNAL: a server
/// that hangs up would end the host. Blocks the signal for this thread and swallows one that came.
class NoSigpipe {
  public:
    NoSigpipe() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~NoSigpipe() {
        const timespec now{0, 0};
        while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoSigpipe(const NoSigpipe&) = delete;
    NoSigpipe& operator=(const NoSigpipe&) = delete;

  private:
    sigset_t pipe_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && std::string_view(" \t\r\n").find(text.front()) != text.npos) {
        text.remove_prefix(1);
    }
    while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos) {
        text.remove_suffix(1);
    }
    return text;
}

bool is_header(std::string_view name, std::string_view wanted) {
    return std::ranges::equal(name, wanted, [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == b;
    });
}

/// RFC 9110, 10.2.3: seconds or a date. Nothing when it is neither.
std::optional<std::chrono::seconds> parse_retry_after(const std::string& value) {
    if (value.empty()) return std::nullopt;
    if (std::ranges::all_of(value, [](unsigned char c) { return std::isdigit(c) != 0; })) {
        constexpr std::size_t max_digits = 9;  // 30 years; more is as good as that
        return std::chrono::seconds(std::stoll(value.substr(0, max_digits)));
    }
    const std::time_t now = std::time(nullptr);
    const std::time_t then = curl_getdate(value.c_str(), &now);
    if (then < 0) return std::nullopt;
    return std::chrono::seconds(std::max<std::time_t>(0, then - now));
}

bool is_connection_failure(CURLcode code) {
    switch (code) {
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_CONNECT:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_PARTIAL_FILE:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
            return true;
        default:
            return false;
    }
}

void start_curl() {
    static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) {
        throw Error(ErrorCode::internal,
                    std::string("cannot start libcurl: ") + curl_easy_strerror(code));
    }
}

}  // namespace

struct HttpClient::State {
    HttpOptions options;
    CURLM* multi = nullptr;
    CURL* easy = nullptr;
    curl_slist* headers = nullptr;
    std::array<char, CURL_ERROR_SIZE> error_text{};
    HttpResponse response;
    std::size_t header_bytes = 0;
    std::string retry_after;

    ~State() {
        if (easy != nullptr) curl_easy_cleanup(easy);
        if (multi != nullptr) curl_multi_cleanup(multi);
        curl_slist_free_all(headers);
    }

    template <class T>
    void set(CURLoption option, T value, const char* what) {
        const CURLcode code = curl_easy_setopt(easy, option, value);
        if (code == CURLE_OK) return;
        throw Error(ErrorCode::invalid_argument,
                    std::string("libcurl refuses ") + what + ": " + curl_easy_strerror(code));
    }

    void prepare();
    void begin(const std::string& body, std::chrono::milliseconds time_limit);
    /// Whether the transfer ended by itself.
    bool drive(const std::stop_token& stop, CURLcode& code);
    void finish(CURLcode code);

    static std::size_t take_body(char* data, std::size_t, std::size_t count, void* self) {
        State& state = *static_cast<State*>(self);
        if (state.response.body.size() + count > state.options.max_body_bytes) {
            state.response.outcome = HttpResponse::Outcome::too_large;
            return 0;
        }
        state.response.body.append(data, count);
        return count;
    }

    static std::size_t take_header(char* data, std::size_t, std::size_t count, void* self) {
        State& state = *static_cast<State*>(self);
        state.header_bytes += count;
        if (state.header_bytes > max_header_bytes) return 0;
        const std::string_view line(data, count);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) return count;
        const std::string_view name = line.substr(0, colon);
        const std::string value(trimmed(line.substr(colon + 1)));
        if (is_header(name, "retry-after")) state.retry_after = value;
        if (is_header(name, "content-type")) state.response.content_type = value;
        if (is_header(name, "location")) state.response.location = value;
        return count;
    }
};

void HttpClient::State::prepare() {
    for (const std::string& line : options.headers) {
        headers = curl_slist_append(headers, line.c_str());
    }
    // Without this, libcurl waits a second for "100 Continue" before it sends a large body.
    headers = curl_slist_append(headers, "Expect:");
#if LIBCURL_VERSION_NUM >= 0x075500
    set(CURLOPT_PROTOCOLS_STR, "http,https", "protocols");
#else
    set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS), "protocols");
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    // A stop does not wait for the thread that resolves a name.
    set(CURLOPT_QUICK_EXIT, 1L, "quick exit");
#endif
    set(CURLOPT_URL, options.url.c_str(), "the address");
    // An empty proxy, unlike an unset one, keeps libcurl from looking into the environment.
    set(CURLOPT_PROXY, options.proxy.c_str(), "the proxy");
    set(CURLOPT_NOPROXY, "", "the proxy's exceptions");
    set(CURLOPT_NOSIGNAL, 1L, "no signals");
    set(CURLOPT_FOLLOWLOCATION, 0L, "no redirects");
    set(CURLOPT_SSL_VERIFYPEER, 1L, "verification");
    set(CURLOPT_SSL_VERIFYHOST, 2L, "verification");
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str(), "ca_file");
    set(CURLOPT_TCP_KEEPALIVE, 1L, "keep-alive");
    set(CURLOPT_HTTPHEADER, headers, "headers");
    set(CURLOPT_WRITEFUNCTION, &State::take_body, "callbacks");
    set(CURLOPT_WRITEDATA, this, "callbacks");
    set(CURLOPT_HEADERFUNCTION, &State::take_header, "callbacks");
    set(CURLOPT_HEADERDATA, this, "callbacks");
    set(CURLOPT_ERRORBUFFER, error_text.data(), "callbacks");
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()),
        "connect_timeout_seconds");
    set(CURLOPT_POST, 1L, "posting");
}

void HttpClient::State::begin(const std::string& body, std::chrono::milliseconds time_limit) {
    response = {};
    header_bytes = 0;
    retry_after.clear();
    error_text[0] = '\0';
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()), "the body");
    set(CURLOPT_POSTFIELDS, body.c_str(), "the body");
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(time_limit.count()), "timeout_seconds");
}

bool HttpClient::State::drive(const std::stop_token& stop, CURLcode& code) {
    int running = 1;
    while (running > 0) {
        if (stop.stop_requested()) return false;
        if (curl_multi_perform(multi, &running) != CURLM_OK) break;
        if (running > 0) curl_multi_poll(multi, nullptr, 0, poll_slice_ms, nullptr);
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE) code = message->data.result;
    }
    return true;
}

void HttpClient::State::finish(CURLcode code) {
    if (response.outcome == HttpResponse::Outcome::too_large) {
        response.failure =
            "the answer is longer than " + std::to_string(options.max_body_bytes >> 20) + " MiB";
        return;
    }
    if (code == CURLE_OK) {
        response.outcome = HttpResponse::Outcome::answered;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &response.status);
        response.retry_after = parse_retry_after(retry_after);
        return;
    }
    const std::string reason = error_text[0] != '\0' ? error_text.data() : curl_easy_strerror(code);
    const bool cut_off =
        code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR;
    response.failure = header_bytes > max_header_bytes
                           ? "the answer's headers are longer than 1 MiB"
                       : cut_off ? "the answer was cut off: " + reason
                                 : reason;
    response.worth_retrying = is_connection_failure(code);
}

HttpClient::HttpClient(HttpOptions options) : state_(std::make_unique<State>()) {
    start_curl();
    state_->options = std::move(options);
    state_->multi = curl_multi_init();
    state_->easy = curl_easy_init();
    if (state_->multi == nullptr || state_->easy == nullptr) {
        throw Error(ErrorCode::internal, "cannot start libcurl: out of memory");
    }
    state_->prepare();
}

HttpClient::~HttpClient() {
    const NoSigpipe no_sigpipe;  // closing a TLS connection writes to it
    state_.reset();
}

HttpResponse HttpClient::post(const std::string& body, std::chrono::milliseconds time_limit,
                              std::stop_token stop) {
    const NoSigpipe no_sigpipe;
    State& state = *state_;
    state.begin(body, time_limit);
    curl_multi_add_handle(state.multi, state.easy);
    CURLcode code = CURLE_FAILED_INIT;
    const bool ended = state.drive(stop, code);
    if (ended) {
        state.finish(code);
    } else {
        state.response.outcome = HttpResponse::Outcome::stopped;
    }
    curl_multi_remove_handle(state.multi, state.easy);
    return std::move(state.response);
}

}  // namespace kernelforge
