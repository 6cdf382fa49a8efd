// SPDX-License-Identifier: Apache-2.0
#include "wire/channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "kernelforge/error.hpp"

namespace kernelforge::wire {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view magic = "KFW1";
constexpr std::size_t header_bytes = 12;
constexpr std::size_t read_bytes = std::size_t{1} << 20;
/// A stop is looked for this often.
constexpr std::chrono::milliseconds poll_interval{50};

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorCode::worker_failed, "worker channel: " + what);
}

std::string cause(int error) {
    return std::generic_category().message(error);
}

/// Waits until the socket is ready, the interval is over, or the deadline is reached.
void wait_ready(int descriptor, short events, Clock::time_point deadline) {
    auto wait = poll_interval;
    const auto now = Clock::now();
    if (deadline < now + wait) {
        wait = std::chrono::ceil<std::chrono::milliseconds>(
            std::max(deadline - now, Clock::duration{0}));
    }
    pollfd entry{descriptor, events, 0};
    if (::poll(&entry, 1, static_cast<int>(wait.count())) < 0 && errno != EINTR) {
        fail("poll failed: " + cause(errno));
    }
    if ((entry.revents & POLLNVAL) != 0) fail("expected an open socket, found a closed descriptor");
}

std::array<char, header_bytes> header_of(std::size_t size) {
    std::array<char, header_bytes> header{};
    std::copy(magic.begin(), magic.end(), header.begin());
    for (std::size_t i = 0; i < 8; ++i) {
        header[magic.size() + i] = static_cast<char>(static_cast<std::uint64_t>(size) >> (8 * i));
    }
    return header;
}

std::string printable(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) text += c >= 0x20 && c < 0x7F ? c : '?';
    return text;
}

}  // namespace

void Channel::send(std::string_view message, std::stop_token stop) {
    if (message.size() > max_message_bytes) {
        throw Error(ErrorCode::invalid_argument, "worker channel: expected a message of at most " +
                                                     std::to_string(max_message_bytes) +
                                                     " bytes, found " +
                                                     std::to_string(message.size()));
    }
    if (cut_) fail("an earlier message was cut off, nothing can be sent any more");
    auto header = header_of(message.size());
    const std::size_t total = header_bytes + message.size();
    for (std::size_t sent = 0; sent < total;) {
        if (stop.stop_requested()) {
            cut_ = sent > 0;
            throw Error(ErrorCode::cancelled, "worker channel: stopped while sending");
        }
        std::array<iovec, 2> parts{};
        const std::size_t in_header = std::min(sent, header_bytes);
        parts[0] = {header.data() + in_header, header_bytes - in_header};
        const std::size_t in_message = sent - in_header;
        parts[1] = {const_cast<char*>(message.data()) + in_message, message.size() - in_message};
        msghdr data{};
        data.msg_iov = parts.data();
        data.msg_iovlen = parts.size();
        const ssize_t written = ::sendmsg(descriptor_, &data, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written >= 0) {
            sent += static_cast<std::size_t>(written);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            wait_ready(descriptor_, POLLOUT, Clock::time_point::max());
        } else if (errno != EINTR) {
            const int error = errno;
            cut_ = sent > 0;
            fail("cannot send: " + cause(error));
        }
    }
}

/// Size of the whole message with its header, once the header is there.
std::optional<std::size_t> Channel::message_size() const {
    const std::size_t have = std::min(received_.size(), magic.size());
    if (std::string_view(received_).substr(0, have) != magic.substr(0, have)) {
        fail("expected a message that starts with \"KFW1\", found \"" +
             printable(std::string_view(received_).substr(0, header_bytes)) + "\"");
    }
    if (received_.size() < header_bytes) return std::nullopt;
    std::uint64_t size = 0;
    for (std::size_t i = 8; i-- > 0;) {
        size = size << 8 | static_cast<unsigned char>(received_[magic.size() + i]);
    }
    if (size > max_message_bytes) {
        fail("expected a message of at most " + std::to_string(max_message_bytes) +
             " bytes, found an announced length of " + std::to_string(size));
    }
    return header_bytes + static_cast<std::size_t>(size);
}

/// Appends at most `wanted` bytes to what was received.
Channel::Reading Channel::read_some(std::size_t wanted) {
    const std::size_t have = received_.size();
    received_.resize(have + std::min(wanted, read_bytes));
    const ssize_t got =
        ::recv(descriptor_, received_.data() + have, received_.size() - have, MSG_DONTWAIT);
    const int error = errno;
    received_.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) return Reading::progress;
    // A peer that died with unread data in its buffer shows as a reset.
    if (got == 0 || error == ECONNRESET) return Reading::end;
    if (error == EINTR || error == EAGAIN || error == EWOULDBLOCK) return Reading::would_block;
    fail("cannot receive: " + cause(error));
}

Channel::Received Channel::receive(Clock::time_point deadline, std::stop_token stop) {
    for (;;) {
        const auto size = message_size();
        if (size && received_.size() == *size) {
            Received result{Outcome::message, std::move(received_)};
            received_.clear();
            result.message.erase(0, header_bytes);
            return result;
        }
        if (stop.stop_requested()) return {Outcome::stopped, {}};
        switch (read_some(size.value_or(header_bytes) - received_.size())) {
            case Reading::progress:
                continue;
            case Reading::end:
                if (received_.empty()) return {Outcome::closed, {}};
                fail("closed inside a message, after " + std::to_string(received_.size()) + " of " +
                     (size ? std::to_string(*size) : "at least " + std::to_string(header_bytes)) +
                     " bytes");
            case Reading::would_block:
                break;
        }
        if (Clock::now() >= deadline) return {Outcome::timed_out, {}};
        wait_ready(descriptor_, POLLIN, deadline);
    }
}

}  // namespace kernelforge::wire
