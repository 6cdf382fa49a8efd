// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "kernelforge/llm_backend.hpp"

// Keeps secrets that a server echoes out of what a backend says. Include from .cpp files only.

namespace kernelforge::chat {

/// Replaces texts by `[secret]`, also where they stand with JSON escapes (`\"`, `\/`, `\u0041`,
/// nested to any depth). Secrets of less than 8 bytes are not replaced: that would garble messages.
class Secrets {
  public:
    explicit Secrets(std::vector<std::string> secrets);

    /// In time linear in the text, for each secret.
    [[nodiscard]] std::string redact(std::string text) const;
    /// In every text of a reply.
    void redact(ChatReply& reply) const;
    /// Parses `body` and replaces in its string values, so that what a later message cuts out of
    /// them is free of secrets. Where nothing is replaced, positions are those in `body`.
    /// @throws Error parse (the message quotes no secret)
    [[nodiscard]] JsonDocument parse(const std::string& body, const std::string& name) const;

  private:
    bool redact_strings(Json& value) const;

    std::vector<std::string> secrets_;  // the longest first
};

}  // namespace kernelforge::chat
