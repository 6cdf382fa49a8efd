// SPDX-License-Identifier: Apache-2.0
#include "base/files.hpp"

#include <sys/stat.h>

#include <fstream>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;

TEST_CASE("a written file reads back and leaves no temporary file", "[base]") {
    const TemporaryFolder folder;
    const auto path = folder.path() / "a";
    write_file_atomically(path, "one");
    write_file_atomically(path, std::string_view("two\0x", 5));
    CHECK(read_file(path) == std::string_view("two\0x", 5));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a pipe and a folder are not read as files", "[base]") {
    const TemporaryFolder folder;
    const auto pipe = folder.path() / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    for (const auto& path : {pipe, folder.path()}) {
        CHECK_THAT(*test::error_of([&] { (void)read_file(path); }),
                   ContainsSubstring("expected a regular file"));
    }
}

TEST_CASE("read_file names what is missing and what is too large", "[base]") {
    const TemporaryFolder folder;
    CHECK_THAT(*test::error_of([&] { (void)read_file(folder.path() / "none"); }),
               ContainsSubstring("none") && ContainsSubstring("No such file"));
    write_file_atomically(folder.path() / "big", std::string(100, 'x'));
    CHECK_THAT(*test::error_of([&] { (void)read_file(folder.path() / "big", 99); }),
               ContainsSubstring("at most 99 bytes"));
}

TEST_CASE("an append file cuts off a torn last line and goes on", "[base]") {
    const TemporaryFolder folder;
    const auto path = folder.path() / "log";
    {
        AppendFile file(path);
        CHECK_FALSE(file.was_torn());
        file.append("first");
    }
    std::ofstream(path, std::ios::app) << "torn";
    {
        AppendFile file(path);
        CHECK(file.was_torn());
        file.append("second");
    }
    CHECK(read_file(path) == "first\nsecond\n");
}

TEST_CASE("an append file is locked against a second writer", "[base]") {
    const TemporaryFolder folder;
    const AppendFile file(folder.path() / "log");
    CHECK_THAT(*test::error_of([&] { AppendFile second(folder.path() / "log"); }),
               ContainsSubstring("another process is writing"));
}

TEST_CASE("a full disk is an error that leaves the file well-formed", "[base]") {
    if (!std::filesystem::exists("/dev/full")) return;
    CHECK_THAT(*test::error_of([] {
        AppendFile file("/dev/full");
        file.append("x");
    }),
               ContainsSubstring("No space left"));
}
