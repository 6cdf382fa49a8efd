// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "plan/directive.hpp"

// `kernel<<<grid, block, shared, cluster=(…), coop, pdl>>>(arguments)`

namespace kernelforge::plan {
namespace {

constexpr std::string_view scalar_types = "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64";

std::string one_space(std::string_view text) {
    std::string result;
    for (const char c : trimmed(text)) {
        if (!is_space(c)) {
            result += c;
        } else if (!result.empty() && result.back() != ' ') {
            result += ' ';
        }
    }
    return result;
}

/// Three extents; missing ones are 1.
std::array<Expression, 3> parse_extents(const Piece& piece, const Scope& scope,
                                        const std::string& what) {
    Piece inside = piece.trimmed();
    if (inside.blank()) inside.expected("the " + what + " as (x), (x, y, z) or an expression");
    Piece after_dim3 = inside;
    if (take_word(after_dim3, "dim3") && inside_parentheses(after_dim3)) inside = after_dim3;
    const std::optional<Piece> enclosed = inside_parentheses(inside);
    const std::vector<Piece> parts =
        enclosed ? split_commas(*enclosed) : std::vector<Piece>{inside};
    if (parts.size() > 3)
        inside.fail("expected at most three extents of the " + what + ", found " +
                    std::to_string(parts.size()));
    std::array<Expression, 3> extents = {Expression::constant(1), Expression::constant(1),
                                         Expression::constant(1)};
    for (std::size_t i = 0; i < parts.size(); ++i) extents[i] = scope.integer(parts[i]);
    return extents;
}

/// What a launch consists of, before its parts are understood.
struct LaunchText {
    Piece kernel;
    Piece configuration;
    Piece arguments;
};

LaunchText split_launch(const Piece& piece) {
    constexpr std::string_view form = "kernel<<<grid, block>>>(arguments)";
    const std::string_view text = piece.text();
    const std::size_t open = text.find("<<<");
    if (open == std::string_view::npos) piece.expected(std::string(form));
    std::size_t close = open + 3;
    int depth = 0;
    for (; close < text.size(); ++close) {
        if (text[close] == '(') ++depth;
        if (text[close] == ')') --depth;
        if (depth == 0 && text.substr(close).starts_with(">>>")) break;
    }
    if (close >= text.size()) piece.sub(open + 3).expected("'>>>' after the launch configuration");
    const Piece arguments = piece.sub(close + 3).trimmed();
    const std::string_view rest = arguments.text();
    if (rest.empty() || rest.front() != '(') arguments.expected("'(' and the arguments");
    const std::optional<std::size_t> end = closing_bracket(rest, 0);
    if (!end) arguments.fail("expected ')' after the arguments, found the end of the line");
    Piece after = arguments.sub(*end + 1);
    take_sign(after, ";");
    expect_end(after);
    return {piece.sub(0, open).trimmed(), piece.sub(open + 3, close - open - 3),
            arguments.sub(1, *end - 1)};
}

/// A scalar argument and the type that was written behind it.
struct TypedText {
    Piece value;
    std::string type;  ///< empty: none was written
};

TypedText split_type(const Piece& piece) {
    const std::string_view text = piece.text();
    std::size_t colon = std::string_view::npos;
    bool conditional = false;
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '(') ++depth;
        if (text[i] == ')') --depth;
        if (depth == 0 && text[i] == '?') conditional = true;
        if (depth == 0 && text[i] == ':') colon = i;
    }
    if (colon == std::string_view::npos) return {piece, ""};
    const Piece written = piece.sub(colon + 1).trimmed();
    const std::string type = scalar_type(one_space(written.text()));
    if (!type.empty()) return {piece.sub(0, colon).trimmed(), type};
    if (conditional) return {piece, ""};
    written.expected("a type (" + std::string(scalar_types) + ")");
}

bool is_one_identifier(std::string_view text) {
    if (text.empty() || !is_identifier_start(text.front())) return false;
    return std::all_of(text.begin(), text.end(), is_identifier_part);
}

