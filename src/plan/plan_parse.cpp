// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "plan/directive.hpp"
#include "plan/steps.hpp"

namespace kernelforge::plan {
namespace {

constexpr std::size_t most_source_bytes = std::size_t{1} << 20;
constexpr std::size_t most_directives = 1000;
constexpr std::size_t most_directive_bytes = 16384;
constexpr std::size_t most_names = 256;  // of one kind
constexpr std::size_t most_values = 64;  // of one tunable

const std::vector<std::string>& directive_names() {
    static const std::vector<std::string> names = {
        "kernelforge", "requires",  "option",  "tune",   "let",  "valid",  "workspace", "symbol",
        "specialize",  "tensormap", "prepare", "memset", "call", "launch", "case"};
    return names;
}

/// One directive: its word and what follows.
struct Directive {
    Piece word;
    Piece rest;
};

class PlanParser {
  public:
    PlanParser(std::string_view source, std::string file, const Definition& definition,
               const std::vector<std::string>& constant_inputs)
        : definition_(definition), constant_inputs_(constant_inputs), scope_(definition, plan_) {
        plan_.file = std::move(file);
        if (source.size() > most_source_bytes) {
            throw Error(ErrorCode::parse, {plan_.file, 0, 0},
                        "the source has " + std::to_string(source.size()) +
                            " bytes, expected at most " + std::to_string(most_source_bytes));
        }
        text_ = read_source(source, plan_.file);
        kernels_ = read_kernels(text_, source, plan_.file);
        end_ = position_at({plan_.file, 1, 1}, source, source.size());
        has_spaced_sign_ = source.find("// @") != std::string_view::npos;
    }

    Plan parse() {
        read_directives();
        // Declarations first, so that a step may use a name that stands below it.
        for (const Directive& directive : directives_) declare(directive);
        check_declarations();
        for (const Directive& directive : directives_) add_step(directive);
        check_steps();
        return std::move(plan_);
    }

  private:
    void read_directives() {
        if (text_.directives.size() > most_directives) {
            throw Error(ErrorCode::parse, text_.directives[most_directives].position,
                        "expected at most " + std::to_string(most_directives) + " directives");
        }
        for (const DirectiveText& text : text_.directives) {
            if (text.text.size() > most_directive_bytes) {
                throw Error(ErrorCode::parse, text.position,
                            "the directive has " + std::to_string(text.text.size()) +
                                " bytes, expected at most " + std::to_string(most_directive_bytes));
            }
            Directive directive;
            directive.rest = {&text, 0, text.text.size()};
            directive.word = take_identifier(directive.rest, "a directive");
            const std::string word(directive.word.text());
            const auto& known = directive_names();
            if (std::find(known.begin(), known.end(), word) == known.end()) {
                directive.word.fail("unknown directive '//@" + word + "'" +
                                    known_names(word, known));
            }
            directives_.push_back(directive);
        }
    }

    void declare(const Directive& directive) {
        const std::string_view word = directive.word.text();
        if (word == "kernelforge") version(directive);
        if (word == "requires") architecture(directive);
        if (word == "option") options(directive);
        if (word == "tune") tune(directive.rest);
        if (word == "let") let(directive.rest);
        if (word == "valid") valid(directive);
        if (word == "workspace") workspace(directive.rest);
        if (word == "symbol") symbol(directive.rest);
        if (word == "specialize") specialize(directive.rest);
        if (word == "tensormap") tensor_map(directive.rest);
    }

    /// The name; the rest may speak of what is declared below it.
    void tensor_map(Piece rest) {
        const Piece name = take_identifier(rest, "the name of a tensor map");
        scope_.check_new(name, "tensor map");
        check_count(plan_.tensor_maps, name, "tensor maps");
        TensorMap& map = plan_.tensor_maps.emplace_back();
        map.name = std::string(name.text());
        map.position = name.position();
        tensor_maps_.push_back(rest);
    }

    void version(const Directive& directive) {
        if (has_version_) directive.word.fail("//@kernelforge is given twice");
        has_version_ = true;
        const std::vector<Piece> words = split_words(directive.rest);
        if (words.size() != 1 || words[0].text() != "1")
            directive.rest.expected("the format version 1");
        plan_.version = 1;
    }

