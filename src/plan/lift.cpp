// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/directive.hpp"
#include "plan/plan.hpp"
#include "plan/source_text.hpp"

// Turns the host launcher that models like to write (`kernel<<<grid, block>>>(…)` in a C++
// function, with raw pointers or torch tensors) into `//@launch` lines. Everything that is not
// understood ends the attempt: a launch that means something else than its author did would be
// worse than none.

namespace kernelforge::plan {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

/// Why a launcher cannot be lifted.
struct Refusal {
    std::string reason;
};

[[noreturn]] void refuse(const std::string& reason) {
    throw Refusal{reason};
}

using Range = std::pair<std::size_t, std::size_t>;  // tokens, the last one excluded

/// Calls that do something which has no plain counterpart in a plan.
constexpr std::string_view refused_calls[] = {
    "cudaMalloc",       "cudaMallocAsync",    "cudaMemcpy",          "cudaMemcpyAsync",
    "cudaLaunchKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
    "cuLaunchKernel"};

template <class List>
bool contains(const List& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

/// Tokens of the text without preprocessor lines, and walking over them.
class Words {
  public:
    Words(std::string_view source, const SourceText& text) : source_(source) {
        for (const Token& token : text.tokens) {
            if (!token.preprocessor) tokens_.push_back(token);
        }
        closes_.assign(tokens_.size(), none);
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const std::string_view word = at(i);
            if (word == "(" || word == "[" || word == "{") open.push_back(i);
            if ((word != ")" && word != "]" && word != "}") || open.empty()) continue;
            closes_[open.back()] = i;
            open.pop_back();
        }
    }

    [[nodiscard]] std::size_t size() const { return tokens_.size(); }
    [[nodiscard]] std::string_view at(std::size_t i) const {
        return i < tokens_.size() ? tokens_[i].text : std::string_view();
    }
    [[nodiscard]] const Token& token(std::size_t i) const { return tokens_[i]; }
    [[nodiscard]] bool is_name(std::size_t i) const {
        return i < tokens_.size() && tokens_[i].kind == Token::Kind::identifier;
    }
    [[nodiscard]] bool is_number(std::size_t i) const {
        return i < tokens_.size() && tokens_[i].kind == Token::Kind::number;
    }

    [[nodiscard]] std::string text(Range range) const {
        range.second = std::min(range.second, tokens_.size());
        if (range.first >= range.second) return {};
        const Token& last = tokens_[range.second - 1];
        return std::string(
            source_.substr(tokens_[range.first].offset,
                           last.offset + last.text.size() - tokens_[range.first].offset));
    }

    /// The closing bracket of the one at `open`, for ( [ {.
    [[nodiscard]] std::size_t close(std::size_t open) const {
        return open < closes_.size() ? closes_[open] : none;
    }

    /// The `>` of a template argument list at `open`.
    [[nodiscard]] std::size_t close_angle(std::size_t open) const {
        int depth = 0;
        for (std::size_t i = open; i < tokens_.size() && i < open + 64; ++i) {
            const std::string_view word = at(i);
            if (word == "<") ++depth;
            if (word == ">" && --depth == 0) return i;
            if (word == ";" || word == "{") break;
        }
        return none;
    }

    /// Three times the same sign without blanks between.
    [[nodiscard]] bool chevron(std::size_t i, std::string_view sign) const {
        return at(i) == sign && at(i + 1) == sign && at(i + 2) == sign &&
               tokens_[i].offset + 2 == tokens_[i + 2].offset;
    }

    /// Parts between commas that are in no brackets.
    [[nodiscard]] std::vector<Range> split(Range range) const {
        std::vector<Range> parts;
        range.second = std::min(range.second, tokens_.size());
        if (range.first >= range.second) return parts;
        int depth = 0;
        std::size_t begin = range.first;
        for (std::size_t i = range.first; i < range.second; ++i) {
            const std::string_view word = at(i);
            // Template arguments after a name that takes them, as in data_ptr<float>() or k<a, b>.
            if (word == "<" && is_name(i - 1)) {
                const std::size_t end = close_angle(i);
                if (end != none && end < range.second && (at(end + 1) == "(" || at(end + 1) == "<"))
                    i = end;
                continue;
            }
            if (word == "(" || word == "[" || word == "{") ++depth;
            if (word == ")" || word == "]" || word == "}") --depth;
            if (word != "," || depth != 0) continue;
            parts.emplace_back(begin, i);
            begin = i + 1;
        }
        parts.emplace_back(begin, range.second);
        return parts;
    }

  private:
    std::string_view source_;
    std::vector<Token> tokens_;
    std::vector<std::size_t> closes_;
};

/// A function definition at namespace level that is no device code.
struct HostFunction {
    std::size_t begin = 0;  ///< first token
    std::size_t body = 0;   ///< its `{`
    std::size_t end = 0;    ///< its `}`
    Range parameters;
    std::string name;
    bool launches = false;
    bool host_only = false;
};

/// Finds host functions, and constants that may be used in launch configurations.
class HostScan {
  public:
    HostScan(const Words& words) : words_(words) {
        std::size_t begin = 0;
        for (std::size_t i = 0; i < words_.size();) {
            const std::string_view word = words_.at(i);
            if (word == ";") {
                constant({begin, i});
                begin = ++i;
            } else if (word == "{") {
                i = block(begin, i);
                begin = i;
            } else if (word == "}") {
                begin = ++i;
            } else if (word == "(" || word == "[") {
                const std::size_t end = words_.close(i);
                i = end == none ? i + 1 : end + 1;
            } else {
                ++i;
            }
        }
        mark_callers();
    }