/// Parses one argument against one parameter of the kernel, if that is known.
class ArgumentParser {
  public:
    ArgumentParser(const Scope& scope, const Parameter* parameter, std::size_t number)
        : scope_(scope), parameter_(parameter), number_(number) {}

    Argument parse(const Piece& piece) const {
        if (piece.blank()) piece.expected("an argument");
        if (piece.text().front() == '&') return tensor_map(piece);
        if (takes_tensor_map()) {
            piece.fail("expected a tensor map as &name for " + parameter_text() + ", found " +
                       quoted(piece.text()));
        }
        const TypedText typed = split_type(piece);
        const std::string name(typed.value.text());
        Argument argument;
        argument.position = piece.position();
        if (is_one_identifier(name)) {
            if (names_buffer(name, typed.type))
                return buffer(piece, std::move(argument), name, typed.type);
            check_known(typed.value, name);
        }
        return scalar(typed, std::move(argument));
    }

  private:
    [[nodiscard]] bool takes_tensor_map() const {
        return parameter_ != nullptr && !parameter_->pointer &&
               find_word(parameter_->type, "CUtensorMap").has_value();
    }

    /// `&NAME`, for a parameter that is a tensor map or a type that only the compiler knows.
    [[nodiscard]] Argument tensor_map(const Piece& piece) const {
        const std::string name(trimmed(piece.text().substr(1)));
        if (scope_.tensor_map(name) == nullptr) {
            if (scope_.is_buffer(name))
                piece.fail("a buffer is passed by its name alone, found '&" + name + "'");
            piece.fail("'&' is for tensor maps, and there is no //@tensormap " + quoted(name));
        }
        if (parameter_ != nullptr) check_tensor_map_parameter(piece, name);
        Argument argument;
        argument.kind = Argument::Kind::tensor_map;
        argument.name = name;
        argument.position = piece.position();
        return argument;
    }

    /// A map that is no grid constant is copied to the thread's stack, where the hardware that
    /// loads tiles does not see it.
    void check_tensor_map_parameter(const Piece& piece, const std::string& name) const {
        const bool constant = find_word(parameter_->type, "__grid_constant__").has_value();
        const bool plain = !parameter_->pointer && parameter_->scalar.empty();
        if (plain && (constant || !takes_tensor_map())) return;
        piece.fail("the tensor map '" + name + "' is passed to " + parameter_text() +
                   ", expected 'const __grid_constant__ CUtensorMap'");
    }

    [[nodiscard]] bool names_buffer(const std::string& name, const std::string& type) const {
        if (!scope_.is_buffer(name)) return false;
        if (!scope_.is_integer(name)) return true;
        // An axis and a tensor of one name: the type, or else the parameter, decides.
        return type.empty() && (parameter_ == nullptr || parameter_->pointer);
    }

    void check_known(const Piece& piece, const std::string& name) const {
        if (scope_.is_integer(name) || scope_.scalar(name) != nullptr) return;
        piece.fail("unknown name '" + name + "'" + known_names(name, all_names()));
    }

    [[nodiscard]] std::vector<std::string> all_names() const {
        std::vector<std::string> names = scope_.buffers();
        for (const auto& list : {scope_.integers(), scope_.scalars()})
            names.insert(names.end(), list.begin(), list.end());
        return names;
    }

    [[nodiscard]] std::string parameter_text() const {
        return "parameter " + std::to_string(number_) + " '" + parameter_->type +
               (parameter_->name.empty() ? "" : " " + parameter_->name) + "' (" +
               to_string(parameter_->position) + ")";
    }

    Argument buffer(const Piece& piece, Argument argument, const std::string& name,
                    const std::string& type) const {
        if (!type.empty()) piece.fail("'" + name + "' is a buffer, which is passed without a type");
        argument.kind = Argument::Kind::buffer;
        argument.name = name;
        if (parameter_ == nullptr) return argument;
        if (!parameter_->pointer && !parameter_->scalar.empty()) {
            piece.fail("the buffer '" + name + "' is passed to " + parameter_text() +
                       ", which is no pointer");
        }
        check_element(piece, name);
        return argument;
    }