    void architecture(const Directive& directive) {
        if (!plan_.requires_arch.empty()) directive.word.fail("//@requires is given twice");
        const Piece value = directive.rest.trimmed();
        std::string_view digits = value.text();
        const bool prefixed = digits.starts_with("sm_");
        if (prefixed) digits.remove_prefix(3);
        if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f'))
            digits.remove_suffix(1);
        const bool number = !digits.empty() && digits.size() <= 3 &&
                            std::all_of(digits.begin(), digits.end(), is_digit);
        if (!prefixed || !number) value.expected("an architecture such as sm_90 or sm_90a");
        plan_.requires_arch = std::string(value.text());
        plan_.requires_position = value.position();
    }

    void options(const Directive& directive) {
        const std::vector<std::string> more = parse_options(directive.rest, plan_.options);
        plan_.options.insert(plan_.options.end(), more.begin(), more.end());
    }

    /// @throws Error when a list is as long as it may be
    template <class T>
    static void check_count(const std::vector<T>& list, const Piece& piece,
                            const std::string& what) {
        if (list.size() >= most_names)
            piece.fail("expected at most " + std::to_string(most_names) + " " + what);
    }

    void tune(Piece rest) {
        const Piece name = take_identifier(rest, "the name of a tunable");
        scope_.check_new(name, "tunable");
        check_count(plan_.tunes, name, "tunables");
        expect_sign(rest, "=");
        Tune tune;
        tune.name = std::string(name.text());
        tune.position = name.position();
        while (!rest.blank()) {
            if (take_word(rest, "if")) {
                const Piece condition = rest.trimmed();
                tune.condition = Expression::parse(condition.text(), condition.position());
                rest = rest.sub(rest.text().size());
                break;
            }
            rest = rest.trimmed();
            const std::string_view text = rest.text();
            std::size_t length = 0;
            while (length < text.size() && !is_space(text[length]) && text[length] != ',') ++length;
            add_value(tune, rest.sub(0, length));
            rest = rest.sub(length);
            static_cast<void>(take_sign(rest, ","));
        }
        if (tune.values.empty()) rest.expected("the values of the tunable '" + tune.name + "'");
        plan_.tunes.push_back(std::move(tune));
    }

    static void add_value(Tune& tune, const Piece& piece) {
        constexpr std::int64_t most = std::int64_t{1} << 31;
        const std::int64_t value =
            integer_literal(piece, "an integer value or 'if'", -most, most - 1);
        if (std::find(tune.values.begin(), tune.values.end(), value) != tune.values.end()) {
            piece.fail("the value " + std::to_string(value) + " of '" + tune.name +
                       "' is given twice");
        }
        if (tune.values.size() >= most_values)
            piece.fail("expected at most " + std::to_string(most_values) + " values");
        tune.values.push_back(value);
    }

    void let(Piece rest) {
        const Piece name = take_identifier(rest, "the name of a let");
        scope_.check_new(name, "let");
        check_count(plan_.lets, name, "lets");
        expect_sign(rest, "=");
        const Piece value = rest.trimmed();
        plan_.lets.push_back({std::string(name.text()),
                              Expression::parse(value.text(), value.position()), name.position()});
    }

    void valid(const Directive& directive) {
        if (plan_.valid)
            directive.word.fail(
                "//@valid is given twice, expected one condition: join them with &&");
        const Piece condition = directive.rest.trimmed();
        plan_.valid = Expression::parse(condition.text(), condition.position());
    }

    void workspace(Piece rest) {
        const Piece name = take_identifier(rest, "the name of a workspace");
        scope_.check_new(name, "workspace");
        check_count(plan_.workspaces, name, "workspaces");
        Workspace space;
        space.name = std::string(name.text());
        space.position = name.position();
        const Piece element =
            take_identifier(rest, "an element type (i8 … u64, f16, bf16, f32, f64)");
        space.element = scalar_type(element.text());
        if (space.element.empty())
            element.expected("an element type (i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64)");
        space.element_bytes = scalar_bytes(space.element);
        const Piece extents = rest.trimmed();
        const bool opens = extents.text().starts_with("[");
        const std::optional<std::size_t> close =
            opens ? closing_bracket(extents.text(), 0) : std::nullopt;
        if (!close) extents.expected("the extents in brackets, as [tiles] or [rows, 4]");
        for (const Piece& part : split_commas(extents.sub(1, *close - 1))) {
            space.extents.push_back(Expression::parse(part.text(), part.position()));
        }
        for (const Piece& word : split_words(extents.sub(*close + 1)))
            workspace_property(space, word);
        plan_.workspaces.push_back(std::move(space));
    }

