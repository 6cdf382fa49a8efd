// SPDX-License-Identifier: Apache-2.0
#include "batch_backend.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "answers.hpp"
#include "base/files.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "chat_format.hpp"
#include "chat_json.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_answer_bytes = std::size_t{32} << 20;

struct BatchOptions {
    std::filesystem::path folder;
    chat::BodyOptions body;
    std::optional<chat::Prices> prices;
};

BatchOptions decode_options(std::string_view text) {
    const JsonDocument document(std::string(text), "llm batch options");
    const JsonNode node = document.root();
    node.only_members({"folder", "model", "max_tokens_field", "temperature", "extra", "prices"});
    const JsonNode folder = node.at("folder");
    if (folder.as_string().empty()) folder.expected("a folder");
    return {.folder = folder.as_string(),
            .body = chat::decode_body_options(node),
            .prices = chat::decode_prices(node)};
}

/// Tells whether a file is still the one that was read.
struct Stamp {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type time{};
    friend bool operator==(const Stamp&, const Stamp&) = default;
};

/// Nothing when there is no such file.
std::optional<Stamp> stamp_of(const std::filesystem::path& path) {
    std::error_code error;
    Stamp stamp{.bytes = std::filesystem::file_size(path, error), .time = {}};
    if (!error) stamp.time = std::filesystem::last_write_time(path, error);
    if (error) return std::nullopt;
    return stamp;
}

std::string id_of(const CompletionKey& key) {
    return "kf-" + std::to_string(key.expansion) + "-" + std::to_string(key.turn);
}

/// Identity of a prompt: what the model sees, not the limits or the model's name, which may change
/// between two starts of one run.
std::string digest_of(const Json& body) {
    Sha256 hash;
    for (const char* member : {"messages", "tools"}) {
        hash.field(body.contains(member) ? dump_json(body[member]) : std::string());
    }
    return hash.hex();
}

/// `requests.jsonl`: every request of the run, each once.
class RequestFile {
  public:
    explicit RequestFile(std::filesystem::path path) : path_(std::move(path)) {}

    /// Whether `id` is there already. @throws Error invalid_argument (with another prompt), parse,
    /// io
    bool holds(const std::string& id, const std::string& digest) {
        refresh();
        const auto found = requests_.find(id);
        if (found == requests_.end()) return false;
        if (found->second.digest == digest) return true;
        throw Error(ErrorCode::invalid_argument,
                    SourcePosition{path_.string(), found->second.line, 0},
                    id + " was asked with another prompt, by another run; expected a folder of its "
                         "own for each run");
    }

    void add(const std::string& id, const std::string& digest, const Json& body) {
        const Json line = {
            {"custom_id", id}, {"method", "POST"}, {"url", "/v1/chat/completions"}, {"body", body}};
        AppendFile(path_).append(dump_json(line));
        requests_.emplace(id, Request{++lines_, digest});
        stamp_ = stamp_of(path_);
    }

  private:
    struct Request {
        std::size_t line = 0;
        std::string digest;
    };

    void refresh() {
        const auto stamp = stamp_of(path_);
        if (stamp == stamp_) return;
        requests_.clear();
        lines_ = 0;
        stamp_.reset();
        if (!stamp) return;
        const std::string text = read_file(path_);
        std::string_view rest = text;
        // What follows the last newline is an interrupted write; the next append cuts it off.
        for (std::size_t end = rest.find('\n'); end != std::string_view::npos;
             end = rest.find('\n')) {
            const JsonDocument document(std::string(rest.substr(0, end)), path_.string(), ++lines_);
            const JsonNode id = document.root().at("custom_id");
            requests_.emplace(id.as_string(),
                              Request{lines_, digest_of(document.root().at("body").json())});
            rest.remove_prefix(end + 1);
        }
        stamp_ = stamp;
    }

    std::filesystem::path path_;
    std::optional<Stamp> stamp_;
    std::map<std::string, Request> requests_;
    std::size_t lines_ = 0;
};

/// The `*.jsonl` files beside `requests.jsonl`, read again when they change.
class OutputFiles {
  public:
    OutputFiles(std::filesystem::path folder, std::optional<chat::Prices> prices)
        : folder_(std::move(folder)), prices_(prices) {}

    /// Reads what is new. @returns sentences on lines that cannot be used, each once
    std::vector<std::string> refresh(const std::stop_token& stop) {
        std::vector<std::string> warnings;
        std::map<std::filesystem::path, Output> outputs;
        for (const std::filesystem::path& path : list()) {
            const auto stamp = stamp_of(path);
            if (!stamp) continue;
            const auto known = outputs_.find(path);
            if (known != outputs_.end() && known->second.stamp == *stamp) {
                outputs.insert(outputs_.extract(known));
                continue;
            }
            Output output{*stamp, read(path, stop)};
            warnings.insert(warnings.end(), output.answers.problems.begin(),
                            output.answers.problems.end());
            const std::size_t said = output.answers.problems.size();
            if (output.answers.bad_lines > said) {
                warnings.push_back(path.string() + ": " +
                                   std::to_string(output.answers.bad_lines - said) +
                                   " more lines cannot be used");
            }
            outputs.emplace(path, std::move(output));
        }
        outputs_ = std::move(outputs);
        return warnings;
    }