    /// Kernels may look at a buffer through vector and integer types, so only two different
    /// floating-point types are a contradiction.
    void check_element(const Piece& piece, const std::string& name) const {
        const TensorSpec* tensor = scope_.tensor(name);
        const std::string element =
            tensor != nullptr ? scalar_type(tensor->dtype) : scope_.workspace(name)->element;
        if (!parameter_->pointer || !is_floating_type(parameter_->scalar) ||
            !is_floating_type(element))
            return;
        if (element == parameter_->scalar) return;
        const std::string holds =
            tensor != nullptr ? std::string(to_string(tensor->dtype)) : element;
        piece.fail("'" + name + "' holds " + holds + ", but is passed to " + parameter_text() +
                   "; declare the parameter with that element type, or as void*");
    }

    [[nodiscard]] std::string type_of(const TypedText& typed) const {
        if (!typed.type.empty()) return typed.type;
        if (parameter_ != nullptr && !parameter_->pointer && !parameter_->scalar.empty())
            return parameter_->scalar;
        const TensorSpec* input = scope_.scalar(typed.value.text());
        if (input != nullptr && !scalar_type(input->dtype).empty())
            return scalar_type(input->dtype);
        const std::string text = one_space(typed.value.text());
        const std::string why = parameter_ == nullptr ? "the kernel's parameters could not be read"
                                                      : parameter_text() + " does not tell it";
        typed.value.fail("a type is needed, because " + why + ": write " + text +
                         ":i32 or another of " + std::string(scalar_types));
    }

    Argument scalar(const TypedText& typed, Argument argument) const {
        if (parameter_ != nullptr && parameter_->pointer) {
            typed.value.fail("the scalar " + quoted(typed.value.text()) + " is passed to " +
                             parameter_text() +
                             ", which is a pointer; buffers: " + list(scope_.buffers()));
        }
        argument.type = type_of(typed);
        check_type(typed, argument.type);
        if (is_floating_type(argument.type) || mentions_scalar(typed.value.text())) {
            argument.kind = Argument::Kind::floating;
            argument.floating = scope_.floating(typed.value);
        } else {
            argument.kind = Argument::Kind::integer;
            argument.integer = scope_.integer(typed.value);
        }
        return argument;
    }

    [[nodiscard]] static std::string list(const std::vector<std::string>& names) {
        std::string text;
        for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
        return text;
    }

    [[nodiscard]] bool mentions_scalar(std::string_view text) const {
        const std::vector<std::string> names = scope_.scalars();
        return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
            return find_word(text, name).has_value();
        });
    }

    void check_type(const TypedText& typed, const std::string& type) const {
        if (parameter_ == nullptr || parameter_->scalar.empty() || type == parameter_->scalar)
            return;
        const bool floating = is_floating_type(type) || is_floating_type(parameter_->scalar);
        if (!floating && scalar_bytes(type) == scalar_bytes(parameter_->scalar)) return;
        typed.value.fail("expected " + parameter_->scalar + " for " + parameter_text() +
                         ", found " + type);
    }

    const Scope& scope_;
    const Parameter* parameter_;
    std::size_t number_;
};

