// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_text.hpp"
#include "kernelforge/llm_backend.hpp"

// The chat/completions format of OpenAI, which many servers and the Batch service share, and the
// plain transcript for commands and people. No network here. Include from .cpp files only.

namespace kernelforge::chat {

/// US dollars per million tokens.
struct Prices {
    double input_per_million = 0.0;
    double cached_input_per_million = 0.0;
    double output_per_million = 0.0;
};

/// What of a request's body does not come from the request.
struct BodyOptions {
    std::string model;
    std::string max_tokens_field = "max_tokens";  ///< or max_completion_tokens
    std::optional<double>
        temperature;              ///< where the request names none; absent: the server's default
    Json extra = Json::object();  ///< merged over the body (RFC 7396: null removes a member)
};

/// Reads the members model, max_tokens_field, temperature and extra of a backend's options.
/// @throws Error parse
[[nodiscard]] BodyOptions decode_body_options(const JsonNode& options);

/// A member that is there and not null; servers write null for "none".
[[nodiscard]] std::optional<JsonNode> present(const JsonNode& node, std::string_view key);

/// Reads the member `extra` of a backend's options: an object, `{}` when absent.
/// @throws Error parse, unsupported (streaming)
[[nodiscard]] Json decode_extra(const JsonNode& options);

/// A price of the options. @throws Error parse (negative)
[[nodiscard]] double price_of(const JsonNode& node);

/// Reads the member `prices`. Cached input costs what other input costs, where no price is given
/// for it.
/// @throws Error parse
[[nodiscard]] std::optional<Prices> decode_prices(const JsonNode& options);

/// `messages` and `tools` as the format wants them.
/// @throws Error invalid_argument (a tool's parameters are no JSON object)
[[nodiscard]] Json encode_messages(const ChatRequest& request);
[[nodiscard]] Json encode_tools(const ChatRequest& request);

/// The body of a request. @throws Error invalid_argument
[[nodiscard]] Json encode_body(const ChatRequest& request, const BodyOptions& options);

/// Reads a `chat.completion` object. What servers are known to leave out or to set to null is
/// absent in the reply; what makes the answer unusable is an error.
/// @throws Error backend_failed (the server reports an error, there is no choice), parse (with
/// position)
[[nodiscard]] ChatReply decode_completion(const JsonNode& completion,
                                          const std::optional<Prices>& prices);

/// The server's message and error code in the body of a refused request; nothing when there is
/// none. Accepts any JSON value.
struct ServerError {
    std::string message;  ///< as the server wrote it, of any length
    std::string code;     ///< `insufficient_quota`, …; may be empty
};
[[nodiscard]] std::optional<ServerError> server_error(const JsonNode& body);

/// Text of others for use in a message: control characters and runs of spaces become one space, at
/// most `max_bytes` bytes, cut between characters.
[[nodiscard]] std::string one_line(std::string_view text, std::size_t max_bytes = 300);

/// The conversation as plain text: a line `### ROLE` before each message.
[[nodiscard]] std::string transcript(const ChatRequest& request);

}  // namespace kernelforge::chat
