// SPDX-License-Identifier: Apache-2.0
#include "base/subprocess.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace std::chrono_literals;

namespace {

SubprocessOptions shell(const std::string& script) {
    return {.argv = {"sh", "-c", script}};
}

}  // namespace

TEST_CASE("a subprocess gives output, error output and exit code", "[base]") {
    const auto result = run_subprocess(shell("echo out; echo err >&2; exit 3"), 10s);
    CHECK(result.output == "out\n");
    CHECK(result.error_output == "err\n");
    CHECK(result.status.describe() == "exit code 3");
}

TEST_CASE("a subprocess reads its input, also one larger than a pipe", "[base]") {
    auto options = shell("wc -c");
    options.input = std::string(1'000'000, 'x');
    CHECK(run_subprocess(std::move(options), 10s).output == "1000000\n");
}

TEST_CASE("output beyond the limit is dropped and does not block", "[base]") {
    auto options = shell("head -c 20000000 /dev/zero; echo end >&2");
    options.max_output_bytes = 1000;
    const auto result = run_subprocess(std::move(options), 20s);
    CHECK(result.output.size() == 1000);
    CHECK(result.error_output == "end\n");
}

TEST_CASE("a process that passes the limit of its output is ended at once when asked", "[base]") {
    auto options = shell("echo err >&2; yes");
    options.max_output_bytes = 1000;
    options.end_at_output_limit = true;
    const auto result = run_subprocess(std::move(options), 20s);
    CHECK_FALSE(result.timed_out);
    CHECK(result.status.signalled);
    CHECK(result.output.size() == 1000);
    CHECK(result.error_output == "err\n");
    CHECK(result.time < 10s);
}

TEST_CASE("a folder with the name of a program is no program", "[base]") {
    const TemporaryFolder temporary;
    const auto folder = temporary.path() / "true";
    std::filesystem::create_directory(folder);
    CHECK_THAT(*test::error_of([&] { Subprocess p({.argv = {folder.string()}}); }),
               ContainsSubstring("found no regular file"));
    const std::string path = ::getenv("PATH");
    ::setenv("PATH", (temporary.path().string() + ":" + path).c_str(), 1);
    const auto error =
        test::error_of([] { CHECK(run_subprocess({.argv = {"true"}}, 10s).status.ok()); });
    ::setenv("PATH", path.c_str(), 1);
    CHECK_FALSE(error);
}

TEST_CASE("a time limit kills the process and what it started", "[base]") {
    const auto result = run_subprocess(shell("sleep 100 & echo $!; wait"), 200ms);
    CHECK(result.timed_out);
    const pid_t grandchild = std::stoi(result.output);
    for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0; ++i) std::this_thread::sleep_for(10ms);
    // In a container without a reaper the killed grandchild stays as a zombie.
    const auto state = run_subprocess(
        {.argv = {"sh", "-c", "grep -s State /proc/" + std::to_string(grandchild) + "/status"}},
        5s);
    CHECK((state.output.empty() || state.output.find('Z') != std::string::npos));
}

TEST_CASE("a stop ends the wait", "[base]") {
    std::stop_source source;
    std::jthread stopper([&] {
        std::this_thread::sleep_for(100ms);
        source.request_stop();
    });
    const auto result = run_subprocess(shell("sleep 100"), 60s, source.get_token());
    CHECK(result.stopped);
    CHECK(result.time < 10s);
}

TEST_CASE("a channel is descriptor 3 of the child", "[base]") {
    auto options = shell("read line <&3; echo \"got $line\" >&3");
    options.channel = true;
    Subprocess process(std::move(options));
    REQUIRE(::write(process.channel(), "hello\n", 6) == 6);
    char buffer[64] = {};
    const ssize_t n = ::read(process.channel(), buffer, sizeof buffer);
    CHECK(std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(n, 0))) == "got hello\n");
}

TEST_CASE("a missing program and a missing folder are named", "[base]") {
    CHECK_THAT(*test::error_of([] { Subprocess p({.argv = {"/none/such"}}); }),
               ContainsSubstring("/none/such"));
    CHECK_THAT(*test::error_of([] { Subprocess p({.argv = {"no-such-program-here"}}); }),
               ContainsSubstring("no such program in PATH"));
    CHECK_THAT(
        *test::error_of([] { Subprocess p({.argv = {"true"}, .working_folder = "/none/such"}); }),
        ContainsSubstring("/none/such"));
}