    static void workspace_property(Workspace& space, const Piece& word) {
        const std::string_view text = word.text();
        if (text == "init=undef") {
            space.init = Workspace::Init::undef;
        } else if (text == "init=zero") {
            space.init = Workspace::Init::zero;
        } else if (text == "init=selfzero") {
            space.init = Workspace::Init::selfzero;
        } else if (text.starts_with("init=")) {
            word.expected("init=undef, init=zero or init=selfzero");
        } else if (text.starts_with("align=")) {
            space.align = integer_literal(word.sub(6), "an alignment", 1, 4096);
            if ((space.align & (space.align - 1)) != 0)
                word.expected("an alignment that is a power of two");
        } else {
            word.expected("init= or align=");
        }
    }

    void symbol(const Piece& rest) {
        const std::string_view text = rest.text();
        std::size_t place = std::string_view::npos;
        for (std::size_t i = 1; i + 3 < text.size(); ++i) {
            if (text.substr(i, 2) == "as" && is_space(text[i - 1]) && is_space(text[i + 2]))
                place = i;
        }
        if (place == std::string_view::npos)
            rest.expected("a symbol as kernel<arguments> as alias");
        const Piece expression = rest.sub(0, place).trimmed();
        Piece after = rest.sub(place + 2);
        const Piece alias = take_identifier(after, "an alias");
        expect_end(after);
        check_count(plan_.symbols, alias, "symbols");
        const std::string name(alias.text());
        for (const Symbol& other : plan_.symbols) {
            if (other.alias == name)
                alias.fail("the alias '" + name + "' is defined twice, first in line " +
                           std::to_string(other.position.line));
        }
        if (expression.blank()) rest.expected("a kernel in front of 'as'");
        static_cast<void>(named_kernel(expression, kernels_, plan_.symbols));
        plan_.symbols.push_back({std::string(expression.text()), name, expression.position()});
        symbols_.push_back(expression);
    }

    void specialize(const Piece& rest) {
        std::vector<Piece> words = split_words(rest);
        if (words.empty()) rest.expected("the name of an axis");
        for (Piece word : words) {
            if (word.text().ends_with(",")) word = word.sub(0, word.text().size() - 1);
            const std::string name(word.text());
            const Axis* axis = scope_.axis(name);
            if (axis == nullptr) {
                std::vector<std::string> known;
                for (const Axis& each : definition_.axes) known.push_back(each.name);
                word.fail("//@specialize names no axis: '" + name + "'" + known_names(name, known));
            }
            // Constant axes are macros in any case.
            if (axis->kind == Axis::Kind::constant) continue;
            if (scope_.is_macro(name)) word.fail("the axis '" + name + "' is specialised twice");
            plan_.specialized.push_back(name);
        }
    }

    /// Names in what was declared; lets only see the lets above them.
    void check_declarations() {
        for (std::size_t i = 0; i < plan_.lets.size(); ++i)
            scope_.check_names(plan_.lets[i].value, i);
        for (const Tune& tune : plan_.tunes) {
            if (tune.condition) check_static(*tune.condition, "the condition of a tunable");
        }
        if (plan_.valid) check_static(*plan_.valid, "//@valid");
        for (const Workspace& space : plan_.workspaces) {
            for (const Expression& extent : space.extents)
                scope_.check_names(extent, plan_.lets.size());
        }
        for (std::size_t i = 0; i < tensor_maps_.size(); ++i)
            parse_tensor_map(tensor_maps_[i], scope_, plan_.tensor_maps[i]);
        const std::set<std::string_view> declared = declared_names();
        for (const Piece& expression : symbols_) check_symbol(expression, declared);
    }

    /// What is decided before a kernel is loaded.
    void check_static(const Expression& expression, const std::string& what) const {
        scope_.check_names(expression, plan_.lets.size());
        if (!scope_.asks_occupancy(expression)) return;
        throw Error(ErrorCode::parse, expression.position(),
                    what + " cannot depend on OCC or CLUSTERS");
    }

