// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace kernelforge::wire {

/// Longest message; a longer one is an error, not an allocation.
inline constexpr std::size_t max_message_bytes = std::size_t{512} << 20;

/// Messages over a connected stream socket: 4 bytes "KFW1", 8 bytes length (little-endian), payload
/// (JSON text, codec.hpp). Does not own the descriptor. One thread at a time.
class Channel {
  public:
    explicit Channel(int descriptor) : descriptor_(descriptor) {}

    /// Returns when the whole message is in the socket's buffer. A peer that has gone is an error,
    /// not a signal. A stop is noticed within 100 ms; when it cuts a message, the channel cannot be
    /// used for sending any more, and `send` says so.
    /// @throws Error worker_failed (closed, cut off), cancelled, invalid_argument (too long)
    void send(std::string_view message, std::stop_token stop = {});

    enum class Outcome { message, closed, timed_out, stopped };
    struct Received {
        Outcome outcome = Outcome::closed;
        std::string message;
    };
    /// Waits for a whole message until `deadline`. A stop is noticed within 100 ms. What has
    /// arrived of a message by then is kept for the next call. `closed` only between messages.
    /// Memory grows with what arrives, not with the announced length.
    /// @throws Error worker_failed (bad magic, too long, cut off inside a message)
    [[nodiscard]] Received receive(std::chrono::steady_clock::time_point deadline,
                                   std::stop_token stop = {});

  private:
    enum class Reading { progress, would_block, end };
    Reading read_some(std::size_t wanted);
    [[nodiscard]] std::optional<std::size_t> message_size() const;

    int descriptor_;
    bool cut_ = false;      ///< a message was sent in part
    std::string received_;  ///< header and payload so far of the message that is arriving
};

}  // namespace kernelforge::wire
