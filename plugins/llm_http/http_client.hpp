// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace kernelforge {

/// Where and how requests are sent.
struct HttpOptions {
    std::string url;                   ///< http or https
    std::vector<std::string> headers;  ///< complete lines, `Name: value`
    std::string proxy;                 ///< empty: none, whatever the environment says
    std::string ca_file;               ///< PEM; empty: the system's
    std::chrono::milliseconds connect_timeout{10'000};
    std::size_t max_body_bytes = std::size_t{32} << 20;
};

/// How one request ended.
struct HttpResponse {
    enum class Outcome {
        answered,   ///< complete, with whatever status
        failed,     ///< no complete answer came; `failure` says why
        too_large,  ///< the body is longer than allowed
        stopped,
    };
    Outcome outcome = Outcome::failed;
    std::string failure;          ///< one sentence
    bool worth_retrying = false;  ///< of a failure: the connection, not the request, was at fault
    long status = 0;
    std::string body;
    std::string content_type;
    std::string location;
    std::optional<std::chrono::seconds> retry_after;  ///< from now, never negative
};

/// Posts JSON to one address, keeping the connection between calls. Follows no redirect, reads no
/// environment variable, verifies certificates. One call at a time.
class HttpClient {
  public:
    /// @throws Error internal (libcurl cannot be started), invalid_argument (an option it refuses)
    explicit HttpClient(HttpOptions options);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    /// Returns within about 100 ms of a stop.
    [[nodiscard]] HttpResponse post(const std::string& body, std::chrono::milliseconds time_limit,
                                    std::stop_token stop);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace kernelforge
