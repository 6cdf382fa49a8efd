// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kernelforge {

enum class ChatRole { system, user, assistant, tool };

[[nodiscard]] constexpr std::string_view to_string(ChatRole role) noexcept {
    switch (role) {
        case ChatRole::system:
            return "system";
        case ChatRole::user:
            return "user";
        case ChatRole::assistant:
            return "assistant";
        case ChatRole::tool:
            return "tool";
    }
    return "unknown";
}

/// A function that the model may ask to be called.
struct ToolSpec {
    std::string name;
    std::string description;
    std::string parameters;  ///< JSON schema, text
};

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  ///< JSON, as the model wrote it
};

struct ChatMessage {
    ChatRole role = ChatRole::user;
    std::string content;
    std::vector<ToolCall> tool_calls;  ///< of an assistant's message
    std::string tool_call_id;          ///< of a tool's message: which call it answers
};

/// Names one completion of a run for ever: recordings and batch files are keyed by it, not by the
/// text of the prompt.
struct CompletionKey {
    std::uint64_t expansion = 0;  ///< ordinal of the expansion within the run, from 0
    std::uint32_t turn = 0;  ///< 0 for the first request of an expansion, 1 … for its repairs
    friend auto operator<=>(const CompletionKey&, const CompletionKey&) = default;
};

struct ChatRequest {
    CompletionKey key;
    std::vector<ChatMessage> messages;  ///< at least one
    std::vector<ToolSpec> tools;
    std::int64_t max_output_tokens = 16'384;
    std::optional<double> temperature;
};

enum class ChatStatus {
    ok,
    pending,    ///< the request is queued; ask again later with the same key
    truncated,  ///< the model ran into the output limit; `content` holds what there is
    refused,    ///< the model or a filter declined
};

[[nodiscard]] constexpr std::string_view to_string(ChatStatus status) noexcept {
    switch (status) {
        case ChatStatus::ok:
            return "ok";
        case ChatStatus::pending:
            return "pending";
        case ChatStatus::truncated:
            return "truncated";
        case ChatStatus::refused:
            return "refused";
    }
    return "unknown";
}

/// What a completion cost. Absent: the service does not say.
struct Usage {
    std::optional<std::int64_t> input_tokens;  ///< all of the prompt, cached ones included
    std::optional<std::int64_t> cached_input_tokens;
    std::optional<std::int64_t> output_tokens;
    std::optional<double> cost_usd;
};

struct ChatReply {
    ChatStatus status = ChatStatus::ok;
    std::string content;
    std::vector<ToolCall> tool_calls;
    Usage usage;
    std::string model;    ///< as the service names it
    std::string message;  ///< one sentence when the status is not ok
    std::chrono::duration<double> time{0};
};

/// A service that completes conversations. Implementations: `openai`, `command`, `batch`, `replay`.
class LlmBackend {
  public:
    virtual ~LlmBackend() = default;

    /// Completes. Retries what is worth retrying; never answers from another request's completion.
    /// Returns within a second of a stop. [any]
    /// @throws Error backend_failed, cancelled, not_found (a secret, a recorded completion), io
    [[nodiscard]] virtual ChatReply complete(const ChatRequest& request, std::stop_token stop) = 0;
};

}  // namespace kernelforge
