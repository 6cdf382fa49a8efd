// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "emulator/ptx_body.hpp"

// What stands outside of functions.

namespace kernelforge::emulator::ptx {

/// Reads a whole text. State with an invariant: `names_` has every variable and function of
/// `module_`.
class Parser {
  public:
    Parser(std::string_view text, std::string_view own_file);
    /// @throws PtxError
    [[nodiscard]] Module read();

  private:
    void statement();
    void directive(std::string_view word);
    void target();
    void section();
    void linked(std::string_view linkage);
    void module_variables(Space space, bool is_extern);
    void function(bool is_entry);
    void read_parameters(std::vector<Variable>& parameters);
    void performance_directives(Function& function);
    void performance_directive(Function& function, std::string_view word);
    [[nodiscard]] std::array<int, 3> three();
    [[nodiscard]] Function& declare(Function function, bool defined);

    Text text_;
    SourceLines lines_;
    Module module_;
    ModuleNames names_;
    std::map<std::string, std::size_t, std::less<>> functions_;  ///< index in the module
};

}  // namespace kernelforge::emulator::ptx