    std::vector<HostFunction> functions;
    std::map<std::string, Range> constants;  ///< `constexpr int NAME = …;`
    std::vector<Range> removable;            ///< statements that are for the host only

  private:
    [[nodiscard]] bool mentions(Range range, std::string_view word) const {
        for (std::size_t i = range.first; i < range.second; ++i) {
            if (words_.at(i) == word) return true;
        }
        return false;
    }

    void constant(Range statement) {
        const bool is_constant = mentions(statement, "constexpr") || mentions(statement, "const");
        for (std::size_t i = statement.first; i < statement.second && is_constant; ++i) {
            if (words_.at(i) == "=" && words_.is_name(i - 1)) {
                constants.emplace(std::string(words_.at(i - 1)), Range{i + 1, statement.second});
                return;
            }
        }
        if (words_.at(statement.first) != "using" || words_.at(statement.first + 1) != "namespace")
            return;
        const std::string_view space = words_.at(statement.first + 2);
        if (space == "std" || space == "torch" || space == "at")
            removable.emplace_back(statement.first, statement.second + 1);
    }

    /// A `{` at namespace level; returns where to go on.
    std::size_t block(std::size_t begin, std::size_t open) {
        const Range head{begin, open};
        const bool space =
            mentions(head, "namespace") || (words_.at(begin) == "extern" && open == begin + 2);
        if (space) return open + 1;
        const std::size_t end = words_.close(open);
        if (end == none) return open + 1;
        const bool device = mentions(head, "__global__") || mentions(head, "__device__");
        if (!device) function(head, end);
        return end + 1;
    }

    void function(Range head, std::size_t end) {
        HostFunction function;
        for (std::size_t i = head.first; i < head.second; ++i) {
            if (words_.at(i) == "=") return;
            if (words_.at(i) != "(" || !words_.is_name(i - 1) || i == head.first) continue;
            const std::size_t close = words_.close(i);
            if (close == none) return;
            function.name = std::string(words_.at(i - 1));
            function.parameters = {i + 1, close};
            break;
        }
        if (function.name.empty()) return;
        function.begin = head.first;
        function.body = head.second;
        function.end = end;
        for (std::size_t i = head.second; i < end; ++i)
            function.launches = function.launches || words_.chevron(i, "<");
        function.host_only =
            function.launches || function.name == "main" || is_host_code({head.first, end});
        functions.push_back(function);
    }

    [[nodiscard]] bool is_host_code(Range range) const {
        static constexpr std::string_view signs[] = {
            "torch",         "at",     "c10",    "std", "PYBIND11_MODULE",
            "TORCH_LIBRARY", "printf", "malloc", "cout"};
        for (std::size_t i = range.first; i < range.second; ++i) {
            const std::string_view word = words_.at(i);
            if (!words_.is_name(i)) continue;
            if (contains(signs, word)) return true;
            if (word.size() > 4 && word.starts_with("cuda") && word[4] >= 'A' && word[4] <= 'Z')
                return true;
        }
        return false;
    }

    /// What calls a removed function is removed as well.
    void mark_callers() {
        constexpr int most_rounds = 8;  // callers of callers of …
        bool changed = true;
        for (int round = 0; changed && round < most_rounds; ++round) {
            changed = false;
            std::set<std::string_view> removed;
            for (const HostFunction& each : functions) {
                if (each.host_only) removed.insert(each.name);
            }
            for (HostFunction& each : functions) {
                for (std::size_t i = each.body; i < each.end && !each.host_only; ++i) {
                    if (!words_.is_name(i) || removed.count(words_.at(i)) == 0) continue;
                    each.host_only = changed = true;
                }
            }
        }
    }

    const Words& words_;
};

/// What a name in the launcher stands for.
struct Meaning {
    enum class Kind { buffer, axis, scalar, value, extents, unknown };
    Kind kind = Kind::unknown;
    std::string name;  ///< of a buffer, axis or scalar input
    Range value;       ///< initializer of a value
    std::vector<Range> extents;
    std::string why;  ///< of unknown
};

/// Understands one launcher.
class Launcher {
  public:
    Launcher(const Words& words, const HostScan& scan, const HostFunction& function,
             const Definition& definition, const std::map<std::string, std::string>& macros)
        : words_(words),
          scan_(scan),
          function_(function),
          definition_(definition),
          macros_(macros) {}

    /// The plan lines, each without a newline.
    std::vector<std::string> lines() {
        read_parameters();
        name_outputs();
        read_body();
        if (lines_.empty())
            refuse("the launcher '" + function_.name + "' launches nothing that could be read");
        return std::move(lines_);
    }

  private:
    struct HostParameter {
        std::string name;
        bool tensor = false;
        bool pointer = false;
        bool constant = false;
    };

