// SPDX-License-Identifier: Apache-2.0
#include "openai_backend.hpp"

#include <string>

#include "base/json_text.hpp"
#include "chat_format.hpp"
#include "http_backend.hpp"

namespace kernelforge {

std::unique_ptr<LlmBackend> make_openai_backend(std::string_view options,
                                                const PluginContext& context) {
    const JsonDocument document(std::string(options), "llm openai options");
    const JsonNode node = document.root();
    check_http_options(node, {"model", "temperature", "extra", "prices", "max_tokens_field"});
    HttpDialect dialect;
    dialect.name = "openai";
    dialect.base_url = "https://api.openai.com/v1";
    dialect.path = "/chat/completions";
    dialect.key_header = "Authorization: Bearer ";
    dialect.encode = [body = chat::decode_body_options(node)](const ChatRequest& request) {
        return dump_json(chat::encode_body(request, body));
    };
    dialect.decode = [prices = chat::decode_prices(node)](const JsonNode& answer) {
        return chat::decode_completion(answer, prices);
    };
    return make_http_backend(node, std::move(dialect), context);
}

}  // namespace kernelforge
