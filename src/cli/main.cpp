// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <new>

#include "cli/context.hpp"
#include "kernelforge/version.hpp"

namespace {

using namespace kernelforge;
using namespace kernelforge::cli;

int exit_code_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::device_unavailable:
        case ErrorCode::unsupported:
        case ErrorCode::backend_failed:
        case ErrorCode::worker_failed:
            return exit_environment;
        case ErrorCode::cancelled:
            return exit_negative;
        default:
            return exit_usage;
    }
}

struct Verb {
    const char* name;
    const char* summary;
    Run (*add)(CLI::App&, Context&);
};

constexpr Verb verbs[] = {
    {"doctor", "Say what this machine has and what KernelForge can do with it", add_doctor},
    {"evaluate", "Judge and time one candidate", add_evaluate},
    {"compare", "Time two candidates against each other", add_compare},
    {"profile", "Static facts, occupancy and roofline position of one candidate", add_profile},
    {"optimize", "Search for a faster kernel", add_optimize},
    {"plugins", "List what can be chosen by name", add_plugins},
    {"worker", "Evaluate the jobs of a folder", add_worker},
};

/// A first word that is no verb and no option: CLI11 would only say that a verb is missing.
bool is_unknown_verb(int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return false;
    return std::none_of(std::begin(verbs), std::end(verbs),
                        [&](const Verb& verb) { return std::string_view(verb.name) == argv[1]; });
}

/// Before the options are parsed, or when they cannot be.
bool wants_json(int argc, char** argv) {
    return std::any_of(argv, argv + argc,
                       [](const char* word) { return std::string_view(word) == "--json"; });
}

int fail(bool json, int code, std::string_view kind, const std::string& message) {
    std::fprintf(stderr, "kernelforge: %s\n", message.c_str());
    if (json) print_json({{"error", {{"code", kind}, {"message", message}}}});
    return code;
}

/// Files that are opened later must not get the numbers of the standard streams: what is printed
/// would end up in them.
void open_standard_streams() {
    int descriptor = 0;
    do {
        descriptor = ::open("/dev/null", O_RDWR);
    } while (descriptor >= 0 && descriptor <= 2);
    if (descriptor > 2) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_streams();
    Context context;
    CLI::App app("KernelForge makes GPU kernels faster by search with language models",
                 "kernelforge");
    app.set_version_flag("--version", KERNELFORGE_VERSION);
    app.require_subcommand(1);
    app.fallthrough();
    app.add_flag("--json", context.json, "One JSON object on stdout, all else on stderr");
    app.add_flag("--verbose", context.verbose, "Log what goes on to stderr");
    app.add_option("--plugin", context.plugins,
                   "Load a plugin (a shared library); may be repeated");
    app.add_option("--worker-program", context.worker, "The kernelforge-worker program");
    app.add_option("--cache", context.cache, "Folder for compiled code and measured roofs");

    std::vector<std::pair<CLI::App*, Run>> runs;
    for (const Verb& verb : verbs) {
        CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
        runs.emplace_back(sub, verb.add(*sub, context));
    }
    if (is_unknown_verb(argc, argv)) {
        return fail(wants_json(argc, argv), exit_usage, "usage",
                    std::string("unknown verb \"") + argv[1] + "\"; kernelforge --help lists them");
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        return fail(
            wants_json(argc, argv), exit_usage, "usage",
            std::string(error.what()) + "; see kernelforge --help and kernelforge VERB --help");
    }
    const auto failed = [&](int code, std::string_view kind, const std::string& message) {
        return fail(context.json, code, kind, message);
    };
    int code = exit_usage;
    try {
        context.load_plugins();
        for (const auto& [sub, run] : runs) {
            if (sub->parsed()) code = run();
        }
    } catch (const Error& error) {
        code = failed(exit_code_of(error.code()), to_string(error.code()), error.what());
    } catch (const std::bad_alloc&) {
        code = failed(exit_environment, "out_of_memory", "out of memory");
    } catch (const std::exception& error) {
        code = failed(exit_environment, "internal", std::string("internal error, ") + error.what());
    }
    // A result that did not arrive is not done.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        std::fputs("kernelforge: the result could not be written to stdout\n", stderr);
        if (code == exit_done) code = exit_environment;
    }
    return code;
}