    [[nodiscard]] const TensorSpec* spec(std::string_view name) const {
        for (const auto* list : {&definition_.inputs, &definition_.outputs}) {
            for (const TensorSpec& each : *list) {
                if (each.name == name) return &each;
            }
        }
        return nullptr;
    }
    [[nodiscard]] bool is_output(std::string_view name) const {
        return std::any_of(definition_.outputs.begin(), definition_.outputs.end(),
                           [&](const TensorSpec& each) { return each.name == name; });
    }
    [[nodiscard]] bool is_axis(std::string_view name) const {
        return std::any_of(definition_.axes.begin(), definition_.axes.end(),
                           [&](const Axis& each) { return each.name == name; });
    }

    void read_parameters() {
        std::vector<HostParameter> parameters;
        for (const Range& range : words_.split(function_.parameters)) {
            HostParameter parameter;
            for (std::size_t i = range.first; i < range.second && words_.at(i) != "="; ++i) {
                const std::string_view word = words_.at(i);
                if (word == "*") parameter.pointer = true;
                if (word == "const") parameter.constant = true;
                if (word == "Tensor") parameter.tensor = true;
                if (words_.is_name(i)) parameter.name = std::string(word);
            }
            parameters.push_back(parameter);
        }
        name_buffers(parameters);
        for (const HostParameter& parameter : parameters) {
            if (!parameter.pointer && !parameter.tensor) name_scalar(parameter.name);
        }
    }

    /// By name where all names are known; else by position, when the numbers agree.
    void name_buffers(const std::vector<HostParameter>& parameters) {
        std::vector<const HostParameter*> buffers;
        for (const HostParameter& each : parameters) {
            if (each.pointer || each.tensor) buffers.push_back(&each);
        }
        const auto known = [&](const HostParameter* each) {
            const TensorSpec* found = spec(each->name);
            return found != nullptr && !found->scalar;
        };
        std::vector<std::string> order;
        for (const auto* list : {&definition_.inputs, &definition_.outputs}) {
            for (const TensorSpec& each : *list) {
                if (!each.scalar) order.push_back(each.name);
            }
        }
        const std::size_t inputs = order.size() - definition_.outputs.size();
        const bool by_name = std::all_of(buffers.begin(), buffers.end(), known);
        // A function of tensors may return its outputs; one of pointers has to be given them.
        const bool tensors = std::all_of(buffers.begin(), buffers.end(),
                                         [](const HostParameter* each) { return each->tensor; });
        const bool fits = buffers.size() == order.size() || (tensors && buffers.size() == inputs);
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            const HostParameter& parameter = *buffers[i];
            Meaning meaning;
            meaning.kind = Meaning::Kind::buffer;
            if (by_name || (!fits && known(&parameter))) {
                meaning.name = parameter.name;
            } else if (fits) {
                meaning.name = order[i];
                if (known(&parameter) && parameter.name != order[i]) {
                    refuse("the launcher's parameter '" + parameter.name +
                           "' stands where the definition has '" + order[i] + "'");
                }
            } else {
                meaning.kind = Meaning::Kind::unknown;
                meaning.why = "the launcher has " + std::to_string(buffers.size()) +
                              " buffers, the definition has " + std::to_string(order.size());
            }
            if (parameter.pointer && parameter.constant && is_output(meaning.name)) {
                refuse("the launcher's parameter '" + parameter.name +
                       "' is a pointer to const and stands for the output '" + meaning.name + "'");
            }
            meanings_[parameter.name] = meaning;
        }
    }

    void name_scalar(const std::string& name) {
        Meaning meaning;
        const TensorSpec* input = spec(name);
        if (input != nullptr && input->scalar) {
            meaning.kind = Meaning::Kind::scalar;
            meaning.name = name;
        } else {
            meaning.name = axis_like(name);
            meaning.kind = meaning.name.empty() ? Meaning::Kind::unknown : Meaning::Kind::axis;
            if (meaning.name.empty())
                meaning.why = "no axis or scalar input of the definition has this name";
        }
        meanings_[name] = meaning;
    }

    /// An axis of this name, or the only one that differs in case alone; empty: none.
    [[nodiscard]] std::string axis_like(std::string_view name) const {
        if (is_axis(name)) return std::string(name);
        const auto same = [](char a, char b) {
            const auto lower = [](char c) {
                return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
            };
            return lower(a) == lower(b);
        };
        std::string found;
        for (const Axis& each : definition_.axes) {
            if (!std::equal(each.name.begin(), each.name.end(), name.begin(), name.end(), same))
                continue;
            if (!found.empty()) return {};
            found = each.name;
        }
        return found;
    }

    /// `return y;` and `return {a, b};` name what a torch function returns, in the outputs' order.
    void name_outputs() {
        for (std::size_t i = function_.body; i < function_.end; ++i) {
            if (words_.at(i) != "return") continue;
            std::size_t end = i;
            while (end < function_.end && words_.at(end) != ";") ++end;
            Range range{i + 1, end};
            if (words_.at(i + 1) == "{") range = {i + 2, words_.close(i + 1)};
            const std::vector<Range> parts = words_.split(range);
            i = end;
            if (parts.size() != definition_.outputs.size()) continue;
            for (std::size_t k = 0; k < parts.size(); ++k) {
                const bool one_name =
                    parts[k].second == parts[k].first + 1 && words_.is_name(parts[k].first);
                if (one_name)
                    returned_[std::string(words_.at(parts[k].first))] = definition_.outputs[k].name;
            }
        }
    }

