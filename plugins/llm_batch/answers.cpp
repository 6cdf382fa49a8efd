// SPDX-License-Identifier: Apache-2.0
#include "answers.hpp"

#include <algorithm>
#include <utility>

#include "chat_json.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_problems = 10;

std::optional<JsonNode> present(const JsonNode& node, std::string_view key) {
    auto member = node.find(key);
    if (member && member->is_null()) return std::nullopt;
    return member;
}

std::string sentence(const JsonNode& place, const std::string& text) {
    SourcePosition position = place.position();
    position.column = 0;
    return to_string(position) + ": the batch service reports: " + chat::one_line(text);
}

BatchAnswer answer_of_service(const JsonNode& line, const std::optional<chat::Prices>& prices) {
    if (present(line, "error")) {
        const auto error = chat::server_error(line);
        return {.reply = std::nullopt,
                .error = sentence(line, error ? error->message : "an error without a message")};
    }
    const auto response = present(line, "response");
    if (!response) {
        return {.reply = std::nullopt, .error = sentence(line, "neither a response nor an error")};
    }
    const JsonNode body = response->at("body");
    const std::int64_t status = response->integer_or("status_code", 200);
    if (status < 200 || status >= 300) {
        const auto error = chat::server_error(body);
        return {.reply = std::nullopt,
                .error = sentence(
                    line, "HTTP " + std::to_string(status) + (error ? ": " + error->message : ""))};
    }
    try {
        return {.reply = chat::decode_completion(body, prices), .error = {}};
    } catch (const Error& error) {
        // An answer without a completion is the service's failure; a malformed one is a bad line.
        if (error.code() != ErrorCode::backend_failed) throw;
        return {.reply = std::nullopt, .error = error.what()};
    }
}

/// Nothing for a request line.
std::optional<std::pair<std::string, BatchAnswer>> read_line(
    const JsonNode& line, const std::optional<chat::Prices>& prices) {
    if (!line.json().is_object()) line.expected("an object");
    const JsonNode id = line.at("custom_id");
    std::pair<std::string, BatchAnswer> result{id.as_string(), {}};
    if (line.find("content")) {
        result.second.reply = chat::decode_reply(line);
        if (result.second.reply->status == ChatStatus::pending) {
            line.at("status").expected("\"ok\", \"truncated\" or \"refused\"");
        }
    } else if (line.find("response") || line.find("error")) {
        result.second = answer_of_service(line, prices);
    } else if (line.find("body")) {
        return std::nullopt;
    } else {
        line.fail(ErrorCode::parse,
                  "expected a member \"content\", \"response\" or \"error\", found none");
    }
    return result;
}

void add(BatchAnswers& answers, std::string id, BatchAnswer answer) {
    const bool is_reply = answer.reply.has_value();
    const auto [known, added] = answers.by_id.try_emplace(std::move(id), answer);
    if (!added && is_reply && !known->second.reply) known->second = std::move(answer);
}

}  // namespace

BatchAnswers parse_answers(std::string_view text, const std::string& file,
                           const std::optional<chat::Prices>& prices, std::stop_token stop) {
    BatchAnswers answers;
    for (std::size_t number = 1; !text.empty(); ++number) {
        if (stop.stop_requested()) throw Error(ErrorCode::cancelled, file + ": stopped");
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        try {
            const JsonDocument document(std::string(line), file, number);
            if (auto read = read_line(document.root(), prices)) {
                add(answers, std::move(read->first), std::move(read->second));
            }
        } catch (const Error& error) {
            ++answers.bad_lines;
            if (answers.problems.size() < max_problems) answers.problems.emplace_back(error.what());
        }
    }
    return answers;
}

}  // namespace kernelforge
