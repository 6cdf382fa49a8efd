// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

int main(int argc, char** argv) {
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
        std::fprintf(stderr, "kernelforge: unknown verb \"%s\"; kernelforge --help lists them\n",
                     argv[1]);
        return exit_usage;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? exit_done : exit_usage;
    }
    try {
        context.load_plugins();
        for (const auto& [sub, run] : runs) {
            if (sub->parsed()) return run();
        }
    } catch (const Error& error) {
        std::fprintf(stderr, "kernelforge: %s\n", error.what());
        if (context.json) {
            print_json({{"error", {{"code", to_string(error.code())}, {"message", error.what()}}}});
        }
        return exit_code_of(error.code());
    } catch (const std::bad_alloc&) {
        std::fputs("kernelforge: out of memory\n", stderr);
        return exit_environment;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "kernelforge: internal error, %s\n", error.what());
        return exit_environment;
    }
    return exit_usage;
}
