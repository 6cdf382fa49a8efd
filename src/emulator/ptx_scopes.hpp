// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx_module.hpp"

// Names inside one function: nested scopes, and a unique name for each of what they declare.

namespace kernelforge::emulator::ptx {

/// What a name was declared as.
struct Name {
    enum class What : std::uint8_t { reg, variable, label, list, prototype };
    What what = What::reg;
    Type type = Type::none;  ///< of a register
    std::string unique;
    bool used = false;
};

/// State with an invariant: the open scopes form a chain from `current_` to scope 0, and a closed
/// scope stays known, so that labels which stand behind their use can be found from it. Views that
/// are passed must outlive it. Names of nested scopes get `@` and the scope's number, which no
/// name of PTX holds.
class Scopes {
  public:
    static constexpr std::size_t most_depth = 200;
    static constexpr std::uint64_t most_registers = std::uint64_t{1} << 24;  ///< of one range

    Scopes() { scopes_.emplace_back(); }
    /// False: nested too deeply.
    [[nodiscard]] bool open();
    /// False: only scope 0 is open.
    [[nodiscard]] bool close();
    [[nodiscard]] std::size_t current() const noexcept { return current_; }

    /// Declares in the current scope. @returns null: the scope has this name
    [[nodiscard]] Name* declare(std::string_view name, Name::What what, Type type = Type::none);
    /// `%r<count>`: %r0 to %r(count - 1). False: the scope has this range.
    [[nodiscard]] bool declare_range(std::string_view prefix, std::uint64_t count, Type type);
    /// Looks from `scope` outwards; what is found counts as used. The result stays valid.
    [[nodiscard]] const Name* find(std::string_view name, std::size_t scope);
    /// Registers that were found at least once.
    [[nodiscard]] std::map<std::string, Type> used_registers() const;

  private:
    struct Range {
        std::uint64_t count = 0;
        Type type = Type::none;
    };
    struct Scope {
        std::size_t parent = 0, depth = 0;
        std::unordered_map<std::string_view, Name> names;  ///< also members of ranges, once found
        std::unordered_map<std::string_view, Range> ranges;
    };
    [[nodiscard]] Name* find_in(std::string_view name, std::size_t scope);
    [[nodiscard]] std::string unique(std::string_view name, std::size_t scope) const;

    std::deque<Scope> scopes_;  ///< what it holds does not move
    std::size_t current_ = 0;
};

}  // namespace kernelforge::emulator::ptx
