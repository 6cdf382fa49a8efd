// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/llm_backend.hpp"
#include "kernelforge/plugin.hpp"

// What backends that post JSON over HTTP share: addresses, keys, retries, time limits, and that no
// secret leaves. Include from .cpp files only.

namespace kernelforge {

/// How one service differs from another. The functions are called from many threads at once.
struct HttpDialect {
    std::string name;                  ///< of the backend, in messages
    std::string base_url;              ///< where the options name none
    std::string path;                  ///< appended to it
    std::string key_header;            ///< what stands before the key in its header, `x-api-key: `
    std::vector<std::string> headers;  ///< complete lines, sent with every request
    /// The body of a request. @throws Error invalid_argument
    std::function<std::string(const ChatRequest&)> encode;
    /// The reply in a body with a status of 2xx. @throws Error backend_failed, parse
    std::function<ChatReply(const JsonNode&)> decode;
};

/// Checks that `options` has only the common members (docs/llm_backends.md) and a dialect's own
/// ones. @throws Error parse
void check_http_options(const JsonNode& options, std::initializer_list<std::string_view> own);

/// A backend that speaks `dialect`. `options` was checked by `check_http_options`.
/// @throws Error parse (a wrong value)
[[nodiscard]] std::unique_ptr<LlmBackend> make_http_backend(const JsonNode& options,
                                                            HttpDialect dialect,
                                                            const PluginContext& context);

}  // namespace kernelforge
