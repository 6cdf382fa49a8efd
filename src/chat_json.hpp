// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/llm_backend.hpp"

// A reply as JSON, in recordings and from commands. Header-only because libkernelforge and plugins
// that do not link it need the same. Include from .cpp files only.

namespace kernelforge::chat {

/// "expansion 3, turn 0"
[[nodiscard]] inline std::string describe(const CompletionKey& key) {
    return "expansion " + std::to_string(key.expansion) + ", turn " + std::to_string(key.turn);
}

/// What every backend checks first.
/// @throws Error invalid_argument (no message), cancelled
inline void check_request(const ChatRequest& request, const std::stop_token& stop,
                          const std::string& backend) {
    if (request.messages.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    backend + ": expected at least one message, found none");
    }
    if (stop.stop_requested()) throw Error(ErrorCode::cancelled, backend + ": stopped");
}

[[nodiscard]] inline Json encode_usage(const Usage& usage) {
    Json json = Json::object();
    if (usage.input_tokens) json["input_tokens"] = *usage.input_tokens;
    if (usage.cached_input_tokens) json["cached_input_tokens"] = *usage.cached_input_tokens;
    if (usage.output_tokens) json["output_tokens"] = *usage.output_tokens;
    if (usage.cost_usd && std::isfinite(*usage.cost_usd)) json["cost_usd"] = *usage.cost_usd;
    return json;
}

/// @throws Error parse
[[nodiscard]] inline Usage decode_usage(const JsonNode& node) {
    node.only_members({"input_tokens", "cached_input_tokens", "output_tokens", "cost_usd"});
    const auto count = [&](std::string_view key) -> std::optional<std::int64_t> {
        const auto member = node.find(key);
        if (!member) return std::nullopt;
        return member->as_integer(0, INT64_MAX);
    };
    Usage usage{.input_tokens = count("input_tokens"),
                .cached_input_tokens = count("cached_input_tokens"),
                .output_tokens = count("output_tokens"),
                .cost_usd = std::nullopt};
    if (const auto cost = node.find("cost_usd")) {
        usage.cost_usd = cost->as_number();
        if (*usage.cost_usd < 0) cost->expected("a number that is not negative");
    }
    return usage;
}

[[nodiscard]] inline Json encode_tool_calls(const std::vector<ToolCall>& calls) {
    Json json = Json::array();
    for (const ToolCall& call : calls) {
        json.push_back({{"id", call.id}, {"name", call.name}, {"arguments", call.arguments}});
    }
    return json;
}

/// @throws Error parse
[[nodiscard]] inline std::vector<ToolCall> decode_tool_calls(const JsonNode& node) {
    std::vector<ToolCall> calls;
    for (std::size_t i = 0; i < node.array_size(); ++i) {
        const JsonNode call = node.at(i);
        call.only_members({"id", "name", "arguments"});
        calls.push_back({.id = call.at("id").as_string(),
                         .name = call.at("name").as_string(),
                         .arguments = call.at("arguments").as_string()});
    }
    return calls;
}

/// Adds the members of `reply` to an object: status, content, tool_calls, usage, model, time_s and,
/// where there is one, message.
inline void encode_reply(Json& json, const ChatReply& reply) {
    json["status"] = std::string(to_string(reply.status));
    json["content"] = reply.content;
    json["tool_calls"] = encode_tool_calls(reply.tool_calls);
    json["usage"] = encode_usage(reply.usage);
    json["model"] = reply.model;
    json["time_s"] = std::isfinite(reply.time.count()) ? reply.time.count() : 0.0;
    if (!reply.message.empty()) json["message"] = reply.message;
}

/// Reads the same members; `content` must be there, the others may be absent. Other members of the
/// object are the caller's.
/// @throws Error parse
[[nodiscard]] inline ChatReply decode_reply(const JsonNode& node) {
    ChatReply reply;
    reply.content = node.at("content").as_string();
    if (const auto status = node.find("status")) {
        const std::string name = status->as_string();
        bool known = false;
        for (const ChatStatus one :
             {ChatStatus::ok, ChatStatus::pending, ChatStatus::truncated, ChatStatus::refused}) {
            if (name != to_string(one)) continue;
            reply.status = one;
            known = true;
        }
        if (!known) status->expected("\"ok\", \"pending\", \"truncated\" or \"refused\"");
    }
    if (const auto calls = node.find("tool_calls")) reply.tool_calls = decode_tool_calls(*calls);
    if (const auto usage = node.find("usage")) reply.usage = decode_usage(*usage);
    reply.model = node.string_or("model", "");
    reply.message = node.string_or("message", "");
    if (const auto time = node.find("time_s")) {
        reply.time = std::chrono::duration<double>(time->as_number());
        if (reply.time.count() < 0) time->expected("a number that is not negative");
    }
    return reply;
}

}  // namespace kernelforge::chat