    /// Template arguments are C++, which sees macros but no lets and no other axes.
    void check_symbol(const Piece& expression, const std::set<std::string_view>& declared) const {
        const std::string_view text = expression.text();
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (!is_identifier_start(text[i]) || (i > 0 && is_identifier_part(text[i - 1])))
                continue;
            std::size_t end = i;
            while (end < text.size() && is_identifier_part(text[end])) ++end;
            const std::string name(text.substr(i, end - i));
            const bool let = std::any_of(plan_.lets.begin(), plan_.lets.end(),
                                         [&](const Let& l) { return l.name == name; });
            const bool axis = scope_.axis(name) != nullptr && !scope_.is_macro(name);
            if ((let || axis) && declared.count(name) == 0) {
                expression.fail(
                    "'" + name + "' has no value when the kernel is compiled" +
                        (axis ? ": add //@specialize " + name
                              : ": template arguments see tunables and constant axes only"),
                    i);
            }
        }
    }

    /// Names that the source may itself give a meaning to.
    [[nodiscard]] std::set<std::string_view> declared_names() const {
        std::set<std::string_view> names;
        const auto& tokens = text_.tokens;
        for (std::size_t i = 1; i < tokens.size(); ++i) {
            if (tokens[i - 1].text == "define") names.insert(tokens[i].text);
            if (tokens[i].text == "=") names.insert(tokens[i - 1].text);
        }
        return names;
    }

    void add_step(const Directive& directive) {
        const std::string_view word = directive.word.text();
        if (word == "case") add_case(directive);
        if (word == "memset") steps().emplace_back(memset(directive.rest));
        if (word == "launch") add_launch(directive.rest, steps());
        if (word == "prepare") add_prepare(directive.rest);
        if (word == "call") steps().emplace_back(parse_call(directive.rest, scope_));
    }

    void add_launch(const Piece& rest, std::vector<Step>& list) {
        list.emplace_back(parse_launch(rest, plan_, scope_, kernels_));
        const Piece kernel = rest.sub(0, rest.text().find("<<<")).trimmed();
        if (kernel.text().find('<') != std::string_view::npos)
            check_symbol(kernel, declared_names());
    }

    [[nodiscard]] std::vector<Step>& steps() {
        return plan_.cases.empty() ? plan_.steps : plan_.cases.back().steps;
    }

    /// A launch, or `memset NAME BYTE`.
    void add_prepare(const Piece& rest) {
        Piece after = rest;
        if (take_word(after, "memset") && !after.trimmed().text().starts_with("<")) {
            const Memset step = memset(after);
            if (scope_.workspace(step.buffer) == nullptr) {
                throw Error(ErrorCode::parse, step.position,
                            "'" + step.buffer + "' is an output, which //@prepare cannot write");
            }
            plan_.prepare.emplace_back(step);
            return;
        }
        add_launch(rest, plan_.prepare);
        for (const Argument& argument : std::get<Launch>(plan_.prepare.back()).arguments)
            check_prepared(argument);
    }

    /// What a prepare step sees is the same in all calls: constant inputs and workspaces.
    void check_prepared(const Argument& argument) const {
        const auto fail = [&](const std::string& name, const std::string& what) {
            std::string known;
            for (const std::string& each : constant_inputs_) known += " " + each;
            throw Error(ErrorCode::parse, argument.position,
                        "'" + name + "' is " + what +
                            "; //@prepare may use workspaces and constant inputs, which are" +
                            (known.empty() ? " none in this task" : ":" + known));
        };
        const auto constant = [&](const std::string& name) {
            return std::find(constant_inputs_.begin(), constant_inputs_.end(), name) !=
                   constant_inputs_.end();
        };
        if (argument.floating) {
            for (const std::string& name : argument.floating->names()) {
                if (scope_.scalar(name) != nullptr && !constant(name))
                    fail(name, "no constant input");
            }
        }
        std::string buffer = argument.kind == Argument::Kind::buffer ? argument.name : "";
        if (argument.kind == Argument::Kind::tensor_map)
            buffer = scope_.tensor_map(argument.name)->buffer;
        if (buffer.empty() || scope_.workspace(buffer) != nullptr) return;
        if (!scope_.is_input(buffer)) fail(buffer, "an output");
        if (!constant(buffer)) fail(buffer, "no constant input");
    }

