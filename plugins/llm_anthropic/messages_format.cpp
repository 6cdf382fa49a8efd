// SPDX-License-Identifier: Apache-2.0
#include "messages_format.hpp"

#include <algorithm>
#include <utility>

#include "chat_format.hpp"

namespace kernelforge::anthropic {
namespace {

Json cache_mark(Cache cache) {
    Json mark = {{"type", "ephemeral"}};
    if (cache == Cache::one_hour) mark["ttl"] = "1h";
    return mark;
}

Json text_block(const std::string& text) {
    return {{"type", "text"}, {"text", text}};
}

Json tool_use_block(const ToolCall& call) {
    const JsonDocument arguments(call.arguments.empty() ? "{}" : call.arguments,
                                 "arguments of tool " + call.name);
    if (!arguments.value().is_object()) arguments.root().expected("a JSON object");
    return {
        {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", arguments.value()}};
}

/// The service refuses empty text blocks, so there are none.
Json blocks_of(const ChatMessage& message) {
    Json blocks = Json::array();
    if (message.role == ChatRole::tool) {
        Json block = {{"type", "tool_result"}, {"tool_use_id", message.tool_call_id}};
        if (!message.content.empty()) block["content"] = message.content;
        blocks.push_back(std::move(block));
        return blocks;
    }
    if (!message.content.empty()) blocks.push_back(text_block(message.content));
    for (const ToolCall& call : message.tool_calls) blocks.push_back(tool_use_block(call));
    return blocks;
}

Json encode_system(const ChatRequest& request, Cache cache) {
    Json blocks = Json::array();
    for (const ChatMessage& message : request.messages) {
        if (message.role != ChatRole::system || message.content.empty()) continue;
        blocks.push_back(text_block(message.content));
    }
    if (!blocks.empty() && cache != Cache::off) blocks.back()["cache_control"] = cache_mark(cache);
    return blocks;
}

Json encode_messages(const ChatRequest& request, Cache cache) {
    Json messages = Json::array();
    for (const ChatMessage& message : request.messages) {
        if (message.role == ChatRole::system) continue;
        const std::string role = message.role == ChatRole::assistant ? "assistant" : "user";
        Json blocks = blocks_of(message);
        if (blocks.empty()) {
            throw Error(
                ErrorCode::invalid_argument,
                "anthropic: expected text in every message, found an empty one of the " + role);
        }
        if (messages.empty() || messages.back()["role"] != role) {
            messages.push_back({{"role", role}, {"content", Json::array()}});
        }
        Json& content = messages.back()["content"];
        content.insert(content.end(), blocks.begin(), blocks.end());
    }
    if (messages.empty() || messages.front()["role"] != "user") {
        throw Error(ErrorCode::invalid_argument,
                    "anthropic: expected a conversation that a user's message begins");
    }
    if (cache != Cache::off) {
        messages.back()["content"].back()["cache_control"] = cache_mark(cache);
    }
    return messages;
}

Json encode_tools(const ChatRequest& request) {
    Json tools = Json::array();
    for (const ToolSpec& tool : request.tools) {
        Json schema = {{"type", "object"}};
        if (!tool.parameters.empty()) {
            const JsonDocument parameters(tool.parameters, "parameters of tool " + tool.name);
            if (!parameters.value().is_object()) parameters.root().expected("a JSON schema object");
            schema = parameters.value();
        }
        tools.push_back({{"name", tool.name},
                         {"description", tool.description},
                         {"input_schema", std::move(schema)}});
    }
    return tools;
}

/// Anything but a count that fits counts as "does not say".
std::optional<std::int64_t> count_of(const JsonNode& usage, std::string_view key) {
    const auto member = chat::present(usage, key);
    if (!member || !member->json().is_number_unsigned()) return std::nullopt;
    constexpr std::uint64_t most = std::uint64_t{1} << 53;
    const auto count = member->json().get<std::uint64_t>();
    return count > most ? std::nullopt : std::optional(static_cast<std::int64_t>(count));
}

Usage usage_of(const JsonNode& message, const std::optional<Prices>& prices) {
    Usage usage;
    const auto node = chat::present(message, "usage");
    if (!node || !node->json().is_object()) return usage;
    const auto fresh = count_of(*node, "input_tokens");
    const auto written = count_of(*node, "cache_creation_input_tokens");
    usage.cached_input_tokens = count_of(*node, "cache_read_input_tokens");
    usage.output_tokens = count_of(*node, "output_tokens");
    if (!fresh) return usage;
    const std::int64_t read = usage.cached_input_tokens.value_or(0);
    usage.input_tokens = *fresh + written.value_or(0) + read;
    if (prices && usage.output_tokens) {
        usage.cost_usd =
            (static_cast<double>(*fresh) * prices->input_per_million +
             static_cast<double>(written.value_or(0)) * prices->cache_write_per_million +
             static_cast<double>(read) * prices->cached_input_per_million +
             static_cast<double>(*usage.output_tokens) * prices->output_per_million) /
            1e6;
    }
    return usage;
}

void read_content(const JsonNode& content, ChatReply& reply) {
    for (std::size_t i = 0; i < content.array_size(); ++i) {
        const JsonNode block = content.at(i);
        const std::string type = block.at("type").as_string();
        if (type == "text") {
            reply.content += block.at("text").as_string();
        } else if (type == "tool_use") {
            reply.tool_calls.push_back({.id = block.at("id").as_string(),
                                        .name = block.at("name").as_string(),
                                        .arguments = dump_json(block.at("input").json())});
        }
    }
}

void set_status(ChatReply& reply, const std::string& stop_reason) {
    if (stop_reason == "refusal") {
        reply.status = ChatStatus::refused;
        reply.message = "the model declined";
    } else if (stop_reason == "max_tokens" || stop_reason == "model_context_window_exceeded") {
        reply.status = ChatStatus::truncated;
        reply.message = stop_reason == "max_tokens" ? "the model ran into the output limit"
                                                    : "the model ran into its context window";
        if (reply.usage.output_tokens) {
            reply.message += " after " + std::to_string(*reply.usage.output_tokens) + " tokens";
        }
    } else if (reply.content.empty() && reply.tool_calls.empty()) {
        reply.message = "the model gave no text";
    }
}

Cache decode_cache(const JsonNode& options) {
    const auto node = options.find("cache");
    if (!node) return Cache::five_minutes;
    const std::string text = node->json().is_string() ? node->as_string() : std::string();
    if (text == "off") return Cache::off;
    if (text == "5m") return Cache::five_minutes;
    if (text == "1h") return Cache::one_hour;
    node->expected("\"off\", \"5m\" or \"1h\"");
}

}  // namespace

BodyOptions decode_body_options(const JsonNode& options) {
    BodyOptions body;
    const JsonNode model = options.at("model");
    body.model = model.as_string();
    if (body.model.empty()) model.expected("the name of a model");
    if (const auto temperature = options.find("temperature")) {
        body.temperature = temperature->as_number();
        if (*body.temperature < 0 || *body.temperature > 1) {
            temperature->expected("a number from 0 to 1");
        }
    }
    body.cache = decode_cache(options);
    body.extra = chat::decode_extra(options);
    return body;
}

std::optional<Prices> decode_prices(const JsonNode& options) {
    const auto node = options.find("prices");
    if (!node) return std::nullopt;
    node->only_members({"input_per_million", "cache_write_per_million", "cached_input_per_million",
                        "output_per_million"});
    Prices prices;
    prices.input_per_million = chat::price_of(node->at("input_per_million"));
    prices.output_per_million = chat::price_of(node->at("output_per_million"));
    const auto written = node->find("cache_write_per_million");
    const auto read = node->find("cached_input_per_million");
    const double factor = decode_cache(options) == Cache::one_hour ? 2.0 : 1.25;
    prices.cache_write_per_million =
        written ? chat::price_of(*written) : factor * prices.input_per_million;
    prices.cached_input_per_million = read ? chat::price_of(*read) : 0.1 * prices.input_per_million;
    return prices;
}

Json encode_body(const ChatRequest& request, const BodyOptions& options) {
    Json body = {{"model", options.model},
                 {"max_tokens", std::max<std::int64_t>(request.max_output_tokens, 1)},
                 {"messages", encode_messages(request, options.cache)}};
    Json system = encode_system(request, options.cache);
    if (!system.empty()) body["system"] = std::move(system);
    const auto temperature = request.temperature ? request.temperature : options.temperature;
    if (temperature) body["temperature"] = *temperature;
    if (!request.tools.empty()) body["tools"] = encode_tools(request);
    body.merge_patch(options.extra);
    return body;
}

ChatReply decode_message(const JsonNode& message, const std::optional<Prices>& prices) {
    if (!message.json().is_object()) message.expected("an object");
    if (const auto error = chat::server_error(message)) {
        message.fail(ErrorCode::backend_failed, "the server reports: " + error->message);
    }
    ChatReply reply;
    reply.usage = usage_of(message, prices);
    read_content(message.at("content"), reply);
    const auto model = chat::present(message, "model");
    if (model && model->json().is_string()) reply.model = model->as_string();
    const auto reason = chat::present(message, "stop_reason");
    set_status(reply, reason && reason->json().is_string() ? reason->as_string() : "");
    return reply;
}

}  // namespace kernelforge::anthropic
