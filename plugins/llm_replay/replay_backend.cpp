// SPDX-License-Identifier: Apache-2.0
#include "replay_backend.hpp"

#include <map>
#include <string>
#include <utility>

#include "base/json_text.hpp"
#include "chat_json.hpp"
#include "kernelforge/recording.hpp"

namespace kernelforge {
namespace {

class ReplayBackend final : public LlmBackend {
  public:
    ReplayBackend(std::string file, bool check_prompts, const LogSink& log)
        : file_(std::move(file)), check_prompts_(check_prompts), log_(log) {
        for (RecordedCompletion& completion : read_recording(file_, log_).completions) {
            completions_.emplace(completion.key, std::move(completion));
        }
    }

    ChatReply complete(const ChatRequest& request, std::stop_token stop) override {
        chat::check_request(request, stop, "replay");
        const auto found = completions_.find(request.key);
        if (found == completions_.end()) {
            throw Error(ErrorCode::not_found, file_ + ": no completion for " +
                                                  chat::describe(request.key) + " is recorded, " +
                                                  contents());
        }
        if (check_prompts_) check_prompt(found->second, request);
        return found->second.reply;
    }

  private:
    std::string contents() const {
        if (completions_.empty()) return "the recording is empty";
        return "found " + std::to_string(completions_.size()) + ", the last for " +
               chat::describe(completions_.rbegin()->first);
    }

    void check_prompt(const RecordedCompletion& completion, const ChatRequest& request) const {
        if (!log_ || completion.prompt_sha256.empty()) return;
        const std::string found = prompt_sha256(request);
        if (found == completion.prompt_sha256) return;
        log_(LogLevel::warning, file_ + ": the prompt of " + chat::describe(request.key) +
                                    " differs from the recorded one, expected SHA-256 " +
                                    completion.prompt_sha256 + ", found " + found);
    }

    const std::string file_;
    const bool check_prompts_;
    const LogSink log_;
    std::map<CompletionKey, RecordedCompletion> completions_;  // not changed after construction
};

}  // namespace

std::unique_ptr<LlmBackend> make_replay_backend(std::string_view options,
                                                const PluginContext& context) {
    const JsonDocument document(std::string(options), "llm replay options");
    const JsonNode node = document.root();
    node.only_members({"file", "check_prompts"});
    return std::make_unique<ReplayBackend>(node.at("file").as_string(),
                                           node.boolean_or("check_prompts", false), context.log);
}

}  // namespace kernelforge
