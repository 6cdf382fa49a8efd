// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "emulator/ptx_text.hpp"

// Declarations of variables and parameters, and their initialisers.

namespace kernelforge::emulator::ptx {

/// "global" -> Space::global; nothing for another word.
[[nodiscard]] std::optional<Space> parse_space(std::string_view word) noexcept;

/// A word that must be a type. @throws PtxError
[[nodiscard]] Type type_word(const Text& text, std::string_view word);

/// After the state space: `.align 4 .v2 .b32 name[3] = {…}, other;` with its semicolon.
[[nodiscard]] std::vector<Variable> variables(Text& text, Space space, bool is_extern);

/// One parameter of a function, from `.param` on.
[[nodiscard]] Variable parameter(Text& text);

}  // namespace kernelforge::emulator::ptx