    /// A reply before an error, in order of file name; nothing when no file has either.
    const BatchAnswer* find(const std::string& id) const {
        const BatchAnswer* error = nullptr;
        for (const auto& [path, output] : outputs_) {
            const auto found = output.answers.by_id.find(id);
            if (found == output.answers.by_id.end()) continue;
            if (found->second.reply) return &found->second;
            if (error == nullptr) error = &found->second;
        }
        return error;
    }

    /// " (N lines …)" for a message, or nothing.
    std::string problems() const {
        std::size_t count = 0;
        std::string first;
        for (const auto& [path, output] : outputs_) {
            count += output.answers.bad_lines;
            if (first.empty() && !output.answers.problems.empty()) {
                first = output.answers.problems.front();
            }
        }
        if (count == 0) return "";
        return "; " + std::to_string(count) + " output lines cannot be used, the first: " + first;
    }

  private:
    struct Output {
        Stamp stamp;
        BatchAnswers answers;
    };

    std::vector<std::filesystem::path> list() const {
        std::vector<std::filesystem::path> paths;
        std::error_code error;
        for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
             entry.increment(error)) {
            const std::filesystem::path& path = entry->path();
            if (path.extension() == ".jsonl" && path.filename() != "requests.jsonl") {
                paths.push_back(path);
            }
        }
        if (error) {
            throw Error(ErrorCode::io,
                        "cannot list folder " + folder_.string() + ": " + error.message());
        }
        std::ranges::sort(paths);
        return paths;
    }

    BatchAnswers read(const std::filesystem::path& path, const std::stop_token& stop) const {
        std::string text;
        try {
            text = read_file(path);
        } catch (const Error& error) {
            BatchAnswers unreadable;
            unreadable.bad_lines = 1;
            unreadable.problems.emplace_back(error.what());
            return unreadable;
        }
        return parse_answers(text, path.string(), prices_, stop);
    }

    std::filesystem::path folder_;
    std::optional<chat::Prices> prices_;
    std::map<std::filesystem::path, Output> outputs_;
};

/// For a person: what is asked and where the answer goes.
std::string prompt_page(const std::string& id, const ChatRequest& request) {
    std::string page = "# " + id + "\n\n" + chat::describe(request.key) +
                       ". The reply, and nothing else, belongs in `answers/" + id + ".md`.\n\n";
    if (!request.tools.empty()) {
        page += "### tools\n\n" + dump_json(chat::encode_tools(request)) + "\n\n";
    }
    return page + chat::transcript(request);
}

class BatchBackend final : public LlmBackend {
  public:
    BatchBackend(BatchOptions options, LogSink log)
        : options_(std::move(options)),
          log_(std::move(log)),
          requests_(options_.folder / "requests.jsonl"),
          outputs_(options_.folder, options_.prices) {
        make_folder(options_.folder / "answers");
        make_folder(options_.folder / "prompts");
    }

    ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
        const auto start = std::chrono::steady_clock::now();
        chat::check_request(request, stop, "batch");
        const Json body = chat::encode_body(request, options_.body);
        std::vector<std::string> warnings;
        ChatReply reply = look_up(request, body, stop, warnings);
        for (const std::string& warning : warnings) {
            if (log_) log_(LogLevel::warning, warning);
        }
        reply.time = std::chrono::steady_clock::now() - start;
        return reply;
    }

  private:
    ChatReply look_up(const ChatRequest& request, const Json& body, const std::stop_token& stop,
                      std::vector<std::string>& warnings) {
        const std::unique_lock lock = acquire(stop);
        const std::string id = id_of(request.key);
        const std::string digest = digest_of(body);
        const bool queued = requests_.holds(id, digest);
        if (auto reply = written_by_hand(id)) return *std::move(reply);
        warnings = outputs_.refresh(stop);
        if (const BatchAnswer* answer = outputs_.find(id)) {
            if (answer->reply) return *answer->reply;
            throw Error(ErrorCode::backend_failed, answer->error);
        }
        if (!queued) {
            write_file_atomically(options_.folder / "prompts" / (id + ".md"),
                                  prompt_page(id, request));
            requests_.add(id, digest, body);
        }
        ChatReply reply;
        reply.status = ChatStatus::pending;
        reply.message = id + " waits for an answer in " + options_.folder.string() +
                        ", in answers/" + id + ".md or an output file *.jsonl" +
                        outputs_.problems();
        return reply;
    }

    /// Another call may be reading a large file; a stop must not wait for it.
    std::unique_lock<std::timed_mutex> acquire(const std::stop_token& stop) {
        std::unique_lock lock(mutex_, std::defer_lock);
        while (!lock.try_lock_for(std::chrono::milliseconds(100))) {
            if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "batch: stopped");
        }
        return lock;
    }

    std::optional<ChatReply> written_by_hand(const std::string& id) const {
        const std::filesystem::path path = options_.folder / "answers" / (id + ".md");
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) return std::nullopt;
        ChatReply reply;
        reply.content = read_file(path, max_answer_bytes);
        // An editor creates the file before it fills it.
        const bool blank = reply.content.find_first_not_of(" \t\r\n") == std::string::npos;
        return blank ? std::nullopt : std::optional(std::move(reply));
    }

    const BatchOptions options_;
    const LogSink log_;
    std::timed_mutex mutex_;  // guards requests_, outputs_
    RequestFile requests_;
    OutputFiles outputs_;
};

}  // namespace

std::unique_ptr<LlmBackend> make_batch_backend(std::string_view options,
                                               const PluginContext& context) {
    return std::make_unique<BatchBackend>(decode_options(options), context.log);
}

}  // namespace kernelforge
