// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kernelforge::test {

/// One request as the server read it.
struct HttpRequest {
    std::string method;
    std::string path;
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body;
    int connection = 0;  ///< which connection it came on, from 0
};

/// The server's end of one connection, for a script.
class HttpConnection {
  public:
    explicit HttpConnection(int descriptor, const std::atomic<bool>& ending)
        : descriptor_(descriptor), ending_(ending) {}
    /// Sends bytes as they are; silently gives up when the client is gone.
    void send(std::string_view bytes);
    /// Waits, but not longer than the server lives.
    void pause(std::chrono::milliseconds time);
    /// Hangs up after the script.
    void close_after() { closing_ = true; }
    [[nodiscard]] bool closing() const { return closing_; }

  private:
    int descriptor_;
    const std::atomic<bool>& ending_;
    bool closing_ = false;
};

/// A loopback HTTP/1.1 server that does what scripts say: the first request gets the first script,
/// and so on; the last script serves all later ones. Connections are kept alive unless a script
/// hangs up.
class HttpServer {
  public:
    using Script = std::function<void(const HttpRequest&, HttpConnection&)>;

    explicit HttpServer(std::vector<Script> scripts);
    ~HttpServer();
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    /// `http://127.0.0.1:PORT`
    [[nodiscard]] std::string url() const;
    /// What came in so far.
    [[nodiscard]] std::vector<HttpRequest> requests() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// A complete response with Content-Length. `headers` are complete lines, each with its line end.
[[nodiscard]] std::string http_response(int status, std::string_view content_type,
                                        std::string_view body, std::string_view headers = "");

/// A script that sends `bytes`.
[[nodiscard]] HttpServer::Script sends(std::string bytes);
/// A script that sends `bytes` and hangs up.
[[nodiscard]] HttpServer::Script sends_and_closes(std::string bytes);

/// A port where nothing happens.
class HangingPort {
  public:
    enum class Kind {
        full,    ///< connecting neither succeeds nor fails: the queue of connections is full
        unread,  ///< connecting succeeds, and nobody reads
    };
    explicit HangingPort(Kind kind = Kind::full);
    ~HangingPort();
    HangingPort(const HangingPort&) = delete;
    HangingPort& operator=(const HangingPort&) = delete;
    [[nodiscard]] std::string url() const;

  private:
    int port_ = 0;
    std::vector<int> descriptors_;
};

/// A port where nobody listens.
[[nodiscard]] std::string closed_port_url();

}  // namespace kernelforge::test
