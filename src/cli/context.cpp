// SPDX-License-Identifier: Apache-2.0
#include "cli/context.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/files.hpp"

KERNELFORGE_DECLARE_PLUGIN(compiler_nvrtc);
KERNELFORGE_DECLARE_PLUGIN(evaluator_cuda);
KERNELFORGE_DECLARE_PLUGIN(evaluator_emulator);
KERNELFORGE_DECLARE_PLUGIN(evaluator_folder);
KERNELFORGE_DECLARE_PLUGIN(llm_batch);
KERNELFORGE_DECLARE_PLUGIN(llm_command);
KERNELFORGE_DECLARE_PLUGIN(llm_anthropic);
KERNELFORGE_DECLARE_PLUGIN(llm_openai);
KERNELFORGE_DECLARE_PLUGIN(llm_replay);
KERNELFORGE_DECLARE_PLUGIN(search_greedy);

namespace kernelforge::cli {
namespace {

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

std::string default_cache() {
    if (const std::string folder = environment("XDG_CACHE_HOME"); !folder.empty()) {
        return folder + "/kernelforge";
    }
    const std::string home = environment("HOME");
    return home.empty() ? "" : home + "/.cache/kernelforge";
}

/// Written by the signal handler, read by the thread that turns it into a stop request.
int signal_pipe[2] = {-1, -1};

void on_signal(int number) {
    // A second one: the user does not want to wait.
    ::signal(number, SIG_DFL);
    const char byte = 1;
    [[maybe_unused]] const ssize_t n = ::write(signal_pipe[1], &byte, 1);
}

}  // namespace

void Context::load_plugins() {
    registry.add(kernelforge_plugin_compiler_nvrtc);
    registry.add(kernelforge_plugin_evaluator_cuda);
    registry.add(kernelforge_plugin_evaluator_emulator);
    registry.add(kernelforge_plugin_evaluator_folder);
    registry.add(kernelforge_plugin_llm_batch);
    registry.add(kernelforge_plugin_llm_command);
#ifdef KERNELFORGE_WITH_HTTP
    registry.add(kernelforge_plugin_llm_anthropic);
    registry.add(kernelforge_plugin_llm_openai);
#endif
    registry.add(kernelforge_plugin_llm_replay);
    registry.add(kernelforge_plugin_search_greedy);
    for (const std::string& path : plugins) registry.load(path);
}

PluginContext Context::plugin_context() const {
    PluginContext result;
    result.worker_path = worker;
    result.cache_folder = cache.empty() ? default_cache() : cache;
    result.secrets = [](std::string_view name) -> std::optional<std::string> {
        const char* value = std::getenv(std::string(name).c_str());
        if (value == nullptr) return std::nullopt;
        return value;
    };
    const auto mutex = std::make_shared<std::mutex>();  // shared by all copies of the sink
    const LogLevel least = verbose ? LogLevel::debug : LogLevel::warning;
    result.log = [mutex, least](LogLevel level, std::string_view line) {
        if (level < least) return;
        const std::lock_guard lock(*mutex);
        std::fprintf(stderr, "kernelforge: %s: %.*s\n", std::string(to_string(level)).c_str(),
                     static_cast<int>(line.size()), line.data());
    };
    return result;
}

Choice parse_choice(const std::string& text) {
    if (text.starts_with('{')) {
        throw Error(
            ErrorCode::invalid_argument,
            "expected NAME or NAME:{json} or NAME:@file, found options without a name: " + text);
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return {text, "{}"};
    std::string options = text.substr(colon + 1);
    if (options.starts_with('@')) options = read_file(options.substr(1), std::size_t{1} << 20);
    return {text.substr(0, colon), options};
}

std::string find_in_path(const std::string& name) {
    const std::string path = environment("PATH");
    std::string_view rest = path;
    while (!rest.empty()) {
        const std::size_t colon = std::min(rest.find(':'), rest.size());
        std::string file = std::string(rest.substr(0, colon)) + "/" + name;
        if (::access(file.c_str(), X_OK) == 0) return file;
        rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return "";
}

namespace {

/// `cuda` with what only this program knows: where PATH has compute-sanitizer.
Choice with_sanitizer(Choice choice) {
    if (choice.name != "cuda") return choice;
    const std::string program = find_in_path("compute-sanitizer");
    if (program.empty()) return choice;
    const JsonDocument document(choice.options, "options of evaluator cuda");
    Json options = document.root().json();
    if (!options.is_object() || options.contains("compute_sanitizer")) return choice;
    options["compute_sanitizer"] = program;
    choice.options = dump_json(options);
    return choice;
}

ChosenEvaluator make_named(Context& context, const Choice& choice) {
    const Choice whole = with_sanitizer(choice);
    return {whole.name,
            context.registry.make<Evaluator>(whole.name, whole.options, context.plugin_context())};
}

/// Why there is no GPU to use; empty where there is one.
std::string why_no_device(Evaluator& evaluator) {
    try {
        return evaluator.devices().empty() ? "there is no GPU here" : "";
    } catch (const Error& error) {
        return std::string("no GPU can be used (") + error.what() + ")";
    }
}

}  // namespace

ChosenEvaluator make_evaluator(Context& context, const std::string& text) {
    const Choice choice = parse_choice(text);
    if (choice.name != "auto") return make_named(context, choice);
    if (choice.options != "{}") {
        throw Error(ErrorCode::invalid_argument, "--evaluator auto: expected no options, found " +
                                                     choice.options +
                                                     "; name the evaluator that they are for");
    }
    ChosenEvaluator gpu = make_named(context, {"cuda", "{}"});
    const std::string why = why_no_device(*gpu.evaluator);
    if (why.empty()) return gpu;
    static std::once_flag said;
    std::call_once(said, [&] {
        std::fprintf(stderr,
                     "kernelforge: %s: candidates run on the emulator, whose times are %s\n",
                     why.c_str(), std::string(to_string(Provenance::modelled_static)).c_str());
    });
    return make_named(context, {"emulator", "{}"});
}

std::string_view label_of_times(const DeviceInfo& device) {
    return to_string(device.emulated ? Provenance::modelled_static : Provenance::measured);
}

std::stop_token stop_on_signal() {
    static std::stop_source source;
    if (::pipe(signal_pipe) == 0) {
        struct sigaction action {};
        action.sa_handler = on_signal;
        action.sa_flags = SA_RESTART;
        ::sigaction(SIGINT, &action, nullptr);
        ::sigaction(SIGTERM, &action, nullptr);
        ::sigaction(SIGHUP, &action, nullptr);
        std::thread([] {
            char byte = 0;
            if (::read(signal_pipe[0], &byte, 1) == 1) {
                std::fputs("kernelforge: stopping, press Ctrl-C again to end at once\n", stderr);
                source.request_stop();
            }
        }).detach();
    }
    return source.get_token();
}

void print_json(const Json& value) {
    std::printf("%s\n", dump_json(value).c_str());
}

std::string format_seconds(double seconds) {
    if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
    if (seconds < 1.0) return fmt::format("{:.3f} ms", seconds * 1e3);
    return fmt::format("{:.2f} s", seconds);
}

}  // namespace kernelforge::cli