    void read_body() {
        find_changed();
        std::size_t begin = function_.body + 1;
        for (std::size_t i = begin; i < function_.end; ++i) {
            const std::string_view word = words_.at(i);
            if (word == "(" || word == "[") {
                if (const std::size_t close = words_.close(i);
                    close != none && close < function_.end)
                    i = close;
            } else if (word == "{" && words_.is_name(i - 1) && i > begin + 1 &&
                       words_.at(begin) != "if") {
                i = std::min(words_.close(i), function_.end);  // an initializer in braces
            } else if (word == "{" || word == "}") {
                const std::size_t close =
                    word == "{" ? std::min(words_.close(i), function_.end) : i;
                control({begin, close});
                i = close;
                begin = i + 1;
            } else if (word == ";") {
                statement({begin, i});
                begin = i + 1;
            }
        }
    }

    /// Names that are assigned to after their declaration have no one value.
    void find_changed() {
        static constexpr std::string_view operators[] = {"+", "-", "*", "/", "%",
                                                         "|", "&", "^", "<", ">"};
        for (std::size_t i = function_.body + 2; i < function_.end; ++i) {
            if (!words_.is_name(i)) continue;
            const std::string_view before = words_.at(i - 1);
            const bool declared = (words_.is_name(i - 1) && before != "else" && before != "do") ||
                                  before == "*" || before == "&" || before == "," || before == ">";
            const bool assigned = words_.at(i + 1) == "=" && words_.at(i + 2) != "=" && !declared;
            const bool lent = before == "&" && (words_.at(i - 2) == "(" || words_.at(i - 2) == ",");
            const bool updated = contains(operators, words_.at(i + 1)) && words_.at(i + 2) == "=" &&
                                 words_.token(i + 1).offset + 1 == words_.token(i + 2).offset &&
                                 words_.at(i + 1) != "<" && words_.at(i + 1) != ">";
            const bool stepped = (words_.at(i + 1) == "+" && words_.at(i + 2) == "+") ||
                                 (words_.at(i + 1) == "-" && words_.at(i + 2) == "-") ||
                                 (words_.at(i - 1) == "+" && words_.at(i - 2) == "+") ||
                                 (words_.at(i - 1) == "-" && words_.at(i - 2) == "-");
            if (!assigned && !updated && !stepped && !lent) continue;
            changed_.insert(std::string(words_.at(before == "." ? i - 2 : i)));
        }
    }

    /// A branch or loop: harmless when nothing in it is launched.
    void control(Range range) const {
        for (std::size_t i = range.first; i < range.second; ++i) {
            const std::string_view word = words_.at(i);
            if (!words_.chevron(i, "<") && word != "cudaMemset" && word != "cudaMemsetAsync" &&
                !contains(refused_calls, word))
                continue;
            refuse("a kernel is launched or memory is changed in a branch, loop or lambda of '" +
                   function_.name + "'");
        }
    }

    void statement(Range range) {
        if (range.first >= range.second) return;
        const std::string_view first = words_.at(range.first);
        for (std::size_t i = range.first; i < range.second; ++i) {
            if (!words_.chevron(i, "<")) continue;
            if (first == "if" || first == "for" || first == "while" || first == "else" ||
                first == "do")
                control(range);
            launch(range, i);
            return;
        }
        if (first == "return" || first == "if" || first == "else" || first == "for" ||
            first == "while")
            return;

        for (std::size_t i = range.first; i < range.second; ++i) {
            if (contains(refused_calls, words_.at(i)))
                refuse("the launcher '" + function_.name + "' uses " + std::string(words_.at(i)));
            if (words_.at(i) == "cudaMemset" || words_.at(i) == "cudaMemsetAsync") return memset(i);
        }
        declaration(range);
    }

    void memset(std::size_t i) {
        const std::vector<Range> parts = words_.split({i + 2, words_.close(i + 1)});
        if (parts.size() < 3) refuse("cudaMemset could not be read");
        const std::optional<std::string> buffer = as_buffer(parts[0]);
        if (!buffer)
            refuse("cudaMemset of " + quoted(words_.text(parts[0])) +
                   ", which is no buffer of the definition");
        lines_.push_back("//@memset " + *buffer + " " + integer(parts[1], 0));
    }

    void declaration(Range range) {
        // TYPE NAME = VALUE, dim3 NAME(…), dim3 NAME{…}
        std::size_t i = range.first;
        while (words_.at(i) == "const" || words_.at(i) == "constexpr" || words_.at(i) == "static")
            ++i;
        if (words_.at(i) == "dim3") return dim3_declaration({i + 1, range.second});
        for (const Range& part : words_.split(range)) {
            const std::size_t equals = assignment(part);
            if (equals == none || equals == range.first || !words_.is_name(equals - 1)) continue;
            const bool declares = part.first != range.first || equals >= range.first + 2;
            if (declares) remember(std::string(words_.at(equals - 1)), {equals + 1, part.second});
        }
    }

    /// The `=` of a declarator, outside of brackets; no comparison.
    [[nodiscard]] std::size_t assignment(Range range) const {
        for (std::size_t i = range.first; i < range.second; ++i) {
            const std::string_view word = words_.at(i);
            if (word == "(" || word == "[" || word == "{") {
                if (words_.close(i) == none) return none;
                i = words_.close(i);
            } else if (word == "=") {
                return words_.at(i + 1) == "=" ? none : i;
            } else if ((word == "!" || word == "+" || word == "-" || word == "/") &&
                       words_.at(i + 1) == "=") {
                return none;
            }
        }
        return none;
    }

