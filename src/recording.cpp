// SPDX-License-Identifier: Apache-2.0
#include "kernelforge/recording.hpp"

#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "chat_json.hpp"

namespace kernelforge {
namespace {

constexpr std::string_view format_name = "kernelforge-recording";
constexpr std::int64_t format_version = 1;

RecordingHeader decode_header(const JsonNode& node) {
    const auto format = node.find("format");
    if (!format || !format->json().is_string() || format->as_string() != format_name) {
        node.fail(
            ErrorCode::parse,
            "expected a recording, whose first line has \"format\": \"kernelforge-recording\"");
    }
    const JsonNode version = node.at("version");
    if (version.as_integer() != format_version) {
        version.fail(ErrorCode::unsupported, "expected a recording of version 1, found version " +
                                                 std::to_string(version.as_integer()));
    }
    node.only_members({"format", "version", "author", "definition", "created", "note"});
    return {.author = node.string_or("author", ""),
            .definition = node.string_or("definition", ""),
            .created = node.string_or("created", ""),
            .note = node.string_or("note", "")};
}

std::string encode_header(const RecordingHeader& header) {
    return dump_json({{"format", std::string(format_name)},
                      {"version", format_version},
                      {"author", header.author},
                      {"definition", header.definition},
                      {"created", header.created},
                      {"note", header.note}});
}

RecordedCompletion decode_completion(const JsonNode& node) {
    node.only_members({"expansion", "turn", "prompt_sha256", "status", "content", "tool_calls",
                       "usage", "model", "time_s", "message"});
    RecordedCompletion completion;
    completion.key.expansion =
        static_cast<std::uint64_t>(node.at("expansion").as_integer(0, INT64_MAX));
    completion.key.turn = static_cast<std::uint32_t>(node.at("turn").as_integer(0, UINT32_MAX));
    completion.prompt_sha256 = node.string_or("prompt_sha256", "");
    completion.reply = chat::decode_reply(node);
    if (completion.reply.status == ChatStatus::pending) {
        node.at("status").expected("\"ok\", \"truncated\" or \"refused\"");
    }
    return completion;
}

std::string encode_completion(const RecordedCompletion& completion) {
    Json json = {{"expansion", completion.key.expansion},
                 {"turn", completion.key.turn},
                 {"prompt_sha256", completion.prompt_sha256}};
    chat::encode_reply(json, completion.reply);
    return dump_json(json);
}

void warn(const LogSink& log, const std::string& line) {
    if (log) log(LogLevel::warning, line);
}

std::string present_utc() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return {text, length};
}

class Recorder final : public LlmBackend {
  public:
    Recorder(std::unique_ptr<LlmBackend> inner, std::string path, RecordingHeader header,
             LogSink log)
        : inner_(std::move(inner)), path_(std::move(path)), log_(std::move(log)), file_(path_) {
        // The lock is taken, so nobody changes the file between reading it and appending to it.
        if (file_.was_torn()) warn(log_, path_ + ": an incomplete last line was cut off");
        const std::string text = read_file(path_);
        if (text.empty()) {
            if (header.created.empty()) header.created = present_utc();
            file_.append(encode_header(header));
            return;
        }
        const Recording recording = parse_recording(text, path_, log_);
        expect_same("author", header.author, recording.header.author);
        expect_same("definition", header.definition, recording.header.definition);
        for (const RecordedCompletion& completion : recording.completions) {
            known_.emplace(completion.key, Known{completion, true});
        }
    }

    ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
        chat::check_request(request, stop, "recorder");
        const std::string prompt = prompt_sha256(request);
        if (auto reply = claim(request.key, prompt)) return *std::move(reply);
        const Claim claimed{*this, request.key};
        ChatReply reply = inner_->complete(request, stop);
        if (reply.status == ChatStatus::pending) return reply;
        const std::lock_guard lock(mutex_);
        Known& known =
            known_.emplace(request.key, Known{{request.key, prompt, reply}, false}).first->second;
        save(known);
        return reply;
    }

  private:
    struct Known {
        RecordedCompletion completion;
        bool saved = false;
    };
    /// Gives up the claim to a key when the call ends, however it ends.
    struct Claim {
        Recorder& recorder;
        CompletionKey key;
        ~Claim() {
            const std::lock_guard lock(recorder.mutex_);
            recorder.asked_.erase(key);
        }
    };

