// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_parser.hpp"

#include <limits>
#include <utility>

#include "emulator/ptx_variable.hpp"

namespace kernelforge::emulator::ptx {
namespace {

constexpr std::size_t most_parameters = 4096;

}  // namespace

Parser::Parser(std::string_view text, std::string_view own_file)
    : text_(text), lines_(text, own_file) {}

Module Parser::read() {
    while (!text_.at_end()) statement();
    if (module_.version.empty()) text_.malformed("the text has no .version");
    return std::move(module_);
}

void Parser::statement() {
    if (text_.take(';')) return;
    if (text_.peek() == '@') {  // @@DWARF, of older compilers
        text_.skip_line();
        return;
    }
    if (text_.peek() != '.') text_.expected("a directive");
    const std::string_view word = text_.dotted();
    if (module_.version.empty() && word != "version") {
        text_.malformed("expected .version first, found " + quote("." + std::string(word)));
    }
    directive(word);
}

void Parser::directive(std::string_view word) {
    if (word == "version") {
        module_.version = text_.version();
    } else if (word == "target") {
        target();
    } else if (word == "address_size") {
        if (text_.integer() != 64) text_.not_emulated("addresses of other than 64 bits");
    } else if (word == "file") {
        (void)text_.integer();
        (void)text_.quoted();
        while (text_.take(',')) (void)text_.integer();
    } else if (word == "section") {
        section();
    } else if (word == "pragma") {
        (void)text_.quoted();
        text_.expect(';');
    } else if (word == "loc") {
        read_loc(text_, lines_);
    } else if (word == "visible" || word == "weak" || word == "common" || word == "extern") {
        linked(word);
    } else if (word == "func" || word == "entry") {
        function(word == "entry");
    } else if (const std::optional<Space> space = parse_space(word)) {
        module_variables(*space, false);
    } else {
        text_.not_emulated("the directive ." + std::string(word));
    }
}

void Parser::target() {
    module_.target = text_.word();
    while (text_.take(',')) (void)text_.word();
}

/// Debug information: `.section .debug_str { … }`.
void Parser::section() {
    (void)text_.dotted();
    text_.expect('{');
    text_.skip_braces();
}

void Parser::linked(std::string_view linkage) {
    const std::string_view word = text_.dotted();
    if (word == "func" || word == "entry") {
        function(word == "entry");
        return;
    }
    const std::optional<Space> space = parse_space(word);
    if (!space) {
        text_.malformed("expected a function or variable after ." + std::string(linkage) +
                        ", found " + quote("." + std::string(word)));
    }
    module_variables(*space, linkage == "extern");
}

void Parser::module_variables(Space space, bool is_extern) {
    if (space == Space::param || space == Space::local) {
        text_.malformed("a parameter or local variable stands outside of a function");
    }
    for (Variable& variable : variables(text_, space, is_extern)) {
        if (!names_.emplace(variable.name, ModuleName::variable).second) {
            text_.malformed("the name " + quote(variable.name) + " is declared twice");
        }
        module_.variables.push_back(std::move(variable));
    }
}

void Parser::function(bool is_entry) {
    Function head;
    head.is_entry = is_entry;
    while (text_.peek() == '.') {
        if (text_.dotted() != "attribute") text_.expected("the name of a function");
        text_.expect('(');
        text_.skip_parentheses();
    }
    if (text_.peek() == '(') read_parameters(head.returns);
    head.place = text_.place();
    head.name = text_.word();
    if (text_.peek() == '(') read_parameters(head.parameters);
    performance_directives(head);
    if (text_.take(';')) {
        (void)declare(std::move(head), false);
        return;
    }
    text_.expect('{');
    Function& function = declare(std::move(head), true);
    Body(text_, lines_, names_, function).read();
}

void Parser::read_parameters(std::vector<Variable>& parameters) {
    text_.expect('(');
    if (text_.take(')')) return;
    do {
        if (parameters.size() == most_parameters) text_.malformed("too many parameters");
        parameters.push_back(parameter(text_));
    } while (text_.take(','));
    text_.expect(')');
}

void Parser::performance_directives(Function& function) {
    while (text_.peek() == '.') performance_directive(function, text_.dotted());
}

void Parser::performance_directive(Function& function, std::string_view word) {
    constexpr std::uint64_t most = std::numeric_limits<int>::max();
    if (word == "maxntid") {
        function.max_threads = three();
    } else if (word == "reqntid") {
        function.required_threads = three();
    } else if (word == "reqnctapercluster") {
        if (text_.at_number()) function.required_cluster = three();
        function.explicit_cluster = true;
    } else if (word == "explicitcluster") {
        function.explicit_cluster = true;
    } else if (word == "minnctapersm" || word == "maxnctapersm" || word == "maxnreg" ||
               word == "maxclusterrank") {
        (void)text_.count(most, "the number after ." + std::string(word));
    } else if (word == "pragma") {
        (void)text_.quoted();
        text_.expect(';');
    } else if (word == "attribute") {
        text_.expect('(');
        text_.skip_parentheses();
    } else if (word != "noreturn") {
        text_.not_emulated("the directive ." + std::string(word) + " of a function");
    }
}

/// `128, 1, 1`; what is left out is 1.
std::array<int, 3> Parser::three() {
    constexpr std::uint64_t most = std::numeric_limits<int>::max();
    std::array<int, 3> result = {1, 1, 1};
    std::size_t i = 0;
    do {
        if (i == result.size()) text_.malformed("expected at most three numbers");
        result[i++] = static_cast<int>(text_.count(most, "a size of a launch"));
    } while (text_.take(','));
    return result;
}

/// A definition takes the place of its declaration.
Function& Parser::declare(Function function, bool defined) {
    function.is_extern = !defined;
    const auto [name, added] = names_.emplace(function.name, ModuleName::function);
    if (!added && name->second == ModuleName::variable) {
        text_.malformed("the name " + quote(function.name) + " is declared twice");
    }
    if (added) {
        functions_.emplace(function.name, module_.functions.size());
        module_.functions.push_back(std::move(function));
        return module_.functions.back();
    }
    Function& known = module_.functions[functions_.find(function.name)->second];
    if (defined && !known.is_extern) {
        text_.malformed("the function " + quote(function.name) + " is defined twice");
    }
    if (defined) known = std::move(function);
    return known;
}

}  // namespace kernelforge::emulator::ptx