void parse_configuration(const Piece& piece, const Scope& scope, Launch& launch) {
    const std::vector<Piece> parts = split_commas(piece);
    if (parts.size() < 2) piece.expected("the grid and the block in <<<grid, block>>>");
    launch.grid = parse_extents(parts[0], scope, "grid");
    launch.block = parse_extents(parts[1], scope, "block");
    launch.shared_bytes = Expression::constant(0);
    bool named = false;
    for (std::size_t i = 2; i < parts.size(); ++i) {
        Piece part = parts[i];
        if (take_word(part, "cluster")) {
            if (launch.cluster) parts[i].fail("the cluster is given twice");
            expect_sign(part, "=");
            launch.cluster = parse_extents(part, scope, "cluster");
            named = true;
        } else if (take_word(part, "coop") && part.blank()) {
            launch.cooperative = named = true;
        } else if (part = parts[i]; take_word(part, "pdl") && part.blank()) {
            launch.pdl = named = true;
        } else if (i == 2 && !named) {
            const std::optional<Piece> enclosed = inside_parentheses(parts[i]);
            launch.shared_bytes = scope.integer(enclosed ? *enclosed : parts[i]);
        } else if (i != 3 || named || (parts[i].text() != "0" && parts[i].text() != "stream")) {
            // A fourth plain part is CUDA's stream; all launches of a plan are on the one stream.
            parts[i].expected("cluster=(x, y, z), coop or pdl");
        }
    }
}

/// Occupancy depends on the block and the shared memory, so these cannot depend on occupancy.
void check_no_occupancy(const Launch& launch, const Scope& scope) {
    std::vector<const Expression*> expressions = {&launch.block[0], &launch.block[1],
                                                  &launch.block[2], &launch.shared_bytes};
    if (launch.cluster) {
        for (const Expression& extent : *launch.cluster) expressions.push_back(&extent);
    }
    for (const Expression* expression : expressions) {
        if (!scope.asks_occupancy(*expression)) continue;
        throw Error(ErrorCode::parse, expression->position(),
                    "block, shared memory and cluster cannot depend on OCC or CLUSTERS, which "
                    "depend on them");
    }
}

/// A macro replaces every word of its name, so a parameter of that name cannot be compiled.
void check_macro_names(const Kernel& kernel, const KernelList& kernels, const Scope& scope) {
    const auto check = [&](const std::string& name, const SourcePosition& position,
                           const char* what) {
        const auto& undefined = kernels.undefined;
        if (name.empty() || !scope.is_macro(name)) return;
        if (std::find(undefined.begin(), undefined.end(), name) != undefined.end()) return;
        throw Error(
            ErrorCode::parse, position,
            std::string(what) + " '" + name + "' of kernel '" + kernel.name +
                "' has the name of a macro, because '" + name + "' is " +
                (scope.axis(name) != nullptr ? "a constant or specialised axis" : "a tunable") +
                ": use the macro and leave the parameter out, or rename it");
    };
    for (const std::string& name : kernel.template_parameters)
        check(name, kernel.position, "the template parameter");
    if (!kernel.readable) return;
    for (const Parameter& parameter : kernel.parameters)
        check(parameter.name, parameter.position, "the parameter");
}

std::string signature(const Kernel& kernel) {
    std::string text;
    for (const Parameter& parameter : kernel.parameters) {
        text += (text.empty() ? "" : ", ") + parameter.type +
                (parameter.name.empty() ? "" : " " + parameter.name);
    }
    return kernel.name + "(" + text + ")";
}