    void dim3_declaration(Range range) {
        if (!words_.is_name(range.first)) return;
        Meaning meaning;
        meaning.kind = Meaning::Kind::extents;
        std::size_t open = range.first + 1;
        if (words_.at(open) == "=") ++open;
        if (words_.at(open) == "dim3") ++open;
        if (words_.at(open) == "(" || words_.at(open) == "{") {
            meaning.extents = words_.split({open + 1, std::min(words_.close(open), range.second)});
        } else {
            meaning.extents = {{open, range.second}};
        }
        meanings_[std::string(words_.at(range.first))] = meaning;
    }

    /// A local with an initializer: another buffer, a new tensor, or a number that is put in later.
    void remember(const std::string& name, Range value) {
        Meaning meaning;
        if (const std::optional<std::string> buffer = as_buffer(value)) {
            meaning.kind = Meaning::Kind::buffer;
            meaning.name = *buffer;
        } else if (makes_tensor(value)) {
            const auto output = returned_.find(name);
            meaning.name = output != returned_.end() ? output->second : name;
            meaning.kind = is_output(meaning.name) ? Meaning::Kind::buffer : Meaning::Kind::unknown;
            meaning.why = "it is a temporary tensor: use //@workspace";
            const std::string maker(words_.text(value));
            const bool zeros = maker.find("zeros") != std::string::npos;
            if (zeros && meaning.kind == Meaning::Kind::buffer)
                lines_.push_back("//@memset " + meaning.name + " 0");
        } else {
            meaning.kind = Meaning::Kind::value;
            meaning.value = value;
        }
        meanings_[name] = meaning;
    }

    [[nodiscard]] bool makes_tensor(Range value) const {
        static constexpr std::string_view makers[] = {"empty", "empty_like", "zeros", "zeros_like"};
        for (std::size_t i = value.first; i < value.second && words_.at(i) != "("; ++i) {
            if (contains(makers, words_.at(i))) return true;
        }
        return false;
    }

    /// The buffer that an expression means: a name, with casts in front and data_ptr or contiguous
    /// behind.
    [[nodiscard]] std::optional<std::string> as_buffer(Range range) const {
        range = without_casts(range);
        if (range.first >= range.second || !words_.is_name(range.first)) return std::nullopt;
        static constexpr std::string_view methods[] = {"data_ptr", "data", "mutable_data_ptr",
                                                       "const_data_ptr", "contiguous"};
        std::size_t i = range.first + 1;
        while (i < range.second) {
            if (words_.at(i) != "." || !contains(methods, words_.at(i + 1))) return std::nullopt;
            i += 2;
            if (words_.at(i) == "<") {
                if (words_.close_angle(i) == none) return std::nullopt;
                i = words_.close_angle(i) + 1;
            }
            if (words_.at(i) != "(" || words_.at(i + 1) != ")") return std::nullopt;
            i += 2;
        }
        const std::string name(words_.at(range.first));
        const auto meaning = meanings_.find(name);
        if (meaning == meanings_.end() || meaning->second.kind != Meaning::Kind::buffer)
            return std::nullopt;
        return meaning->second.name;
    }

    /// Takes off `(T*)`, `reinterpret_cast<T*>( )`, `static_cast<T*>( )` and parentheses around the
    /// whole.
    [[nodiscard]] Range without_casts(Range range) const {
        for (;;) {
            const std::string_view first = words_.at(range.first);
            if (range.first >= range.second) return range;
            if (first == "reinterpret_cast" || first == "static_cast" || first == "const_cast") {
                const std::size_t angle = words_.close_angle(range.first + 1);
                if (angle == none || words_.at(angle + 1) != "(" ||
                    words_.close(angle + 1) + 1 != range.second)
                    return range;
                range = {angle + 2, range.second - 1};
            } else if (first == "(" && words_.close(range.first) + 1 == range.second) {
                range = {range.first + 1, range.second - 1};
            } else if (first == "(") {
                const std::size_t close = words_.close(range.first);
                if (close == none || close >= range.second || words_.at(close - 1) != "*")
                    return range;
                range.first = close + 1;
            } else {
                return range;
            }
        }
    }

    void launch(Range range, std::size_t open) {
        std::size_t close = open + 3;
        while (close < range.second && !words_.chevron(close, ">")) {
            const bool bracket = words_.at(close) == "(" || words_.at(close) == "{";
            close = bracket ? std::min(words_.close(close), range.second) + 1 : close + 1;
        }
        if (close >= range.second || words_.at(close + 3) != "(")
            refuse("a launch in '" + function_.name + "' has no '>>>('");
        const std::size_t end = words_.close(close + 3);
        if (end == none || end > range.second) refuse("the brackets of the launcher do not match");
        const std::string kernel = kernel_name({range.first, open});
        const std::vector<Range> configuration = words_.split({open + 3, close});
        if (configuration.size() < 2) refuse("the launch of '" + kernel + "' has no block");
        std::string line = "//@launch " + kernel + "<<<" + extents(configuration[0]) + ", " +
                           extents(configuration[1]);
        if (configuration.size() > 2) line += ", " + integer(configuration[2], 0);
        line += ">>>(";
        const std::vector<Range> arguments = words_.split({close + 4, end});
        for (std::size_t i = 0; i < arguments.size(); ++i)
            line += (i == 0 ? "" : ", ") + argument(arguments[i]);
        lines_.push_back(line + ")");
    }

