// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_body.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "emulator/ptx_variable.hpp"

namespace kernelforge::emulator::ptx {
namespace {

/// wgmma of the largest tile has 128 registers in one vector; calls and lists have more.
constexpr std::size_t most_elements = 512;
constexpr std::size_t most_list = std::size_t{1} << 16;

/// Special registers without their component (PTX ISA 9.0, chapter 10). Numbered ones are
/// prefixes.
constexpr std::array<std::string_view, 34> special_registers = {"%tid",
                                                                "%ntid",
                                                                "%laneid",
                                                                "%warpid",
                                                                "%nwarpid",
                                                                "%ctaid",
                                                                "%nctaid",
                                                                "%smid",
                                                                "%nsmid",
                                                                "%gridid",
                                                                "%is_explicit_cluster",
                                                                "%clusterid",
                                                                "%nclusterid",
                                                                "%cluster_ctaid",
                                                                "%cluster_nctaid",
                                                                "%cluster_ctarank",
                                                                "%cluster_nctarank",
                                                                "%lanemask_eq",
                                                                "%lanemask_le",
                                                                "%lanemask_lt",
                                                                "%lanemask_ge",
                                                                "%lanemask_gt",
                                                                "%clock",
                                                                "%clock_hi",
                                                                "%clock64",
                                                                "%globaltimer",
                                                                "%globaltimer_lo",
                                                                "%globaltimer_hi",
                                                                "%reserved_smem_offset_begin",
                                                                "%reserved_smem_offset_end",
                                                                "%total_smem_size",
                                                                "%aggr_smem_size",
                                                                "%dynamic_smem_size",
                                                                "%current_graph_exec"};

bool is_special(std::string_view name) {
    return std::find(special_registers.begin(), special_registers.end(), name) !=
               special_registers.end() ||
           name.starts_with("%envreg") || name.starts_with("%pm") ||
           name.starts_with("%reserved_smem_offset_");
}

Location location(Text& text) {
    constexpr std::uint64_t most = std::numeric_limits<int>::max();
    Location result;
    result.file = text.count(most, "the file of .loc");
    result.line = text.count(most, "the line of .loc");
    result.column = text.count(most, "the column of .loc");
    return result;
}

}  // namespace

void read_loc(Text& text, SourceLines& lines) {
    const Location here = location(text);
    int line = 0;
    bool inlined = false;
    while (text.take(',')) {
        const std::string_view word = text.word();
        if (word == "function_name") {
            (void)text.word();
            if (text.peek() == '+') (void)text.integer();
        } else if (word == "inlined_at") {
            line = lines.inlined(here, location(text));
            inlined = true;
        } else {
            text.malformed("expected function_name or inlined_at, found " + quote(word));
        }
    }
    text.set_source_line(inlined ? line : lines.at(here));
}

Body::Body(Text& text, SourceLines& lines, const ModuleNames& module_names, Function& function)
    : text_(text), lines_(lines), module_names_(module_names), function_(function) {}

void Body::read() {
    lines_.begin_function();
    text_.set_source_line(0);
    declare_parameters();
    const int opened_at = text_.place().ptx_line;
    while (true) {
        if (text_.at_end()) {
            text_.malformed("the body of " + function_.name + ", opened on line " +
                            std::to_string(opened_at) + ", is not closed");
        }
        if (text_.take('}')) {
            if (!scopes_.close()) break;
        } else {
            statement();
        }
    }
    close_names();
    function_.registers = scopes_.used_registers();
    text_.set_source_line(0);
}

void Body::declare_parameters() {
    for (const std::vector<Variable>* list : {&function_.returns, &function_.parameters}) {
        for (const Variable& variable : *list) {
            if (variable.name == "_") continue;
            if (scopes_.declare(variable.name, Name::What::variable) == nullptr) {
                text_.malformed("two parameters are named " + quote(variable.name));
            }
        }
    }
}

void Body::statement() {
    switch (text_.peek()) {
        case '{':
            text_.expect('{');
            if (!scopes_.open()) {
                text_.malformed("braces are nested over " + std::to_string(Scopes::most_depth) +
                                " deep");
            }
            return;
        case ';':
            text_.expect(';');
            return;
        case '.':
            directive(text_.dotted());
            return;
        case '@':
            guarded();
            return;
        default:
            break;
    }
    if (!text_.at_word()) text_.expected("an instruction");
    const std::string_view word = text_.word();
    if (text_.peek() == ':') {
        labelled(word);
    } else {
        instruction(word, {});
    }
}

void Body::directive(std::string_view word) {
    if (word == "loc") {
        read_loc(text_, lines_);
    } else if (word == "reg") {
        registers();
    } else if (word == "pragma") {
        do (void)text_.quoted();
        while (text_.take(','));
        text_.expect(';');
    } else if (word == "extern") {
        extern_variables();
    } else if (const std::optional<Space> space = parse_space(word)) {
        local_variables(*space, false);
    } else {
        text_.malformed("the directive " + quote("." + std::string(word)) +
                        " is not known in a function");
    }
}

void Body::extern_variables() {
    const std::string_view word = text_.dotted();
    if (word != "shared") text_.malformed("expected .shared after .extern, found " + quote(word));
    local_variables(Space::shared, true);
}

/// `.reg .b32 %r<53>, a, b;`
void Body::registers() {
    const std::string_view word = text_.dotted();
    if (word == "v2" || word == "v4") text_.not_emulated("a register that is a vector");
    const Type type = type_word(text_, word);
    do {
        const std::string_view name = text_.word();
        bool added = false;
        if (text_.take('<')) {
            const std::uint64_t count =
                text_.count(Scopes::most_registers, "the number of registers");
            text_.expect('>');
            added = scopes_.declare_range(name, count, type);
        } else {
            added = scopes_.declare(name, Name::What::reg, type) != nullptr;
        }
        if (!added) text_.malformed("the register " + quote(name) + " is declared twice");
    } while (text_.take(','));
    text_.expect(';');
}

void Body::local_variables(Space space, bool is_extern) {
    if (space == Space::global || space == Space::constant) {
        text_.not_emulated("a global or constant variable inside a function");
    }
    for (Variable& variable : variables(text_, space, is_extern)) {
        local_names_.push_back(variable.name);
        const Name* const name = scopes_.declare(local_names_.back(), Name::What::variable);
        if (name == nullptr) {
            text_.malformed("the variable " + quote(variable.name) + " is declared twice");
        }
        if (!variable.initial.empty() || !variable.relocations.empty()) {
            text_.malformed("the variable " + quote(variable.name) +
                            " cannot be initialised in a function");
        }
        variable.name = name->unique;
        function_.locals.push_back(std::move(variable));
    }
}

/// At the colon behind `name`.
void Body::labelled(std::string_view name) {
    text_.expect(':');
    const std::string_view word = text_.peek() == '.' ? text_.dotted() : std::string_view();
    if (word == "branchtargets" || word == "calltargets" || word == "callprototype") {
        list(name, word);
        return;
    }
    const Name* const label = scopes_.declare(name, Name::What::label);
    if (label == nullptr) text_.malformed("the name " + quote(name) + " is declared twice");
    function_.labels.emplace(label->unique, function_.instructions.size());
    if (!word.empty()) directive(word);
}

void Body::list(std::string_view name, std::string_view word) {
    const bool branches = word == "branchtargets";
    const Name* const declared =
        scopes_.declare(name, branches ? Name::What::list : Name::What::prototype);
    if (declared == nullptr) text_.malformed("the name " + quote(name) + " is declared twice");
    if (word == "callprototype") {
        // The call itself says what is passed.
        while (!text_.take(';')) {
            if (text_.take('(')) {
                text_.skip_parentheses();
            } else if (text_.peek() == '.') {
                (void)text_.dotted();
            } else {
                (void)text_.word();
            }
        }
        return;
    }
    OpenList targets{declared->unique, {}, scopes_.current(), text_.place()};
    do {
        if (targets.labels.size() == most_list) text_.malformed("a list has too many targets");
        targets.labels.push_back(text_.word());
    } while (text_.take(','));
    text_.expect(';');
    if (branches) lists_.push_back(std::move(targets));
}

void Body::guarded() {
    Instruction guarded;
    guard(guarded);
    instruction(text_.word(), std::move(guarded));
}

void Body::guard(Instruction& instruction) {
    text_.expect('@');
    instruction.guard_negated = text_.take('!');
    const std::string_view name = text_.word();
    const Name* const found = scopes_.find(name, scopes_.current());
    if (found == nullptr || found->what != Name::What::reg || found->type != Type::pred) {
        text_.malformed("the guard " + quote(name) + " is no register of type .pred");
    }
    instruction.guard = found->unique;
}

void Body::instruction(std::string_view opcode, Instruction instruction) {
    instruction.opcode = opcode;
    instruction.place = text_.place();
    has_open_name_ = false;
    modifiers(instruction);
    if (opcode == "call") {
        call(instruction);
    } else {
        plain_operands(instruction);
    }
    if (has_open_name_) open_.push_back({function_.instructions.size(), scopes_.current()});
    function_.instructions.push_back(std::move(instruction));
}

void Body::modifiers(Instruction& instruction) {
    constexpr std::size_t most = 64;
    while (text_.peek() == '.') {
        if (instruction.modifiers.size() == most) text_.malformed("too many modifiers");
        instruction.modifiers.emplace_back(text_.dotted());
    }
}

void Body::plain_operands(Instruction& instruction) {
    if (text_.take(';')) return;
    while (true) {
        if (instruction.operands.size() >= most_elements) text_.malformed("too many operands");
        instruction.operands.push_back(operand());
        if (text_.take(';')) return;
        if (!text_.take(',') && !text_.take('|')) text_.expected("\",\" or \";\"");
    }
}

/// `call{.uni} (returns), callee, (arguments), prototype;`, everything but the callee optional.
void Body::call(Instruction& instruction) {
    if (text_.peek() == '(') {
        instruction.call_returns = parenthesised();
        text_.expect(',');
    }
    instruction.callee = named();
    bool had_arguments = false;
    while (text_.take(',')) {
        if (text_.peek() == '(' && !had_arguments) {
            instruction.call_arguments = parenthesised();
            had_arguments = true;
            continue;
        }
        const std::string_view prototype = text_.word();
        const Name* const found = scopes_.find(prototype, scopes_.current());
        if (found == nullptr || found->what != Name::What::prototype) {
            text_.malformed("the prototype " + quote(prototype) + " is not declared");
        }
        instruction.call_prototype = found->unique;
        break;
    }
    text_.expect(';');
}

std::vector<Operand> Body::parenthesised() {
    std::vector<Operand> result;
    text_.expect('(');
    if (text_.take(')')) return result;
    do {
        if (result.size() == most_elements) text_.malformed("too many arguments");
        result.push_back(operand());
    } while (text_.take(','));
    text_.expect(')');
    return result;
}

Operand Body::operand() {
    switch (text_.peek()) {
        case '[':
            return address();
        case '{':
            return vector();
        case '!':
            return negated();
        default:
            break;
    }
    if (text_.at_word()) return named();
    if (text_.at_number()) return immediate();
    text_.expected("an operand");
}

Operand Body::immediate() {
    // Not an expression where a `|` could be of a pair: numbers stand in no pair.
    const Number number = text_.number();
    Operand result;
    result.bits = number.bits;
    switch (number.kind) {
        case Number::Kind::integer:
            result.kind = Operand::Kind::integer;
            break;
        case Number::Kind::f32:
            result.kind = Operand::Kind::f32_bits;
            break;
        case Number::Kind::f64:
            result.kind = Operand::Kind::f64_bits;
            break;
    }
    return result;
}

Operand Body::negated() {
    text_.expect('!');
    Operand result = resolved(text_.word());
    if (result.kind != Operand::Kind::predicate) {
        text_.malformed("expected a register of type .pred after \"!\", found " +
                        quote(result.name));
    }
    result.negated = true;
    return result;
}

/// A name, with `+n` behind a symbol.
Operand Body::named() {
    const std::string_view name = text_.word();
    Operand result = resolved(name);
    const char next = text_.peek();
    if (result.kind == Operand::Kind::symbol && (next == '+' || next == '-')) {
        result.offset = text_.integer();
    }
    return result;
}

Operand Body::resolved(std::string_view name) {
    Operand result;
    if (name == "_") return result;
    result.name = name;
    const Name* const found = scopes_.find(name, scopes_.current());
    if (found != nullptr && found->what == Name::What::reg) {
        result.kind = found->type == Type::pred ? Operand::Kind::predicate : Operand::Kind::reg;
        result.name = found->unique;
        return result;
    }
    if (found != nullptr && found->what == Name::What::variable) {
        result.kind = Operand::Kind::symbol;
        result.name = found->unique;
        return result;
    }
    if (found != nullptr) return open_name(name);
    if (name.front() == '%') return special(name);
    if (name == "WARP_SZ") {
        result = {};
        result.kind = Operand::Kind::integer;
        result.bits = 32;
        return result;
    }
    if (module_names_.find(name) != module_names_.end()) {
        result.kind = Operand::Kind::symbol;
        return result;
    }
    return open_name(name);
}

/// A label, of which a nearer one may still come.
Operand Body::open_name(std::string_view name) {
    Operand result;
    result.kind = Operand::Kind::label;
    result.name = name;
    has_open_name_ = true;
    return result;
}

Operand Body::special(std::string_view name) {
    if (!is_special(name)) {
        text_.malformed("the register " + quote(name) + " is not declared");
    }
    Operand result;
    result.kind = Operand::Kind::special;
    result.name = name;
    if (text_.peek() == '.') {
        const std::string_view component = text_.dotted();
        if (component != "x" && component != "y" && component != "z" && component != "w") {
            text_.malformed("expected .x, .y or .z behind " + quote(name) + ", found " +
                            quote(component));
        }
        result.name += "." + std::string(component);
    }
    return result;
}

Operand Body::address() {
    text_.expect('[');
    Operand result;
    if (text_.at_word()) {
        result = resolved(text_.word());
        const bool known = result.kind == Operand::Kind::reg ||
                           result.kind == Operand::Kind::symbol ||
                           result.kind == Operand::Kind::integer;
        if (!known) text_.malformed("the address " + quote(result.name) + " is not declared");
        if (result.kind == Operand::Kind::integer) result.offset = 32;
        if (text_.peek() == '+' || text_.peek() == '-') result.offset += text_.integer();
    } else {
        result.offset = text_.integer();
    }
    result.kind = Operand::Kind::address;
    result.bits = 0;
    if (text_.take(',')) result.elements = vector().elements;
    text_.expect(']');
    return result;
}

Operand Body::vector() {
    text_.expect('{');
    Operand result;
    result.kind = Operand::Kind::vector;
    if (text_.take('}')) return result;
    do {
        if (result.elements.size() == most_elements) text_.malformed("a vector is too long");
        if (text_.peek() == '{' || text_.peek() == '[') text_.expected("an element of a vector");
        result.elements.push_back(operand());
    } while (text_.take(','));
    text_.expect('}');
    return result;
}

void Body::close_names() {
    for (const OpenInstruction& open : open_) {
        Instruction& instruction = function_.instructions[open.instruction];
        close_operands(instruction.operands, open.scope, instruction.place);
        close_operands(instruction.call_returns, open.scope, instruction.place);
        close_operands(instruction.call_arguments, open.scope, instruction.place);
        close_operand(instruction.callee, open.scope, instruction.place);
    }
    for (const OpenList& open : lists_) {
        std::vector<std::string>& labels = function_.branch_targets[open.unique];
        for (const std::string_view label : open.labels) {
            Operand target;
            target.kind = Operand::Kind::label;
            target.name = label;
            close_operand(target, open.scope, open.place);
            labels.push_back(std::move(target.name));
        }
    }
}

void Body::close_operands(std::vector<Operand>& operands, std::size_t scope, Place place) {
    for (Operand& operand : operands) {
        close_operand(operand, scope, place);
        close_operands(operand.elements, scope, place);
    }
}

void Body::close_operand(Operand& operand, std::size_t scope, Place place) {
    if (operand.kind != Operand::Kind::label) return;
    const Name* const found = scopes_.find(operand.name, scope);
    if (found == nullptr || found->what == Name::What::reg || found->what == Name::What::variable) {
        throw PtxError(PtxError::Kind::malformed, place,
                       "the name " + quote(operand.name) + " is not declared");
    }
    operand.name = found->unique;
}

}  // namespace kernelforge::emulator::ptx