void parse_arguments(const Piece& piece, const Scope& scope, const Kernel* kernel, Launch& launch) {
    constexpr std::size_t most_arguments = 256;
    const std::vector<Piece> parts = piece.blank() ? std::vector<Piece>{} : split_commas(piece);
    if (parts.size() > most_arguments)
        piece.fail("expected at most " + std::to_string(most_arguments) + " arguments");
    const bool known = kernel != nullptr && kernel->readable;
    if (known && parts.size() != kernel->parameters.size()) {
        piece.fail("expected " + std::to_string(kernel->parameters.size()) + " arguments for " +
                   signature(*kernel) + " (" + to_string(kernel->position) + "), found " +
                   std::to_string(parts.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Parameter* parameter = known ? &kernel->parameters[i] : nullptr;
        launch.arguments.push_back(ArgumentParser(scope, parameter, i + 1).parse(parts[i]));
    }
}

/// `__cluster_dims__` where all its names are macros.
std::optional<std::array<Expression, 3>> fixed_cluster(const Kernel& kernel, const Scope& scope) {
    if (kernel.cluster_dims.empty() || kernel.cluster_dims.size() > 3) return std::nullopt;
    std::array<Expression, 3> extents = {Expression::constant(1), Expression::constant(1),
                                         Expression::constant(1)};
    try {
        for (std::size_t i = 0; i < kernel.cluster_dims.size(); ++i) {
            extents[i] =
                Expression::parse(kernel.cluster_dims[i].text, kernel.cluster_dims[i].position);
            const auto& names = extents[i].names();
            const bool macros =
                std::all_of(names.begin(), names.end(),
                            [&](const std::string& name) { return scope.is_macro(name); });
            if (!macros || !extents[i].queried().empty()) return std::nullopt;
        }
    } catch (const Error&) {
        return std::nullopt;  // C++ that is no plan expression; the compiler knows it
    }
    return extents;
}

}  // namespace

const Kernel* named_kernel(const Piece& piece, const KernelList& kernels,
                           const std::vector<Symbol>& symbols) {
    const std::string_view text = piece.text();
    const std::size_t bracket = text.find('<');
    const std::string name(trimmed(text.substr(0, bracket)));
    const bool well_formed = !name.empty() &&
                             is_identifier_start(name.front() == ':' ? '_' : name.front()) &&
                             std::all_of(name.begin(), name.end(),
                                         [](char c) { return is_identifier_part(c) || c == ':'; });
    if (!well_formed) piece.expected("the name of a kernel");
    if (bracket != std::string_view::npos && text.back() != '>')
        piece.expected("a kernel name with '>' at its end");
    const Kernel* kernel = kernels.find(name);
    if (kernel == nullptr) {
        std::vector<std::string> known = kernels.names();
        const bool repeated = std::count_if(kernels.kernels.begin(), kernels.kernels.end(),
                                            [&](const Kernel& k) { return k.name == name; }) > 1;
        if (repeated)
            piece.fail("the kernel name '" + name + "' is ambiguous; known: " + known.front() +
                       " and others: write the namespace");
        if (!kernels.complete) return nullptr;
        for (const Symbol& symbol : symbols) known.push_back(symbol.alias);
        piece.fail("the source defines no kernel '" + name + "'" + known_names(name, known));
    }
    if (bracket == std::string_view::npos && kernel->is_template) {
        piece.fail("the kernel '" + name + "' is a template: name an instance with //@symbol " +
                   name + "<…> as alias");
    }
    if (bracket != std::string_view::npos && !kernel->is_template) {
        piece.fail("the kernel '" + name + "' is no template, found template arguments");
    }
    return kernel;
}

Launch parse_launch(const Piece& piece, Plan& plan, const Scope& scope, const KernelList& kernels) {
    const LaunchText text = split_launch(piece);
    Launch launch;
    launch.kernel = one_space(text.kernel.text());
    launch.position = text.kernel.position();
    const auto symbol = std::find_if(plan.symbols.begin(), plan.symbols.end(),
                                     [&](const Symbol& s) { return s.alias == launch.kernel; });
    const Kernel* kernel = nullptr;
    if (symbol != plan.symbols.end()) {
        kernel = kernels.find(
            trimmed(std::string_view(symbol->expression).substr(0, symbol->expression.find('<'))));
    } else {
        kernel = named_kernel(text.kernel, kernels, plan.symbols);
        const bool instance = launch.kernel.find('<') != std::string::npos;
        if (instance) plan.symbols.push_back({launch.kernel, launch.kernel, launch.position});
    }
    if (kernel != nullptr) {
        check_macro_names(*kernel, kernels, scope);
        launch.fixed_cluster = fixed_cluster(*kernel, scope);
    }
    parse_configuration(text.configuration, scope, launch);
    check_no_occupancy(launch, scope);
    parse_arguments(text.arguments, scope, kernel, launch);
    return launch;
}

}  // namespace kernelforge::plan
