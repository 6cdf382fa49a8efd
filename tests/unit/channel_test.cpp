// SPDX-License-Identifier: Apache-2.0
#include "wire/channel.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>
#include <ctime>
#include <thread>
#include <utility>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using kernelforge::test::error_of;
using wire::Channel;
using Outcome = wire::Channel::Outcome;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

/// Two connected stream sockets.
class Pair {
  public:
    Pair() { REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) == 0); }
    ~Pair() {
        close_end(0);
        close_end(1);
    }
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;
    [[nodiscard]] int end(int i) const { return ends_[i]; }
    void close_end(int i) {
        if (ends_[i] >= 0) ::close(std::exchange(ends_[i], -1));
    }
    void write_raw(std::string_view bytes) const {
        REQUIRE(::send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }

  private:
    int ends_[2] = {-1, -1};
};

Clock::time_point soon() {
    return Clock::now() + 10s;
}

std::string header(std::uint64_t size) {
    std::string text = "KFW1";
    for (int i = 0; i < 8; ++i) text += static_cast<char>(size >> (8 * i));
    return text;
}

std::string pattern(std::size_t size) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 257);
    return text;
}

}  // namespace

TEST_CASE("messages arrive whole and in order", "[channel]") {
    Pair pair;
    Channel sender(pair.end(0));
    Channel receiver(pair.end(1));
    const std::string binary("\0KFW1\xFF", 6);
    sender.send("first");
    sender.send("");
    sender.send(binary);
    CHECK(receiver.receive(soon()).message == "first");
    const auto empty = receiver.receive(soon());
    CHECK(empty.outcome == Outcome::message);
    CHECK(empty.message.empty());
    CHECK(receiver.receive(soon()).message == binary);
}

TEST_CASE("a message that is larger than the socket's buffer arrives whole", "[channel]") {
    Pair pair;
    const std::string large = pattern(9'000'001);
    std::jthread sending([&] { Channel(pair.end(0)).send(large); });
    const auto received = Channel(pair.end(1)).receive(soon());
    CHECK(received.outcome == Outcome::message);
    CHECK((received.message == large));
}

TEST_CASE("a message that arrives byte by byte is put together", "[channel]") {
    Pair pair;
    Channel receiver(pair.end(1));
    const std::string bytes = header(3) + "abc";
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
        pair.write_raw(bytes.substr(i, 1));
        CHECK(receiver.receive(Clock::now()).outcome == Outcome::timed_out);
    }
    pair.write_raw("c" + header(1) + "d");
    CHECK(receiver.receive(soon()).message == "abc");
    CHECK(receiver.receive(soon()).message == "d");
}

TEST_CASE("a peer that closes between messages is no error, one that closes inside is",
          "[channel]") {
    Pair pair;
    Channel receiver(pair.end(1));
    SECTION("between messages") {
        pair.write_raw(header(1) + "x");
        pair.close_end(0);
        CHECK(receiver.receive(soon()).message == "x");
        CHECK(receiver.receive(soon()).outcome == Outcome::closed);
    }
    SECTION("inside the header") {
        pair.write_raw("KFW1\x05");
        pair.close_end(0);
        CHECK_THAT(error_of([&] { (void)receiver.receive(soon()); }).value_or(""),
                   ContainsSubstring("closed inside a message, after 5 of at least 12 bytes"));
    }
    SECTION("inside the payload") {
        pair.write_raw(header(10) + "abc");
        pair.close_end(0);
        CHECK_THAT(error_of([&] { (void)receiver.receive(soon()); }).value_or(""),
                   ContainsSubstring("closed inside a message, after 15 of 22 bytes"));
    }
    SECTION("with our message unread") {
        Channel(pair.end(1)).send("never read");
        pair.close_end(0);
        CHECK(receiver.receive(soon()).outcome == Outcome::closed);
    }
}

TEST_CASE("what is no message is refused before its end arrives", "[channel]") {
    Pair pair;
    Channel receiver(pair.end(1));
    SECTION("another magic") {
        pair.write_raw("Hello\n");
        CHECK_THAT(error_of([&] { (void)receiver.receive(soon()); }).value_or(""),
                   ContainsSubstring("starts with \"KFW1\", found \"Hello?\""));
    }
    SECTION("an impossible length takes no memory") {
        for (const std::uint64_t size :
             {std::uint64_t{wire::max_message_bytes} + 1, ~std::uint64_t{0}}) {
            Pair other;
            other.write_raw(header(size));
            CHECK_THAT(error_of([&] { (void)Channel(other.end(1)).receive(soon()); }).value_or(""),
                       ContainsSubstring("announced length of " + std::to_string(size)));
        }
    }
}

TEST_CASE("receiving ends at the deadline and at a stop", "[channel]") {
    Pair pair;
    Channel receiver(pair.end(1));
    const auto start = Clock::now();
    CHECK(receiver.receive(start + 30ms).outcome == Outcome::timed_out);
    CHECK(Clock::now() - start >= 30ms);

    std::stop_source stop;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(20ms);
        stop.request_stop();
    });
    CHECK(receiver.receive(Clock::time_point::max(), stop.get_token()).outcome == Outcome::stopped);
    CHECK(Clock::now() - start < 5s);
}

TEST_CASE("sending to a peer that is gone is an error, not a signal", "[channel]") {
    Pair pair;
    pair.close_end(1);
    Channel sender(pair.end(0));
    CHECK_THAT(error_of([&] { sender.send("x"); }).value_or(""),
               ContainsSubstring("cannot send: Broken pipe"));
}

TEST_CASE("a stop cuts a send that the peer does not read, and the channel knows it", "[channel]") {
    Pair pair;
    Channel sender(pair.end(0));
    std::stop_source stop;
    std::jthread stopper([&] {
        pollfd arrived{pair.end(1), POLLIN, 0};
        (void)::poll(&arrived, 1, 10'000);
        stop.request_stop();
    });
    CHECK_THAT(error_of([&] { sender.send(pattern(16'000'000), stop.get_token()); }).value_or(""),
               ContainsSubstring("stopped while sending"));
    CHECK_THAT(error_of([&] { sender.send("x"); }).value_or(""),
               ContainsSubstring("an earlier message was cut off"));
}

TEST_CASE("signals do not disturb a transfer", "[channel]") {
    struct sigaction ignore_it {};
    ignore_it.sa_handler = [](int) {};  // without SA_RESTART: calls return EINTR
    struct sigaction before {};
    REQUIRE(::sigaction(SIGUSR1, &ignore_it, &before) == 0);
    Pair pair;
    const std::string large = pattern(4'000'000);
    std::string received;
    {
        std::jthread sending([&] { Channel(pair.end(0)).send(large); });
        std::jthread receiving([&] { received = Channel(pair.end(1)).receive(soon()).message; });
        for (int i = 0; i < 50; ++i) {
            ::pthread_kill(receiving.native_handle(), SIGUSR1);
            ::pthread_kill(sending.native_handle(), SIGUSR1);
            std::this_thread::sleep_for(200us);
        }
    }
    REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
    CHECK((received == large));
}

TEST_CASE("a closed descriptor is an error", "[channel]") {
    CHECK_THAT(error_of([] { (void)Channel(-1).receive(soon()); }).value_or(""),
               ContainsSubstring("cannot receive"));
}