    void add_case(const Directive& directive) {
        if (!plan_.cases.empty() && !plan_.cases.back().condition) {
            directive.word.fail("//@case else must be the last case");
        }
        Case next;
        next.position = directive.word.position();
        Piece rest = directive.rest;
        if (take_word(rest, "else")) {
            expect_end(rest);
            if (plan_.cases.empty())
                directive.word.fail("//@case else needs a //@case with a condition before it");
        } else {
            next.condition = scope_.integer(rest);
        }
        check_count(plan_.cases, directive.word, "cases");
        plan_.cases.push_back(std::move(next));
    }

    Memset memset(Piece rest) const {
        const Piece name = take_identifier(rest, "an output or a workspace");
        const std::string buffer(name.text());
        if (scope_.is_input(buffer))
            name.fail("'" + buffer + "' is an input, which cannot be written");
        if (!scope_.is_buffer(buffer)) {
            name.fail("unknown output or workspace '" + buffer + "'" +
                      known_names(buffer, scope_.buffers()));
        }
        const Piece value = rest.trimmed();
        return {buffer, scope_.integer(value), name.position()};
    }

    void check_steps() const {
        check_step_kernels(plan_.steps);
        check_step_kernels(plan_.prepare);
        for (const Case& each : plan_.cases) {
            if (each.steps.empty())
                throw Error(ErrorCode::parse, each.position, "the case has no steps");
            if (each.condition) check_kernels(*each.condition);
            check_step_kernels(each.steps);
        }
        for (const Let& let : plan_.lets) check_kernels(let.value);
        for (const Workspace& space : plan_.workspaces) {
            for (const Expression& extent : space.extents) check_kernels(extent);
        }
        bool any = false;
        each_step([&](const Step& step) { any = any || !std::holds_alternative<Memset>(step); });
        if (!any) fail_without_steps();
        check_prepared_workspaces();
    }

    void check_step_kernels(const std::vector<Step>& steps) const {
        for (const Step& step : steps) {
            const auto* launch = std::get_if<Launch>(&step);
            if (launch == nullptr) continue;
            for (const auto* extents : {&launch->grid, &launch->block}) {
                for (const Expression& extent : *extents) check_kernels(extent);
            }
            for (const Argument& argument : launch->arguments) {
                if (argument.integer) check_kernels(*argument.integer);
            }
        }
    }

    [[noreturn]] void fail_without_steps() const {
        throw Error(
            ErrorCode::parse, end_,
            std::string("expected at least one //@launch or //@call line, found none") +
                (has_spaced_sign_ ? " (directives begin with '//@', without a blank)" : ""));
    }

    /// A prepared workspace keeps its content from call to call, so that nothing else may give it
    /// one.
    void check_prepared_workspaces() const {
        const std::set<std::string> prepared = prepared_workspaces(plan_);
        for (const Workspace& space : plan_.workspaces) {
            if (space.init == Workspace::Init::undef || prepared.count(space.name) == 0) continue;
            throw Error(ErrorCode::parse, space.position,
                        "the workspace '" + space.name +
                            "' is prepared by //@prepare, expected init=undef");
        }
        each_step([&](const Step& step) {
            if (const auto* memset = std::get_if<Memset>(&step)) {
                if (prepared.count(memset->buffer) != 0)
                    fail_prepared(memset->buffer, memset->position);
            }
            const auto* call = std::get_if<Call>(&step);
            if (call == nullptr) return;
            for (const CallArgument& each : call->arguments) {
                if (is_written(*call, each) && prepared.count(each.name) != 0)
                    fail_prepared(each.name, each.position);
            }
        });
    }

    [[noreturn]] static void fail_prepared(const std::string& name,
                                           const SourcePosition& position) {
        throw Error(ErrorCode::parse, position,
                    "the workspace '" + name +
                        "' is prepared by //@prepare, so no step of a call "
                        "may write it");
    }

    /// OCC and CLUSTERS ask about a kernel that the plan launches.
    void check_kernels(const Expression& expression) const {
        for (const auto& [function, name] : expression.queried()) {
            if (function != "OCC" && function != "CLUSTERS") continue;
            const Launch* launch = first_launch(name);
            const std::size_t offset = find_word(expression.text(), function).value_or(0);
            const SourcePosition position =
                position_at(expression.position(), expression.text(), offset);
            if (launch == nullptr) {
                throw Error(ErrorCode::parse, position,
                            function + "(" + name + "): the plan launches no kernel of this name" +
                                known_names(name, launched()));
            }
            if (function == "CLUSTERS" && !launch->cluster && !launch->fixed_cluster) {
                throw Error(
                    ErrorCode::parse, position,
                    "CLUSTERS(" + name + "): the first launch of this kernel has no cluster=");
            }
        }
    }

