// SPDX-License-Identifier: Apache-2.0
#include "command_backend.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "base/subprocess.hpp"
#include "chat_format.hpp"
#include "chat_json.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_reply_bytes = std::size_t{32} << 20;

enum class Format { json, text };

struct CommandOptions {
    std::vector<std::string> argv;
    Format format = Format::json;
    std::chrono::milliseconds time_limit{600'000};
    std::string working_folder;
};

CommandOptions decode_options(std::string_view text) {
    const JsonDocument document(std::string(text), "llm command options");
    const JsonNode node = document.root();
    node.only_members({"argv", "format", "timeout_seconds", "working_folder"});
    CommandOptions options;
    const JsonNode argv = node.at("argv");
    for (std::size_t i = 0; i < argv.array_size(); ++i) {
        options.argv.push_back(argv.at(i).as_string());
    }
    if (options.argv.empty() || options.argv.front().empty()) {
        argv.expected("a program and its arguments");
    }
    if (const auto format = node.find("format")) {
        const std::string name = format->as_string();
        if (name != "json" && name != "text") format->expected("\"json\" or \"text\"");
        options.format = name == "json" ? Format::json : Format::text;
    }
    if (const auto timeout = node.find("timeout_seconds")) {
        const double seconds = timeout->as_number();
        constexpr double longest_s = 7 * 24 * 3600.0;
        if (seconds < 0.001 || seconds > longest_s) {
            timeout->expected("seconds from 0.001 to 604800");
        }
        options.time_limit = std::chrono::milliseconds(static_cast<long long>(seconds * 1000));
    }
    options.working_folder = node.string_or("working_folder", "");
    return options;
}

/// The request on the command's stdin; docs/llm_backends.md describes it.
std::string encode_request(const ChatRequest& request) {
    Json json = {{"format", "kernelforge-chat"},
                 {"version", 1},
                 {"expansion", request.key.expansion},
                 {"turn", request.key.turn},
                 {"messages", chat::encode_messages(request)},
                 {"tools", chat::encode_tools(request)},
                 {"max_output_tokens", request.max_output_tokens}};
    if (request.temperature) json["temperature"] = *request.temperature;
    return dump_json(json) + "\n";
}

std::string last_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    const std::size_t newline = text.rfind('\n');
    constexpr std::size_t longest_line_bytes = 300;
    return chat::one_line(newline == std::string::npos ? text : text.substr(newline + 1),
                          longest_line_bytes);
}

class CommandBackend final : public LlmBackend {
  public:
    explicit CommandBackend(CommandOptions options) : options_(std::move(options)) {}

    ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
        chat::check_request(request, stop, "command");
        if (options_.format == Format::text && !request.tools.empty()) {
            throw Error(
                ErrorCode::unsupported,
                name() + ": expected format \"json\" for a request with tools, found \"text\"");
        }
        SubprocessOptions process{.argv = options_.argv,
                                  .working_folder = options_.working_folder,
                                  .environment = {},
                                  .max_output_bytes = max_reply_bytes,
                                  .channel = false,
                                  .input = options_.format == Format::json
                                               ? encode_request(request)
                                               : chat::transcript(request),
                                  .end_at_output_limit = true};
        const SubprocessResult result =
            run_subprocess(std::move(process), options_.time_limit, stop);
        check(result);
        ChatReply reply =
            options_.format == Format::json ? read_json(result.output) : read_text(result.output);
        reply.time = result.time;
        return reply;
    }

  private:
    std::string name() const { return "command " + options_.argv.front(); }

    [[noreturn]] void fail(const std::string& sentence) const {
        throw Error(ErrorCode::backend_failed, name() + ": " + sentence);
    }

    void check(const SubprocessResult& result) const {
        if (result.stopped) throw Error(ErrorCode::cancelled, name() + ": stopped");
        // Before the status: the command was killed for it.
        if (result.output.size() >= max_reply_bytes) {
            fail("expected less than 32 MiB on stdout, found more");
        }
        if (result.timed_out) {
            fail("expected an answer within " + std::to_string(options_.time_limit.count()) +
                 " ms, found none");
        }
        if (!result.status.ok()) {
            const std::string line = last_line(result.error_output);
            fail(result.status.describe() + (line.empty() ? "" : ": " + line));
        }
        if (result.output.find_first_not_of(" \t\r\n") == std::string::npos) {
            const std::string line = last_line(result.error_output);
            fail("expected a reply on stdout, found nothing" +
                 (line.empty() ? "" : ", on stderr: " + line));
        }
    }

    ChatReply read_json(const std::string& output) const {
        try {
            const JsonDocument document(output, "stdout");
            document.root().only_members(
                {"content", "status", "tool_calls", "usage", "model", "message", "time_s"});
            return chat::decode_reply(document.root());
        } catch (const Error& error) {
            fail(error.what());
        }
    }

    static ChatReply read_text(const std::string& output) {
        ChatReply reply;
        reply.content = output;
        return reply;
    }

    const CommandOptions options_;
};

}  // namespace

std::unique_ptr<LlmBackend> make_command_backend(std::string_view options,
                                                 const PluginContext& /*context*/) {
    return std::make_unique<CommandBackend>(decode_options(options));
}

}  // namespace kernelforge
