// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include "kernelforge/version.hpp"
#include "worker/roles.hpp"

namespace {

constexpr int usage_error = 2;
constexpr int not_in_this_version = 3;
/// The socket that a host gives its worker (docs/measuring.md).
constexpr int channel = 3;

constexpr const char* help =
    "usage: kernelforge-worker --role ROLE [ARGUMENT ...]\n"
    "\n"
    "Started by KernelForge, which talks to it over file descriptor 3.\n"
    "\n"
    "roles:\n"
    "  compile   compiles candidates\n"
    "  measure   judges and times candidates on one device\n"
    "            [--cupti PATH] [--no-cupti]\n"
    "  emulate   judges candidates on an emulated device\n"
    "            [--threads N] [--no-check]\n"
    "\n"
    "other options:\n"
    "  --help     print this text\n"
    "  --version  print the version\n";

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (!words.empty() && words[0] == "--help") {
        std::fputs(help, stdout);
        return 0;
    }
    if (!words.empty() && words[0] == "--version") {
        std::printf("kernelforge-worker %s\n", KERNELFORGE_VERSION);
        return 0;
    }
    if (words.size() < 2 || words[0] != "--role") {
        std::fputs(help, stderr);
        return usage_error;
    }
    const std::vector<std::string> rest(words.begin() + 2, words.end());
    if (words[1] == "compile") return kernelforge::worker::run_compile_role(channel, rest);
    if (words[1] == "measure") return kernelforge::worker::run_measure_role(channel, rest);
    if (words[1] == "emulate") return kernelforge::worker::run_emulate_role(channel, rest);
    if (words[1] == "profile") {
        std::fprintf(stderr, "kernelforge-worker: role %s is not in this version\n",
                     words[1].c_str());
        return not_in_this_version;
    }
    std::fprintf(stderr,
                 "kernelforge-worker: unknown role %s, expected compile, measure or emulate\n",
                 words[1].c_str());
    return usage_error;
}