    /// A name with template arguments, in which the launcher's constants are put in.
    [[nodiscard]] std::string kernel_name(Range range) const {
        std::string text;
        for (std::size_t i = range.first; i < range.second; ++i) {
            const std::string_view word = words_.at(i);
            if (word == "(" || word == "{")
                refuse("a kernel is launched in a branch, loop or lambda of '" + function_.name +
                       "'");
            const auto meaning = meanings_.find(std::string(word));
            if (word == "scalar_t")
                refuse(
                    "the kernel's template argument 'scalar_t' has no value outside of "
                    "AT_DISPATCH");
            if (i > range.first && meaning != meanings_.end()) {
                text += value_of(std::string(word), 0);
            } else {
                text +=
                    (!text.empty() && is_identifier_part(text.back()) && words_.is_name(i) ? " "
                                                                                           : "") +
                    std::string(word);
            }
        }
        return text;
    }

    [[nodiscard]] std::string extents(Range range) const {
        std::vector<Range> parts = {range};
        if (words_.at(range.first) == "dim3" &&
            (words_.at(range.first + 1) == "(" || words_.at(range.first + 1) == "{")) {
            parts = words_.split({range.first + 2, words_.close(range.first + 1)});
        } else if (range.second == range.first + 1) {
            const auto meaning = meanings_.find(std::string(words_.at(range.first)));
            if (meaning != meanings_.end() && meaning->second.kind == Meaning::Kind::extents) {
                check_unchanged(meaning->first);
                parts = meaning->second.extents;
            }
        }
        std::string text;
        for (const Range& part : parts) text += (text.empty() ? "(" : ", ") + integer(part, 0);
        return text + ")";
    }

    [[nodiscard]] std::string argument(Range range) const {
        if (const std::optional<std::string> buffer = as_buffer(range)) return *buffer;
        const Range bare = without_casts(range);
        if (bare.second == bare.first + 1 && words_.is_name(bare.first)) {
            const auto meaning = meanings_.find(std::string(words_.at(bare.first)));
            if (meaning != meanings_.end() && meaning->second.kind == Meaning::Kind::unknown)
                refuse_name(meaning->first, meaning->second.why);
        }
        return integer(range, 0);
    }

    [[noreturn]] static void refuse_name(const std::string& name, const std::string& why) {
        refuse("cannot tell what '" + name + "' is" + (why.empty() ? "" : ": " + why));
    }

    void check_unchanged(const std::string& name) const {
        if (changed_.count(name) != 0) refuse("'" + name + "' is changed after its declaration");
    }

    /// An arithmetic expression in the plan's words. The names of the launcher are put in.
    [[nodiscard]] std::string integer(Range range, int depth) const {
        if (depth > 16) refuse("the launcher's values nest too deep");
        std::string text;
        for (std::size_t i = range.first; i < range.second;) {
            std::string next;
            const std::size_t after = element(i, range.second, depth, next);
            if (after <= i) refuse("the brackets of the launcher do not match");
            i = after;
            const bool touch = !text.empty() && !next.empty() && is_identifier_part(text.back()) &&
                               is_identifier_part(next.front());
            text += (touch ? " " : "") + next;
            if (text.size() > 4096) refuse("the launcher's values are too long");
        }
        return text;
    }

    /// Translates what begins at token `i` and returns where to go on.
    std::size_t element(std::size_t i, std::size_t end, int depth, std::string& text) const {
        static constexpr std::string_view signs[] = {"+", "-", "*", "/", "%", "(", ")", ",", "?",
                                                     ":", "<", ">", "=", "&", "|", "^", "!", "~"};
        const std::string_view word = words_.at(i);
        if (word == "(") {
            const std::size_t close = words_.close(i);
            if (close < end && is_type({i + 1, close})) return close + 1;  // a cast
        }
        if (contains(signs, word)) {
            text += word;
            return i + 1;
        }
        if (words_.is_number(i)) {
            text += number(word);
            return i + 1;
        }
        if (!words_.is_name(i))
            refuse("cannot read " + quoted(word) + " in the launcher '" + function_.name + "'");
        return name(i, end, depth, text);
    }

    static std::string number(std::string_view word) {
        std::string digits;
        for (const char c : word) {
            if (c != '\'') digits += c;
        }
        return digits;
    }

    [[nodiscard]] bool is_type(Range range) const {
        if (range.first >= range.second) return false;
        return !scalar_type(words_.text(range)).empty();
    }

    std::size_t name(std::size_t i, std::size_t end, int depth, std::string& text) const {
        const std::string word(words_.at(i));
        if (word == "std" && words_.at(i + 1) == "::") return name(i + 2, end, depth, text);
        if (word == "static_cast") {
            const std::size_t angle = words_.close_angle(i + 1);
            if (angle == none || !is_type({i + 2, angle}))
                refuse("cannot read a static_cast in the launcher");
            return angle + 1;
        }
        if (word == "sizeof") return size_of(i, text);
        if (words_.at(i + 1) == ".") return method(i, text);
        if (words_.at(i + 1) == "(" ||
            (words_.at(i + 1) == "<" && (word == "min" || word == "max")))
            return call(i, depth, text);
        text += value_of(word, depth);
        return i + 1;
    }

