// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/json_text.hpp"
#include "kernelforge/llm_backend.hpp"

// Anthropic's Messages API, version 2023-06-01. No network here. Include from .cpp files only.

namespace kernelforge::anthropic {

/// US dollars per million tokens.
struct Prices {
    double input_per_million = 0.0;  ///< neither read from nor written to the cache
    double cache_write_per_million = 0.0;
    double cached_input_per_million = 0.0;
    double output_per_million = 0.0;
};

/// How long the service keeps a prompt's prefix.
enum class Cache { off, five_minutes, one_hour };

/// What of a request's body does not come from the request.
struct BodyOptions {
    std::string model;
    std::optional<double>
        temperature;  ///< where the request names none; absent: the service's default
    Cache cache = Cache::five_minutes;
    Json extra = Json::object();  ///< merged over the body (RFC 7396: null removes a member)
};

/// Reads the members model, temperature, cache and extra of a backend's options.
/// @throws Error parse, unsupported (streaming)
[[nodiscard]] BodyOptions decode_body_options(const JsonNode& options);

/// Reads the member `prices`. Where they are not given, writing to the cache costs 1.25 times
/// (five minutes) or 2 times (one hour) what input costs, and reading from it a tenth: the factors
/// of the service's price list. @throws Error parse
[[nodiscard]] std::optional<Prices> decode_prices(const JsonNode& options);

/// The body of a request. System messages become `system`, wherever they stand; consecutive
/// messages of one side become one message of several blocks, tool results blocks of the user.
/// With a cache, the prefix ends after the last system block (tools and system text, the same bytes
/// in every request of a run) and, for the next turn of the same conversation, after the last
/// message. The same request gives the same bytes.
/// @throws Error invalid_argument (no user message, an empty one, tool arguments that are no JSON
/// object)
[[nodiscard]] Json encode_body(const ChatRequest& request, const BodyOptions& options);

/// Reads a `message` object. What the service may leave out is absent in the reply; what makes the
/// answer unusable is an error. `thinking` blocks are not part of the content.
/// @throws Error backend_failed (the service reports an error), parse (with position)
[[nodiscard]] ChatReply decode_message(const JsonNode& message,
                                       const std::optional<Prices>& prices);

}  // namespace kernelforge::anthropic
