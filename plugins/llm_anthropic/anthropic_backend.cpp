// SPDX-License-Identifier: Apache-2.0
#include "anthropic_backend.hpp"

#include <string>
#include <utility>

#include "base/json_text.hpp"
#include "http_backend.hpp"
#include "messages_format.hpp"

namespace kernelforge {

std::unique_ptr<LlmBackend> make_anthropic_backend(std::string_view options,
                                                   const PluginContext& context) {
    const JsonDocument document(std::string(options), "llm anthropic options");
    const JsonNode node = document.root();
    check_http_options(node, {"model", "temperature", "extra", "prices", "cache"});
    if (const auto url = node.find("base_url")) {
        std::string text = node.string_or("base_url", "");
        while (text.ends_with('/')) text.pop_back();
        if (text.ends_with("/v1")) url->expected("an address without /v1, which is added");
    }
    HttpDialect dialect;
    dialect.name = "anthropic";
    dialect.base_url = "https://api.anthropic.com";
    dialect.path = "/v1/messages";
    dialect.key_header = "x-api-key: ";
    dialect.headers = {"anthropic-version: 2023-06-01"};
    dialect.encode = [body = anthropic::decode_body_options(node)](const ChatRequest& request) {
        return dump_json(anthropic::encode_body(request, body));
    };
    dialect.decode = [prices = anthropic::decode_prices(node)](const JsonNode& answer) {
        return anthropic::decode_message(answer, prices);
    };
    return make_http_backend(node, std::move(dialect), context);
}

}  // namespace kernelforge