    /// Steps of a call, of all cases.
    template <class F>
    void each_step(F&& f) const {
        for (const Step& step : plan_.steps) f(step);
        for (const Case& each : plan_.cases) {
            for (const Step& step : each.steps) f(step);
        }
    }

    /// Those of calls first, then those that prepare.
    template <class F>
    void each_launch(F&& f) const {
        const auto look = [&](const Step& step) {
            if (const auto* launch = std::get_if<Launch>(&step)) f(*launch);
        };
        each_step(look);
        for (const Step& step : plan_.prepare) look(step);
    }

    [[nodiscard]] const Launch* first_launch(std::string_view kernel) const {
        const Launch* found = nullptr;
        each_launch([&](const Launch& launch) {
            if (found == nullptr && launch.kernel == kernel) found = &launch;
        });
        return found;
    }

    [[nodiscard]] std::vector<std::string> launched() const {
        std::vector<std::string> names;
        each_launch([&](const Launch& launch) {
            if (std::find(names.begin(), names.end(), launch.kernel) == names.end())
                names.push_back(launch.kernel);
        });
        return names;
    }

    const Definition& definition_;
    const std::vector<std::string>& constant_inputs_;
    Plan plan_;
    Scope scope_;
    SourceText text_;
    KernelList kernels_;
    std::vector<Directive> directives_;
    std::vector<Piece> symbols_;
    std::vector<Piece> tensor_maps_;  ///< what follows the names, as `plan_.tensor_maps`
    SourcePosition end_;
    bool has_version_ = false;
    bool has_spaced_sign_ = false;
};

}  // namespace

Plan parse_plan(std::string_view source, std::string file, const Definition& definition,
                const std::vector<std::string>& constant_inputs) {
    return PlanParser(source, std::move(file), definition, constant_inputs).parse();
}

std::set<std::string> prepared_workspaces(const Plan& plan) {
    std::set<std::string> names;
    const auto add = [&](const std::string& name) {
        const bool known = std::any_of(plan.workspaces.begin(), plan.workspaces.end(),
                                       [&](const Workspace& space) { return space.name == name; });
        if (known) names.insert(name);
    };
    for (const Step& step : plan.prepare) {
        if (const auto* memset = std::get_if<Memset>(&step)) add(memset->buffer);
        const auto* launch = std::get_if<Launch>(&step);
        if (launch == nullptr) continue;
        for (const Argument& argument : launch->arguments) {
            if (argument.kind == Argument::Kind::buffer) add(argument.name);
            if (argument.kind != Argument::Kind::tensor_map) continue;
            for (const TensorMap& map : plan.tensor_maps) {
                if (map.name == argument.name) add(map.buffer);
            }
        }
    }
    return names;
}

bool has_calls(const Plan& plan) {
    const auto calls = [](const std::vector<Step>& steps) {
        return std::any_of(steps.begin(), steps.end(),
                           [](const Step& step) { return std::holds_alternative<Call>(step); });
    };
    return calls(plan.steps) || std::any_of(plan.cases.begin(), plan.cases.end(),
                                            [&](const Case& each) { return calls(each.steps); });
}

std::optional<SourcePosition> first_call(std::string_view source) {
    const SourceText text = read_source(source, "");
    for (const DirectiveText& directive : text.directives) {
        Piece rest{&directive, 0, directive.text.size()};
        if (take_word(rest, "call")) return directive.position;
    }
    return std::nullopt;
}

bool has_plan(std::string_view source) {
    const SourceText text = read_source(source, "");
    return std::any_of(text.directives.begin(), text.directives.end(),
                       [](const DirectiveText& directive) {
                           const Piece whole{&directive, 0, directive.text.size()};
                           const auto starts = [&](std::string_view word) {
                               Piece rest = whole;
                               return take_word(rest, word);
                           };
                           return starts("launch") || starts("call") || starts("kernelforge");
                       });
}

}  // namespace kernelforge::plan
