// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/registry.hpp"

namespace CLI {
class App;
}

namespace kernelforge::cli {

/// Exit codes of every verb.
enum ExitCode : int {
    exit_done = 0,
    exit_negative = 1,     ///< a verdict that is not "ok"
    exit_usage = 2,        ///< usage or configuration
    exit_environment = 3,  ///< the machine lacks something; the message names it
};

/// What all verbs share. Only the program reads the environment.
struct Context {
    bool json = false;  ///< one JSON object on stdout, all else on stderr
    bool verbose = false;
    std::vector<std::string> plugins;  ///< shared libraries to load
    std::string worker;
    std::string cache;  ///< empty: $XDG_CACHE_HOME/kernelforge, ~/.cache/kernelforge
    Registry registry;

    /// Loads what `--plugin` names. @throws Error plugin
    void load_plugins();
    [[nodiscard]] PluginContext plugin_context() const;
};

/// "name" or "name:{json}" or "name:@file", as `--evaluator`, `--llm`, … take it.
struct Choice {
    std::string name;
    std::string options;
};
/// @throws Error io (the file)
[[nodiscard]] Choice parse_choice(const std::string& text);

/// An evaluator and the name that it was made by, which is never `auto`.
struct ChosenEvaluator {
    std::string name;
    std::unique_ptr<Evaluator> evaluator;
};
/// Makes what `--evaluator` names. `auto` is `cuda` where that has a device, else `emulator`; that
/// and why is then said on stderr, once a process. `cuda` is told where PATH has compute-sanitizer,
/// unless the options say so. @throws Error of every kind
[[nodiscard]] ChosenEvaluator make_evaluator(Context& context, const std::string& text);

/// What `--evaluator` takes, for its help.
inline constexpr const char* evaluator_help =
    "Who judges: auto (the GPU, else the emulator), or NAME or NAME:{json} or NAME:@file";

/// What is said below a report of modelled times.
inline constexpr const char* meaning_of_modelled_times =
    "results were checked; whether it is faster was not: modelled (static) times count neither "
    "loops nor memory and say nothing about a GPU's times until measured there";
/// Of times on this device: "measured", or "modelled (static)" on an emulated one.
[[nodiscard]] std::string_view label_of_times(const DeviceInfo& device);

/// A program in PATH; empty: it is not there.
[[nodiscard]] std::string find_in_path(const std::string& name);

/// A stop token that Ctrl-C and SIGTERM request; a second Ctrl-C ends the program at once.
[[nodiscard]] std::stop_token stop_on_signal();

/// Prints one JSON object on stdout.
void print_json(const Json& value);

/// Seconds as "12.3 us", "1.23 ms", "1.23 s".
[[nodiscard]] std::string format_seconds(double seconds);

/// The options that `evaluate`, `compare` and `profile` share, and what they do first.
struct SubjectOptions {
    std::string task;
    std::vector<std::string> candidates;  ///< one or two files
    std::string evaluator = "auto";
    std::string depth = "screen";
    std::vector<std::size_t> workloads;  ///< empty: all
    /// Instead of all: fewest, median and most bytes, of those that have at most so many.
    std::optional<double> spread_bytes;
    std::vector<std::string> bindings;  ///< "NAME=VALUE", of the first candidate
    std::uint64_t seed = 0;
    int device = 0;
    int time_limit_s = 120;
};
void add_subject_options(CLI::App& app, SubjectOptions& options);

/// A device to compile and check for where there is none: an H200's limits, no roofs.
[[nodiscard]] DeviceInfo assumed_device();

// Each adds its verb to the program and gives the function that runs it.
using Run = std::function<int()>;
Run add_doctor(CLI::App& app, Context& context);
Run add_evaluate(CLI::App& app, Context& context);
Run add_compare(CLI::App& app, Context& context);
Run add_profile(CLI::App& app, Context& context);
Run add_optimize(CLI::App& app, Context& context);
Run add_plugins(CLI::App& app, Context& context);
Run add_worker(CLI::App& app, Context& context);

}  // namespace kernelforge::cli