    std::size_t size_of(std::size_t i, std::string& text) const {
        const std::size_t close = words_.at(i + 1) == "(" ? words_.close(i + 1) : none;
        const std::string type = close == none ? "" : words_.text({i + 2, close});
        const std::size_t bytes = scalar_bytes(scalar_type(type));
        if (bytes == 0) refuse("cannot tell the size of " + quoted(type));
        text += std::to_string(bytes);
        return close + 1;
    }

    std::size_t call(std::size_t i, int depth, std::string& text) const {
        static constexpr std::string_view divisions[] = {
            "cdiv",  "ceil_div", "ceildiv", "ceilDiv", "CEIL_DIV", "div_up",
            "divup", "divUp",    "DIV_UP",  "DIVUP",   "div_ceil"};
        const std::string word(words_.at(i));
        const std::size_t open = words_.at(i + 1) == "<" ? words_.close_angle(i + 1) + 1 : i + 1;
        const std::size_t close = words_.at(open) == "(" ? words_.close(open) : none;
        if (close == none) refuse("cannot read the call of '" + word + "'");
        if (is_type({i, i + 1})) {
            text += "(" + integer({open + 1, close}, depth + 1) + ")";
            return close + 1;
        }
        std::string function = word;
        if (contains(divisions, word)) function = "cdiv";
        if (word == "sqrtf") function = "sqrt";
        if (word == "rsqrtf") function = "rsqrt";
        static constexpr std::string_view known[] = {"cdiv", "min", "max", "sqrt", "rsqrt"};
        if (!contains(known, function))
            refuse("the launcher '" + function_.name + "' calls '" + word + "'");
        text += function + "(" + integer({open + 1, close}, depth + 1) + ")";
        return close + 1;
    }

    /// `x.size(0)`, `x.numel()`, `x.stride(0)`, `x.sizes()[0]`
    std::size_t method(std::size_t i, std::string& text) const {
        const std::string name(words_.at(i));
        const std::string method(words_.at(i + 2));
        const auto meaning = meanings_.find(name);
        if (meaning == meanings_.end() || meaning->second.kind != Meaning::Kind::buffer)
            refuse_name(name, "it is no tensor of the definition");
        const TensorSpec* tensor = spec(meaning->second.name);
        const std::size_t close = words_.close(i + 3);
        if (words_.at(i + 3) != "(" || close == none)
            refuse("cannot read '" + name + "." + method + "'");
        if (method == "numel" && close == i + 4) {
            text += "numel(" + tensor->name + ")";
            return close + 1;
        }
        if (method == "sizes" && close == i + 4 && words_.at(close + 1) == "[") {
            const std::size_t bracket = words_.close(close + 1);
            text += tensor->shape[axis_index({close + 2, bracket}, *tensor)];
            return bracket + 1;
        }
        if (method != "size" && method != "stride")
            refuse("cannot read '" + name + "." + method + "'");
        const std::size_t axis = axis_index({i + 4, close}, *tensor);
        text += method == "size" ? tensor->shape[axis]
                                 : "stride(" + tensor->name + ", " + std::to_string(axis) + ")";
        return close + 1;
    }

    [[nodiscard]] std::size_t axis_index(Range range, const TensorSpec& tensor) const {
        const std::string text = words_.text(range);
        for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
            if (text == std::to_string(i) || text == "-" + std::to_string(tensor.shape.size() - i))
                return i;
        }
        refuse("'" + tensor.name + "' has no axis " + quoted(text));
    }

    [[nodiscard]] std::string value_of(const std::string& word, int depth) const {
        const auto meaning = meanings_.find(word);
        if (meaning == meanings_.end()) return global_value(word, depth);
        check_unchanged(word);
        const Meaning& found = meaning->second;
        if (found.kind == Meaning::Kind::axis || found.kind == Meaning::Kind::scalar)
            return found.name;
        if (found.kind == Meaning::Kind::value) return "(" + integer(found.value, depth + 1) + ")";
        refuse_name(word, found.kind == Meaning::Kind::unknown ? found.why : "it is no number");
    }

    [[nodiscard]] std::string global_value(const std::string& word, int depth) const {
        const auto constant = scan_.constants.find(word);
        if (constant != scan_.constants.end())
            return "(" + integer(constant->second, depth + 1) + ")";
        const auto macro = macros_.find(word);
        if (macro != macros_.end()) return "(" + macro->second + ")";
        if (is_axis(word)) return word;
        refuse_name(word, "");
    }

    const Words& words_;
    const HostScan& scan_;
    const HostFunction& function_;
    const Definition& definition_;
    const std::map<std::string, std::string>& macros_;
    std::map<std::string, Meaning> meanings_;
    std::map<std::string, std::string> returned_;
    std::set<std::string> changed_;
    std::vector<std::string> lines_;
};

