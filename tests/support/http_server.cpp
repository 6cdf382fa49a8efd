// SPDX-License-Identifier: Apache-2.0
#include "support/http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace kernelforge::test {
namespace {

constexpr int slice_ms = 10;

int listen_on_loopback(int backlog) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor < 0 ||
        ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(descriptor, backlog) != 0) {
        throw std::runtime_error("cannot listen on loopback");
    }
    return descriptor;
}

int port_of(int descriptor) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
}

std::string url_of(int port) {
    return "http://127.0.0.1:" + std::to_string(port);
}

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

HttpRequest parse_head(const std::string& head) {
    HttpRequest request;
    const std::size_t first_space = head.find(' ');
    const std::size_t second_space = head.find(' ', first_space + 1);
    request.method = head.substr(0, first_space);
    request.path = head.substr(first_space + 1, second_space - first_space - 1);
    std::size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
        const std::size_t end = head.find("\r\n", at);
        const std::string line = head.substr(at, end - at);
        const std::size_t colon = line.find(':');
        if (colon != std::string::npos) {
            const std::size_t value = line.find_first_not_of(' ', colon + 1);
            request.headers[lower(line.substr(0, colon))] =
                value == std::string::npos ? "" : line.substr(value);
        }
        at = end == std::string::npos ? head.size() : end + 2;
    }
    return request;
}

}  // namespace

void HttpConnection::send(std::string_view bytes) {
    while (!bytes.empty() && !ending_) {
        pollfd poll_one{descriptor_, POLLOUT, 0};
        if (::poll(&poll_one, 1, slice_ms) == 0) continue;
        const ssize_t n =
            ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
}

void HttpConnection::pause(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!ending_ && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(slice_ms));
    }
}

struct HttpServer::State {
    std::vector<Script> scripts;
    int listener = -1;
    int port = 0;
    std::atomic<bool> ending = false;
    mutable std::mutex mutex;  // guards requests, threads, connections
    std::vector<HttpRequest> requests;
    std::vector<std::jthread> threads;
    int connections = 0;
    std::jthread acceptor;

    void accept_all();
    void serve(int descriptor, int number);
    bool read_request(int descriptor, std::string& buffer, HttpRequest& request) const;
    bool read_more(int descriptor, std::string& buffer) const;
};

void HttpServer::State::accept_all() {
    while (!ending) {
        pollfd poll_one{listener, POLLIN, 0};
        if (::poll(&poll_one, 1, slice_ms) <= 0) continue;
        const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (descriptor < 0) continue;
        const std::lock_guard lock(mutex);
        threads.emplace_back(
            [this, descriptor, number = connections++] { serve(descriptor, number); });
    }
}

bool HttpServer::State::read_more(int descriptor, std::string& buffer) const {
    while (!ending) {
        pollfd poll_one{descriptor, POLLIN, 0};
        if (::poll(&poll_one, 1, slice_ms) <= 0) continue;
        char bytes[65536];
        const ssize_t n = ::recv(descriptor, bytes, sizeof bytes, 0);
        if (n <= 0) return false;
        buffer.append(bytes, static_cast<std::size_t>(n));
        return true;
    }
    return false;
}

bool HttpServer::State::read_request(int descriptor, std::string& buffer,
                                     HttpRequest& request) const {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        if (!read_more(descriptor, buffer)) return false;
    }
    request = parse_head(buffer.substr(0, end));
    buffer.erase(0, end + 4);
    const std::size_t length = std::stoul("0" + request.headers["content-length"]);
    while (buffer.size() < length) {
        if (!read_more(descriptor, buffer)) return false;
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
}

void HttpServer::State::serve(int descriptor, int number) {
    std::string buffer;
    HttpRequest request;
    while (!ending && read_request(descriptor, buffer, request)) {
        request.connection = number;
        const Script* script = nullptr;
        {
            const std::lock_guard lock(mutex);
            script = &scripts[std::min(requests.size(), scripts.size() - 1)];
            requests.push_back(request);
        }
        HttpConnection connection(descriptor, ending);
        (*script)(request, connection);
        if (connection.closing()) break;
    }
    ::close(descriptor);
}

HttpServer::HttpServer(std::vector<Script> scripts) : state_(std::make_unique<State>()) {
    state_->scripts = std::move(scripts);
    state_->listener = listen_on_loopback(64);
    state_->port = port_of(state_->listener);
    state_->acceptor = std::jthread([this] { state_->accept_all(); });
}

HttpServer::~HttpServer() {
    state_->ending = true;
    state_->acceptor.join();
    state_->threads.clear();  // joins
    ::close(state_->listener);
}

std::string HttpServer::url() const {
    return url_of(state_->port);
}

std::vector<HttpRequest> HttpServer::requests() const {
    const std::lock_guard lock(state_->mutex);
    return state_->requests;
}

std::string http_response(int status, std::string_view content_type, std::string_view body,
                          std::string_view headers) {
    std::string text = "HTTP/1.1 " + std::to_string(status) + " Reason\r\n";
    if (!content_type.empty()) text += "Content-Type: " + std::string(content_type) + "\r\n";
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += headers;
    text += "\r\n";
    text += body;
    return text;
}

HttpServer::Script sends(std::string bytes) {
    return [bytes = std::move(bytes)](const HttpRequest&, HttpConnection& connection) {
        connection.send(bytes);
    };
}

HttpServer::Script sends_and_closes(std::string bytes) {
    return [bytes = std::move(bytes)](const HttpRequest&, HttpConnection& connection) {
        connection.send(bytes);
        connection.close_after();
    };
}

HangingPort::HangingPort(Kind kind) {
    const int listener = listen_on_loopback(kind == Kind::full ? 0 : 8);
    port_ = port_of(listener);
    descriptors_.push_back(listener);
    if (kind == Kind::unread) return;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    // Nobody accepts: the first fill the queue, and the kernel drops the opening packets of the
    // others.
    for (int i = 0; i < 4; ++i) {
        const int filler = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        static_cast<void>(::connect(filler, reinterpret_cast<sockaddr*>(&address), sizeof address));
        descriptors_.push_back(filler);
    }
}

HangingPort::~HangingPort() {
    for (const int descriptor : descriptors_) ::close(descriptor);
}

std::string HangingPort::url() const {
    return url_of(port_);
}

std::string closed_port_url() {
    const int listener = listen_on_loopback(0);
    const int port = port_of(listener);
    ::close(listener);
    return url_of(port);
}

}  // namespace kernelforge::test
