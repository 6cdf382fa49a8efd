// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <sstream>
#include <thread>

#include "base/json_text.hpp"
#include "emulator/driver.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"
#include "worker/measure_compare.hpp"
#include "worker/measure_device.hpp"
#include "worker/measure_evaluate.hpp"
#include "worker/measure_program.hpp"
#include "worker/roles.hpp"

namespace kernelforge::worker {

namespace {

// Exit codes besides 0 (the channel closed) and 2 (usage); docs/measuring.md.
constexpr int exit_protocol = 3;
constexpr int exit_context_lost = 70;
constexpr int exit_device_busy = 71;
constexpr int clean_end_ms = 500;

enum class Kind { measure, emulate };

struct Arguments {
    Kind kind = Kind::measure;
    emulator::DriverOptions emulator;
    std::vector<std::string> cupti_paths;
    bool use_cupti = true;
    std::vector<std::string> plugins;  ///< of comparators
    LibraryOptions libraries;
};

/// A number of threads; nothing for other text.
std::optional<int> parse_threads(const std::string& text) {
    constexpr int most = 1024;
    int threads = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    const bool all = error == std::errc() && end == text.data() + text.size();
    return all && threads >= 0 && threads <= most ? std::optional(threads) : std::nullopt;
}

std::optional<Arguments> parse_arguments(Kind kind, const std::vector<std::string>& words) {
    Arguments arguments;
    arguments.kind = kind;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (kind == Kind::emulate && words[i] == "--threads" && i + 1 < words.size() &&
            parse_threads(words[i + 1])) {
            arguments.emulator.threads = *parse_threads(words[++i]);
        } else if (kind == Kind::emulate && words[i] == "--no-check") {
            arguments.emulator.check = false;
        } else if (words[i] == "--cupti" && i + 1 < words.size()) {
            arguments.cupti_paths.push_back(words[++i]);
        } else if (words[i] == "--plugin" && i + 1 < words.size()) {
            arguments.plugins.push_back(words[++i]);
        } else if (words[i] == "--cache" && i + 1 < words.size()) {
            arguments.libraries.cache_folder = words[++i];
        } else if (words[i] == "--library-folder" && i + 1 < words.size()) {
            arguments.libraries.folders.push_back(words[++i]);
        } else if (words[i] == "--no-cupti") {
            arguments.use_cupti = false;
        } else {
            std::fprintf(stderr, "kernelforge-worker --role %s: unknown argument %s\n",
                         kind == Kind::emulate ? "emulate" : "measure", words[i].c_str());
            return std::nullopt;
        }
    }
#ifdef KERNELFORGE_LIBRARY_FOLDERS
    std::istringstream folders(KERNELFORGE_LIBRARY_FOLDERS);
    for (std::string folder; std::getline(folders, folder, ':');) {
        arguments.libraries.folders.push_back(folder);
    }
#endif
#ifdef KERNELFORGE_CUPTI_LIBRARY
    arguments.cupti_paths.emplace_back(KERNELFORGE_CUPTI_LIBRARY);
#endif
    return arguments;
}

/// Ends the process when the other side of the channel goes away, whatever the main thread waits
/// for.
void end_with_channel(int channel) {
    std::thread([channel] {
        for (;;) {
            pollfd entry{channel, POLLRDHUP, 0};
            if (::poll(&entry, 1, -1) > 0 &&
                (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
                // A main thread that waits for a message ends by itself, and with it what tools
                // that watch this process must still write; one that hangs on the device does not.
                ::poll(nullptr, 0, clean_end_ms);
                ::_exit(0);
            }
        }
    }).detach();
}

/// Serves the requests of one channel. The driver is loaded at the first request that needs it, a
/// context is made at the first that runs something.
class MeasureRole {
  public:
    MeasureRole(wire::Channel& channel, Arguments arguments)
        : channel_(channel), arguments_(std::move(arguments)) {}

    void serve(const std::string& text) {
        std::string answer;
        try {
            const JsonDocument document(text, "request");
            const JsonNode root = document.root();
            answer = answer_to(root.at("type").as_string(), root);
        } catch (const DriverError& error) {
            answer = error_message(error);
            if (is_sticky(error.result())) {
                send(answer);
                ::_exit(exit_context_lost);
            }
        } catch (const Error& error) {
            answer = error_message(error);
        } catch (const std::exception& error) {
            // No memory, say. An end of this process would be taken for the candidate's doing.
            answer =
                error_message(Error(ErrorCode::internal, std::string("worker: ") + error.what()));
        }
        send(answer);
    }

  private:
    static std::string error_message(const Error& error) {
        return wire::message("error", Json{{"code", std::string(to_string(error.code()))},
                                           {"message", error.what()}});
    }

    void send(const std::string& answer) {
        // What a kernel printed belongs to the answer that follows.
        std::fflush(stdout);
        channel_.send(answer);
    }

    std::string answer_to(const std::string& type, const JsonNode& root) {
        if (type == "devices") return wire::message("devices", devices());
        if (type == "roofs") {
            const std::optional<JsonNode> body = root.find("body");
            const auto index = body && body->json().is_object() ? body->integer_or("device", 0) : 0;
            // An emulated device has no ceilings of its own.
            return wire::message("roofs", wire::encode(arguments_.kind == Kind::emulate
                                                           ? Roofs{}
                                                           : measure_roofs(device(index))));
        }
        if (type == "evaluate") {
            return wire::message("evaluation", wire::encode(evaluation(root.at("body"))));
        }
        if (type == "collect") {
            const auto request = wire::decode<CollectRequest>(root.at("body"));
            return wire::message("profile", wire::encode(collect(device(request.device), request)));
        }
        root.at("type").expected("devices, evaluate, collect or roofs");
    }

    Json devices() {
        Json list = Json::array();
        for (const DeviceInfo& info : known_devices()) list.push_back(wire::encode(info));
        return list;
    }

    Evaluation evaluation(const JsonNode& body) {
        const auto request = wire::decode<EvaluationRequest>(body);
        if (request.command) {
            return arguments_.kind == Kind::emulate ? refuse_command(request)
                                                    : run_command_baseline(request);
        }
        load_plugins();
        return evaluate(
            device(request.device), request, [&](const Evaluation& verdict, EvaluationStatus why) {
                send(wire::message("evaluation", wire::encode(verdict)));
                ::_exit(why == EvaluationStatus::timed_out ? exit_device_busy : exit_context_lost);
            });
    }

    static Evaluation refuse_command(const EvaluationRequest& request) {
        Evaluation evaluation;
        evaluation.id = request.id;
        evaluation.evaluator = "emulator";
        evaluation.status = EvaluationStatus::rejected;
        evaluation.rule = not_emulated_rule;
        evaluation.message =
            "baseline " + request.command->name +
            " is a program that measures on a GPU: the emulator executes PTX and has no times";
        return evaluation;
    }

    /// Once, at the first evaluation, so that what is wrong with a plugin is an answer.
    void load_plugins() {
        for (; loaded_plugins_ < arguments_.plugins.size(); ++loaded_plugins_) {
            load_comparator_plugin(arguments_.plugins[loaded_plugins_]);
        }
    }

    const std::vector<DeviceInfo>& known_devices() {
        if (!devices_ && arguments_.kind == Kind::emulate) {
            emulated_ = std::make_unique<emulator::EmulatedDevice>(arguments_.emulator);
            devices_ = {emulated_->info()};
        }
        if (!devices_) {
            driver_ = load_driver();
            devices_ = driver_ != nullptr ? list_devices(*driver_) : std::vector<DeviceInfo>{};
        }
        return *devices_;
    }

    /// The device in use; a worker keeps to the first one it is asked for.
    Device& device(std::int64_t index) {
        const std::vector<DeviceInfo>& known = known_devices();
        const auto info = std::find_if(known.begin(), known.end(), [&](const DeviceInfo& device) {
            return device.index == index;
        });
        if (info == known.end()) {
            throw Error(ErrorCode::device_unavailable,
                        driver_ == nullptr && emulated_ == nullptr
                            ? "there is no NVIDIA driver (libcuda.so.1 was not found)"
                            : fmt::format("there is no device {} among {}", index, known.size()));
        }
        if (device_ == nullptr && emulated_ != nullptr) {
            device_ = std::make_unique<Device>(emulated_->driver(), *info, nullptr,
                                               "nothing is timed", emulated_.get());
        }
        if (device_ == nullptr) {
            CuptiOutcome cupti{nullptr, "switched off"};
            if (arguments_.use_cupti) cupti = start_cupti(arguments_.cupti_paths);
            recorder_ = std::move(cupti.recorder);
            device_ = std::make_unique<Device>(*driver_, *info, recorder_.get(), cupti.why_not);
            device_->set_library_options(arguments_.libraries);
            if (recorder_ == nullptr) {
                std::fprintf(stderr, "times come from events: %s\n", cupti.why_not.c_str());
            }
        }
        if (device_->info().index != index) {
            throw Error(ErrorCode::invalid_argument,
                        fmt::format("this worker runs on device {}, asked for {}",
                                    device_->info().index, index));
        }
        return *device_;
    }

    wire::Channel& channel_;
    Arguments arguments_;
    std::size_t loaded_plugins_ = 0;
    std::unique_ptr<const Driver> driver_;
    std::unique_ptr<emulator::EmulatedDevice> emulated_;
    std::optional<std::vector<DeviceInfo>> devices_;
    std::unique_ptr<CuptiRecorder> recorder_;
    std::unique_ptr<Device> device_;
};

int serve(int channel, const std::optional<Arguments>& parsed) {
    if (!parsed) return 2;
    // Programs that are started from here must not keep the channel open.
    ::fcntl(channel, F_SETFD, FD_CLOEXEC);
    end_with_channel(channel);
    wire::Channel messages(channel);
    MeasureRole role(messages, *parsed);
    try {
        for (;;) {
            const wire::Channel::Received received =
                messages.receive(std::chrono::steady_clock::time_point::max());
            if (received.outcome == wire::Channel::Outcome::closed) return 0;
            if (received.outcome == wire::Channel::Outcome::message) role.serve(received.message);
        }
    } catch (const Error& error) {
        std::fprintf(stderr, "kernelforge-worker --role %s: %s\n",
                     parsed->kind == Kind::emulate ? "emulate" : "measure", error.what());
        return exit_protocol;
    }
}

}  // namespace

int run_measure_role(int channel, const std::vector<std::string>& arguments) {
    return serve(channel, parse_arguments(Kind::measure, arguments));
}

int run_emulate_role(int channel, const std::vector<std::string>& arguments) {
    return serve(channel, parse_arguments(Kind::emulate, arguments));
}

}  // namespace kernelforge::worker