/// `#define NAME (4 * 64)`: macros of numbers, signs and parentheses.
std::map<std::string, std::string> number_macros(const SourceText& text) {
    std::map<std::string, std::string> macros;
    const auto& tokens = text.tokens;
    for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
        if (!tokens[i].preprocessor || tokens[i].text != "define") continue;
        std::string value;
        bool plain = true;
        for (std::size_t k = i + 2;
             k < tokens.size() && tokens[k].preprocessor && tokens[k].text != "#" && plain; ++k) {
            plain = value.size() < 64 &&
                    (tokens[k].kind == Token::Kind::number ||
                     std::string_view("()+-*/").find(tokens[k].text) != std::string_view::npos);
            value += tokens[k].text;
        }
        if (plain && !value.empty()) macros[std::string(tokens[i + 1].text)] = value;
    }
    return macros;
}

/// C divides integers where the plan's floating-point expressions divide numbers.
void refuse_integer_division(const Plan& plan) {
    for (const Step& step : plan.steps) {
        const auto* launch = std::get_if<Launch>(&step);
        if (launch == nullptr) continue;
        for (const Argument& argument : launch->arguments) {
            if (!argument.floating || argument.floating->text().find('/') == std::string::npos)
                continue;
            const std::string& value = argument.floating->text();
            if (value.find('.') != std::string::npos || value.find("sqrt") != std::string::npos)
                continue;
            refuse("cannot tell whether " + quoted(value) + " divides integers");
        }
    }
}

/// Overwrites text with blanks; lines stay where they are.
void blank(std::string& text, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && i < text.size(); ++i) {
        if (text[i] != '\n' && text[i] != '\r') text[i] = ' ';
    }
}

bool is_host_include(std::string_view line) {
    static constexpr std::string_view folders[] = {"torch/", "ATen/", "c10/", "pybind11/"};
    static constexpr std::string_view headers[] = {"iostream",
                                                   "vector",
                                                   "string",
                                                   "cstdio",
                                                   "cstdlib",
                                                   "stdio.h",
                                                   "stdlib.h",
                                                   "memory",
                                                   "stdexcept",
                                                   "chrono",
                                                   "functional",
                                                   "map",
                                                   "algorithm",
                                                   "random",
                                                   "iomanip",
                                                   "fstream",
                                                   "Python.h",
                                                   "cuda_runtime.h",
                                                   "cuda_runtime_api.h",
                                                   "cuda.h",
                                                   "device_launch_parameters.h"};
    const std::size_t open = line.find_first_of("<\"");
    if (open == std::string_view::npos) return false;
    const std::size_t close = line.find_first_of(">\"", open + 1);
    if (close == std::string_view::npos) return false;
    const std::string_view name = line.substr(open + 1, close - open - 1);
    return contains(headers, name) ||
           std::any_of(std::begin(folders), std::end(folders),
                       [&](std::string_view each) { return name.starts_with(each); });
}

void blank_host_includes(std::string& text, const SourceText& read) {
    for (std::size_t i = 0; i + 1 < read.tokens.size(); ++i) {
        if (!read.tokens[i].preprocessor || read.tokens[i].text != "#" ||
            read.tokens[i + 1].text != "include")
            continue;
        const std::size_t begin = read.tokens[i].offset;
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        if (is_host_include(std::string_view(text).substr(begin, end - begin)))
            blank(text, begin, end);
    }
}

std::string lift(std::string_view source, const Definition& definition) {
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    if (source.size() > most_bytes)
        refuse("the text is longer than " + std::to_string(most_bytes) + " bytes");
    const SourceText text = read_source(source, "");
    for (const DirectiveText& directive : text.directives) {
        Piece rest{&directive, 0, directive.text.size()};
        if (take_word(rest, "launch")) refuse("the text has //@launch lines already");
    }
    const Words words(source, text);
    const HostScan scan(words);
    const HostFunction* launcher = nullptr;
    for (const HostFunction& each : scan.functions) {
        if (!each.launches) continue;
        if (words.at(each.begin) == "template")
            refuse("the launcher '" + each.name + "' is a template");
        if (launcher != nullptr)
            refuse("several host functions launch kernels: '" + launcher->name + "' and '" +
                   each.name + "'");
        launcher = &each;
    }
    if (launcher == nullptr) refuse("there is no host function with kernel<<<…>>>(…)");
    const std::map<std::string, std::string> macros = number_macros(text);
    const std::vector<std::string> lines =
        Launcher(words, scan, *launcher, definition, macros).lines();
    std::string result(source);
    for (const HostFunction& each : scan.functions) {
        if (each.host_only)
            blank(result, words.token(each.begin).offset, words.token(each.end).offset + 1);
    }
    for (const Range& each : scan.removable)
        blank(result, words.token(each.first).offset, words.token(each.second - 1).offset + 1);
    blank_host_includes(result, text);
    if (!result.ends_with('\n')) result += '\n';
    for (const std::string& line : lines) {
        for (const char c : line) result += c == '\n' || c == '\r' ? ' ' : c;
        result += '\n';
    }
    return result;
}

}  // namespace

std::optional<std::string> lift_host_launcher(std::string_view source, const Definition& definition,
                                              std::string& why_not) {
    try {
        std::string lifted = lift(source, definition);
        // What the lines say is checked like lines that were written.
        refuse_integer_division(parse_plan(lifted, "lifted", definition));
        return lifted;
    } catch (const Refusal& refusal) {
        why_not = refusal.reason;
    } catch (const Error& error) {
        why_not = error.what();
    }
    return std::nullopt;
}

}  // namespace kernelforge::plan
