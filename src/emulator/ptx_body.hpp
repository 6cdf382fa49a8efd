// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/ptx_scopes.hpp"
#include "emulator/ptx_source_lines.hpp"
#include "emulator/ptx_text.hpp"

// The body of one function.

namespace kernelforge::emulator::ptx {

/// What names of the module mean.
enum class ModuleName : std::uint8_t { variable, function };
using ModuleNames = std::map<std::string, ModuleName, std::less<>>;

/// `.loc FILE LINE COLUMN[, function_name …, inlined_at FILE LINE COLUMN]` after its word: later
/// places have the candidate's line.
void read_loc(Text& text, SourceLines& lines);

/// Reads from after the opening brace to the closing one, into `function`. State with an
/// invariant: labels keep their written name until the end, and the instructions that hold some
/// are in `open_` together with the scope they stand in.
class Body {
  public:
    Body(Text& text, SourceLines& lines, const ModuleNames& module_names, Function& function);
    /// @throws PtxError
    void read();

  private:
    struct OpenInstruction {
        std::size_t instruction = 0, scope = 0;
    };
    struct OpenList {
        std::string unique;
        std::vector<std::string_view> labels;
        std::size_t scope = 0;
        Place place;
    };

    void declare_parameters();
    void statement();
    void directive(std::string_view word);
    void registers();
    void local_variables(Space space, bool is_extern);
    void extern_variables();
    void labelled(std::string_view name);
    void list(std::string_view name, std::string_view word);

    void guard(Instruction& instruction);
    void guarded();
    void instruction(std::string_view opcode, Instruction instruction);
    void modifiers(Instruction& instruction);
    void plain_operands(Instruction& instruction);
    void call(Instruction& instruction);
    [[nodiscard]] std::vector<Operand> parenthesised();

    [[nodiscard]] Operand operand();
    [[nodiscard]] Operand named();
    [[nodiscard]] Operand resolved(std::string_view name);
    [[nodiscard]] Operand open_name(std::string_view name);
    [[nodiscard]] Operand special(std::string_view name);
    [[nodiscard]] Operand negated();
    [[nodiscard]] Operand immediate();
    [[nodiscard]] Operand address();
    [[nodiscard]] Operand vector();

    void close_names();
    void close_operands(std::vector<Operand>& operands, std::size_t scope, Place place);
    void close_operand(Operand& operand, std::size_t scope, Place place);

    Text& text_;
    SourceLines& lines_;
    const ModuleNames& module_names_;
    Function& function_;
    std::deque<std::string> local_names_;  ///< as written; `scopes_` has views of them
    Scopes scopes_;
    std::vector<OpenInstruction> open_;
    std::vector<OpenList> lists_;
    bool has_open_name_ = false;  ///< of the instruction that is being read
};

}  // namespace kernelforge::emulator::ptx
