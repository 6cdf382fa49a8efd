// SPDX-License-Identifier: Apache-2.0
#include "chat_format.hpp"

#include <algorithm>
#include <utility>

namespace kernelforge::chat {
namespace {

std::string text_of(const JsonNode& node, std::string_view key) {
    const auto member = present(node, key);
    return member && member->json().is_string() ? member->as_string() : std::string();
}

/// A count of tokens; anything else that a server writes there counts as "does not say".
std::optional<std::int64_t> count_of(const JsonNode& node, std::string_view key) {
    const auto member = present(node, key);
    if (!member || !member->json().is_number_integer()) return std::nullopt;
    if (member->json().is_number_unsigned() &&
        member->json().get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        return std::nullopt;
    }
    const std::int64_t count = member->as_integer();
    return count < 0 ? std::nullopt : std::optional(count);
}

/// A string, nothing (reasoning models), or a list of parts of which the text counts.
std::string content_of(const JsonNode& message) {
    const auto content = present(message, "content");
    if (!content) return {};
    if (!content->json().is_array()) return content->as_string();
    std::string text;
    for (std::size_t i = 0; i < content->array_size(); ++i) {
        text += text_of(content->at(i), "text");
    }
    return text;
}

std::vector<ToolCall> tool_calls_of(const JsonNode& message) {
    std::vector<ToolCall> calls;
    const auto list = present(message, "tool_calls");
    if (!list) return calls;
    for (std::size_t i = 0; i < list->array_size(); ++i) {
        const JsonNode function = list->at(i).at("function");
        const auto arguments = present(function, "arguments");
        ToolCall call{.id = text_of(list->at(i), "id"),
                      .name = function.at("name").as_string(),
                      .arguments = "{}"};
        // Some servers give the arguments as an object instead of as text.
        if (arguments && arguments->json().is_string()) call.arguments = arguments->as_string();
        if (arguments && arguments->json().is_object()) {
            call.arguments = dump_json(arguments->json());
        }
        calls.push_back(std::move(call));
    }
    return calls;
}

Usage usage_of(const JsonNode& completion, const std::optional<Prices>& prices) {
    Usage usage;
    const auto node = present(completion, "usage");
    if (!node) return usage;
    usage.input_tokens = count_of(*node, "prompt_tokens");
    usage.output_tokens = count_of(*node, "completion_tokens");
    if (const auto details = present(*node, "prompt_tokens_details")) {
        usage.cached_input_tokens = count_of(*details, "cached_tokens");
    }
    if (prices && usage.input_tokens && usage.output_tokens) {
        const auto input = static_cast<double>(*usage.input_tokens);
        const double cached =
            std::min(input, static_cast<double>(usage.cached_input_tokens.value_or(0)));
        usage.cost_usd = ((input - cached) * prices->input_per_million +
                          cached * prices->cached_input_per_million +
                          static_cast<double>(*usage.output_tokens) * prices->output_per_million) /
                         1e6;
    }
    return usage;
}

void set_status(ChatReply& reply, const std::string& finish_reason, const std::string& refusal) {
    if (!refusal.empty()) {
        reply.status = ChatStatus::refused;
        reply.message = "the model declined: " + one_line(refusal);
    } else if (finish_reason == "content_filter") {
        reply.status = ChatStatus::refused;
        reply.message = "the service's content filter declined";
    } else if (finish_reason == "length") {
        reply.status = ChatStatus::truncated;
        reply.message = "the model ran into the output limit";
        if (reply.usage.output_tokens) {
            reply.message += " after " + std::to_string(*reply.usage.output_tokens) + " tokens";
        }
    } else if (reply.content.empty() && reply.tool_calls.empty()) {
        reply.message = "the model gave no text";
    }
}

}  // namespace

std::optional<JsonNode> present(const JsonNode& node, std::string_view key) {
    if (!node.json().is_object()) return std::nullopt;
    auto member = node.find(key);
    if (member && member->is_null()) return std::nullopt;
    return member;
}

Json decode_extra(const JsonNode& options) {
    if (const auto extra = options.find("extra")) {
        if (!extra->json().is_object()) extra->expected("an object");
        const auto stream = extra->find("stream");
        if (stream && stream->json() != Json(false)) {
            stream->fail(ErrorCode::unsupported, "expected no streaming, which is not supported");
        }
        return extra->json();
    }
    return Json::object();
}

double price_of(const JsonNode& node) {
    const double price = node.as_number();
    if (price < 0) node.expected("a price that is not negative");
    return price;
}

BodyOptions decode_body_options(const JsonNode& options) {
    BodyOptions body;
    const JsonNode model = options.at("model");
    body.model = model.as_string();
    if (body.model.empty()) model.expected("the name of a model");
    if (const auto field = options.find("max_tokens_field")) {
        body.max_tokens_field = field->as_string();
        if (body.max_tokens_field != "max_tokens" &&
            body.max_tokens_field != "max_completion_tokens") {
            field->expected("\"max_tokens\" or \"max_completion_tokens\"");
        }
    }
    if (const auto temperature = options.find("temperature")) {
        body.temperature = temperature->as_number();
        if (*body.temperature < 0) temperature->expected("a number that is not negative");
    }
    body.extra = decode_extra(options);
    return body;
}

std::optional<Prices> decode_prices(const JsonNode& options) {
    const auto node = options.find("prices");
    if (!node) return std::nullopt;
    node->only_members({"input_per_million", "cached_input_per_million", "output_per_million"});
    Prices prices;
    prices.input_per_million = price_of(node->at("input_per_million"));
    prices.output_per_million = price_of(node->at("output_per_million"));
    const auto cached = node->find("cached_input_per_million");
    prices.cached_input_per_million = cached ? price_of(*cached) : prices.input_per_million;
    return prices;
}

Json encode_messages(const ChatRequest& request) {
    Json messages = Json::array();
    for (const ChatMessage& message : request.messages) {
        Json json = {{"role", std::string(to_string(message.role))}, {"content", message.content}};
        if (!message.tool_calls.empty()) {
            if (message.content.empty()) json["content"] = nullptr;
            Json calls = Json::array();
            for (const ToolCall& call : message.tool_calls) {
                calls.push_back(
                    {{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
            }
            json["tool_calls"] = std::move(calls);
        }
        if (message.role == ChatRole::tool) json["tool_call_id"] = message.tool_call_id;
        messages.push_back(std::move(json));
    }
    return messages;
}

Json encode_tools(const ChatRequest& request) {
    Json tools = Json::array();
    for (const ToolSpec& tool : request.tools) {
        Json function = {{"name", tool.name}, {"description", tool.description}};
        if (!tool.parameters.empty()) {
            const JsonDocument parameters(tool.parameters, "parameters of tool " + tool.name);
            if (!parameters.value().is_object()) parameters.root().expected("a JSON schema object");
            function["parameters"] = parameters.value();
        }
        tools.push_back({{"type", "function"}, {"function", std::move(function)}});
    }
    return tools;
}

Json encode_body(const ChatRequest& request, const BodyOptions& options) {
    Json body = {{"model", options.model}, {"messages", encode_messages(request)}};
    if (request.max_output_tokens > 0) body[options.max_tokens_field] = request.max_output_tokens;
    const auto temperature = request.temperature ? request.temperature : options.temperature;
    if (temperature) body["temperature"] = *temperature;
    if (!request.tools.empty()) body["tools"] = encode_tools(request);
    body.merge_patch(options.extra);
    return body;
}

ChatReply decode_completion(const JsonNode& completion, const std::optional<Prices>& prices) {
    if (!completion.json().is_object()) completion.expected("an object");
    if (const auto error = server_error(completion)) {
        completion.fail(ErrorCode::backend_failed, "the server reports: " + error->message);
    }
    const JsonNode choices = completion.at("choices");
    if (choices.array_size() == 0) {
        choices.fail(ErrorCode::backend_failed, "expected at least one choice, found none");
    }
    const JsonNode choice = choices.at(std::size_t{0});
    const JsonNode message = choice.at("message");
    if (!message.json().is_object()) message.expected("an object");
    ChatReply reply;
    reply.content = content_of(message);
    reply.tool_calls = tool_calls_of(message);
    reply.usage = usage_of(completion, prices);
    reply.model = text_of(completion, "model");
    set_status(reply, text_of(choice, "finish_reason"), text_of(message, "refusal"));
    return reply;
}

std::optional<ServerError> server_error(const JsonNode& body) {
    const auto error = present(body, "error");
    ServerError result;
    if (!error) {
        // FastAPI servers say {"detail": …}, others {"object": "error", "message": …}.
        const auto detail = present(body, "detail");
        if (detail) {
            result.message =
                detail->json().is_string() ? detail->as_string() : dump_json(detail->json());
        } else if (text_of(body, "object") == "error") {
            result.message = text_of(body, "message");
        }
    } else if (error->json().is_object()) {
        result.message = text_of(*error, "message");
        result.code = text_of(*error, "code");
        if (result.code.empty()) result.code = text_of(*error, "type");
        if (result.message.empty()) result.message = dump_json(error->json());
    } else {
        result.message = error->json().is_string() ? error->as_string() : dump_json(error->json());
    }
    if (result.message.empty()) return std::nullopt;
    return result;
}

std::string one_line(std::string_view text, std::size_t max_bytes) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte != 0x7f) {
            line += c;
        } else if (!line.empty() && line.back() != ' ') {
            line += ' ';
        }
        if (line.size() > max_bytes) break;
    }
    if (line.size() > max_bytes) {
        std::size_t end = max_bytes < 3 ? 0 : max_bytes - 3;
        while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
        line = line.substr(0, end) + "...";
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

std::string transcript(const ChatRequest& request) {
    std::string text;
    for (const ChatMessage& message : request.messages) {
        if (!text.empty()) text += "\n";
        text += "### " + std::string(to_string(message.role));
        if (message.role == ChatRole::tool) text += " " + one_line(message.tool_call_id);
        text += "\n\n" + message.content;
        if (!text.ends_with('\n')) text += '\n';
        for (const ToolCall& call : message.tool_calls) {
            text += "calls " + one_line(call.name) + " (" + one_line(call.id) +
                    "): " + one_line(call.arguments, 4096) + "\n";
        }
    }
    return text;
}

}  // namespace kernelforge::chat