    void expect_same(const char* what, const std::string& wanted, const std::string& found) const {
        if (wanted.empty() || wanted == found) return;
        throw Error(ErrorCode::invalid_argument, path_ + ": expected a recording with " + what +
                                                     " \"" + wanted + "\" to continue, found " +
                                                     what + " \"" + found + "\"");
    }

    void save(Known& known) {
        file_.append(encode_completion(known.completion));
        known.saved = true;
    }

    /// The reply, when the key was recorded; otherwise the key is taken for this call.
    std::optional<ChatReply> claim(const CompletionKey& key, const std::string& prompt) {
        const std::lock_guard lock(mutex_);
        if (const auto found = known_.find(key); found != known_.end()) {
            const std::string& recorded = found->second.completion.prompt_sha256;
            if (recorded != prompt) {
                throw Error(ErrorCode::invalid_argument,
                            path_ + ": " + chat::describe(key) +
                                " is recorded already, for another prompt");
            }
            if (!found->second.saved) save(found->second);
            return found->second.completion.reply;
        }
        if (!asked_.insert(key).second) {
            throw Error(ErrorCode::invalid_argument,
                        path_ + ": " + chat::describe(key) + " is being asked already");
        }
        return std::nullopt;
    }

    std::unique_ptr<LlmBackend> inner_;
    std::string path_;
    LogSink log_;
    std::mutex mutex_;  // guards file_, known_, asked_
    AppendFile file_;
    std::map<CompletionKey, Known> known_;
    std::set<CompletionKey> asked_;
};

}  // namespace

std::string prompt_sha256(const ChatRequest& request) {
    Sha256 hash;
    hash.field("kernelforge-prompt-1");
    hash.field(std::to_string(request.messages.size()));
    for (const ChatMessage& message : request.messages) {
        hash.field(to_string(message.role));
        hash.field(message.content);
        hash.field(std::to_string(message.tool_calls.size()));
        for (const ToolCall& call : message.tool_calls) {
            hash.field(call.id);
            hash.field(call.name);
            hash.field(call.arguments);
        }
        hash.field(message.tool_call_id);
    }
    for (const ToolSpec& tool : request.tools) {
        hash.field(tool.name);
        hash.field(tool.description);
        hash.field(tool.parameters);
    }
    return hash.hex();
}

Recording parse_recording(std::string_view text, const std::string& file, const LogSink& log) {
    Recording recording;
    std::map<CompletionKey, std::size_t> lines;
    std::size_t number = 0;
    while (!text.empty()) {
        ++number;
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) {
            if (number == 1) {
                throw Error(ErrorCode::parse, SourcePosition{file, 1, 1},
                            "expected the first line of a recording, found one without an end");
            }
            recording.torn = true;
            warn(log,
                 to_string(SourcePosition{file, number, 0}) + ": dropped an incomplete last line");
            break;
        }
        const JsonDocument document(std::string(text.substr(0, end)), file, number);
        text.remove_prefix(end + 1);
        if (number == 1) {
            recording.header = decode_header(document.root());
            continue;
        }
        RecordedCompletion completion = decode_completion(document.root());
        const auto [line, added] = lines.emplace(completion.key, number);
        if (!added) {
            document.root()
                .at("expansion")
                .fail(ErrorCode::parse, chat::describe(completion.key) + " was recorded in line " +
                                            std::to_string(line->second) + " already");
        }
        recording.completions.push_back(std::move(completion));
    }
    if (number == 0) {
        throw Error(ErrorCode::parse, SourcePosition{file, 1, 1},
                    "expected a recording, found an empty file");
    }
    return recording;
}

Recording read_recording(const std::string& path, const LogSink& log) {
    return parse_recording(read_file(path), path, log);
}

std::unique_ptr<LlmBackend> record(std::unique_ptr<LlmBackend> inner, std::string path,
                                   RecordingHeader header, LogSink log) {
    if (!inner) {
        throw Error(ErrorCode::invalid_argument, "cannot record to " + path + ": no backend");
    }
    return std::make_unique<Recorder>(std::move(inner), std::move(path), std::move(header),
                                      std::move(log));
}

}  // namespace kernelforge
