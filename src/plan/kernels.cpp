// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "plan/source_text.hpp"

// Reads the `__global__` functions of a source.

namespace kernelforge::plan {
namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

bool is_parameter_qualifier(std::string_view word) {
    static constexpr std::string_view words[] = {"const",      "volatile", "__restrict__",
                                                 "__restrict", "restrict", "__grid_constant__",
                                                 "struct",     "register", "typename"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Words that may stand before a kernel's name.
bool is_specifier(std::string_view word) {
    static constexpr std::string_view words[] = {
        "void",         "static",   "inline",     "__inline__", "__forceinline__",
        "__noinline__", "extern",   "__device__", "__host__",   "__global__",
        "auto",         "constexpr"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

class KernelReader {
  public:
    KernelReader(const SourceText& text, std::string_view source, const std::string& file)
        : source_(source), file_(file) {
        for (const Token& token : text.tokens) {
            if (!token.preprocessor) tokens_.push_back(token);
        }
        read_preprocessor(text.tokens);
        for (std::size_t i = 0; i < source.size(); ++i) {
            if (source[i] == '\n') line_starts_.push_back(i + 1);
        }
    }

    KernelList read() {
        read_aliases();
        for (std::size_t i = 0; i < tokens_.size();) i = step(i);
        merge_repeated();
        return std::move(list_);
    }

  private:
    [[nodiscard]] std::string_view word(std::size_t i) const {
        return i < tokens_.size() ? tokens_[i].text : std::string_view();
    }
    [[nodiscard]] bool is_word(std::size_t i) const {
        return i < tokens_.size() && tokens_[i].kind == Token::Kind::identifier;
    }

    [[nodiscard]] SourcePosition position(std::size_t i) const {
        const std::size_t offset = i < tokens_.size() ? tokens_[i].offset : source_.size();
        const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
        return {file_, static_cast<std::size_t>(line - line_starts_.begin()),
                offset - *(line - 1) + 1};
    }

    /// The text between two tokens, `last` excluded, as it stands in the source.
    [[nodiscard]] std::string_view text_between(std::size_t first, std::size_t last) const {
        if (first >= last || first >= tokens_.size()) return {};
        const Token& end = tokens_[last - 1];
        return source_.substr(tokens_[first].offset,
                              end.offset + end.text.size() - tokens_[first].offset);
    }

    /// Macros: object-like ones that stand for other words, and whether one makes kernels.
    void read_preprocessor(const std::vector<Token>& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (!tokens[i].preprocessor) continue;
            if (tokens[i].text == "__global__") list_.complete = false;
            if (i == 0 || i + 1 >= tokens.size() || tokens[i - 1].text != "#") continue;
            if (tokens[i].text == "define") macros_.insert(std::string(tokens[i + 1].text));
            if (tokens[i].text == "undef") list_.undefined.emplace_back(tokens[i + 1].text);
        }
    }

    /// `using NAME = WORDS;` and `typedef WORDS NAME;` of scalar types.
    void read_aliases() {
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const bool is_using = word(i) == "using" && is_word(i + 1) && word(i + 2) == "=";
            if (!is_using && word(i) != "typedef") continue;
            std::size_t end = i;
            while (end < tokens_.size() && end < i + 12 && word(end) != ";") ++end;
            if (word(end) != ";" || end < i + 3) continue;
            const std::string name(word(is_using ? i + 1 : end - 1));
            const std::string type = is_using ? joined(i + 3, end) : joined(i + 1, end - 1);
            const std::string resolved = resolve_scalar(type);
            const auto [known, is_new] = aliases_.emplace(name, resolved);
            if (!is_new && known->second != resolved) known->second.clear();
        }
    }

    [[nodiscard]] std::string joined(std::size_t first, std::size_t last) const {
        std::string text;
        for (std::size_t i = first; i < last; ++i) {
            if (word(i) == "const") continue;
            const bool tight = text.empty() || word(i) == "::" || text.ends_with("::");
            if (!tight) text += ' ';
            text += word(i);
        }
        return text;
    }

    [[nodiscard]] std::string resolve_scalar(const std::string& type) const {
        const auto alias = aliases_.find(type);
        if (alias != aliases_.end()) return alias->second;
        if (macros_.count(type) != 0) return {};
        return scalar_type(type);
    }

    /// One declaration-level token; returns where to go on.
    std::size_t step(std::size_t i) {
        const std::string_view text = word(i);
        if (text == "namespace") return enter_namespace(i);
        if (text == "extern" && i + 2 < tokens_.size() &&
            tokens_[i + 1].kind == Token::Kind::literal && word(i + 2) == "{") {
            scopes_.emplace_back();
            return i + 3;
        }
        if (text == "template") return read_template(i);
        if (text == "__global__") return read_kernel(i);
        if (text == "{") scopes_.emplace_back();
        if (text == "}" && !scopes_.empty()) scopes_.pop_back();
        if (text == "{" || text == "}" || text == ";") has_template_ = false;
        return i + 1;
    }

    std::size_t enter_namespace(std::size_t i) {
        std::string name;
        std::size_t next = i + 1;
        while (is_word(next) || word(next) == "::") name += word(next++);
        if (word(next) != "{") return next;
        scopes_.push_back(name);
        return next + 1;
    }

    /// `template <…>`: remembers the names of the parameters.
    std::size_t read_template(std::size_t i) {
        if (word(i + 1) != "<") return i + 1;
        const std::size_t end = matching(i + 1, "<", ">");
        if (end == none) return i + 2;
        has_template_ = true;
        template_parameters_.clear();
        int depth = 0;
        std::size_t last_word = none;
        bool in_default = false;
        for (std::size_t k = i + 2; k <= end; ++k) {
            const std::string_view text = word(k);
            if (text == "(" || text == "<" || text == "{") ++depth;
            const bool ends = k == end || (depth == 0 && text == ",");
            if (ends) {
                if (last_word != none) template_parameters_.emplace_back(word(last_word));
                last_word = none;
                in_default = false;
            }
            if (text == ")" || text == ">" || text == "}") --depth;
            if (text == "=" && depth == 0) in_default = true;
            if (is_word(k) && depth == 0 && !in_default) last_word = k;
        }
        return end + 1;
    }

    /// The token that closes the bracket at `open`; `none` when there is none near.
    [[nodiscard]] std::size_t matching(std::size_t open, std::string_view opening,
                                       std::string_view closing) const {
        constexpr std::size_t longest = 1000;
        int depth = 0;
        int parentheses = 0;
        for (std::size_t i = open; i < tokens_.size() && i < open + longest; ++i) {
            const std::string_view text = word(i);
            if (opening == "<") {
                if (text == "(") ++parentheses;
                if (text == ")") --parentheses;
                if (text == ";" || parentheses < 0) return none;
                if (parentheses > 0) continue;
            }
            if (text == opening) ++depth;
            if (text == closing && --depth == 0) return i;
        }
        return none;
    }

    /// From `__global__` to the end of the parameter list.
    std::size_t read_kernel(std::size_t start) {
        constexpr std::size_t longest_head = 200;
        Kernel kernel;
        for (std::size_t i = start + 1; i < tokens_.size() && i < start + longest_head;) {
            const std::string_view text = word(i);
            if (text == ";" || text == "{" || text == "}") return i;
            if (word(i + 1) == "<" && is_word(i)) {
                const std::size_t end = matching(i + 1, "<", ">");
                if (end == none || word(end + 1) != "(") return i + 1;
                // An explicit specialisation or instantiation: the template itself was read.
                const std::size_t close = matching(end + 1, "(", ")");
                return close == none ? end + 1 : close + 1;
            }
            if (word(i + 1) != "(" || !is_word(i) || is_specifier(text)) {
                ++i;
                continue;
            }
            const std::size_t close = matching(i + 1, "(", ")");
            if (close == none) break;
            if (text == "__cluster_dims__") kernel.cluster_dims = parts(i + 2, close);
            if (word(close + 1) != "{" && word(close + 1) != ";") {
                i = close + 1;
                continue;
            }
            kernel.name = std::string(text);
            kernel.position = position(i);
            add_kernel(std::move(kernel), i + 2, close);
            return close + 1;
        }
        list_.complete = false;
        return start + 1;
    }

    /// Texts between the top-level commas of tokens `first` to `last`.
    [[nodiscard]] std::vector<DirectiveText> parts(std::size_t first, std::size_t last) const {
        std::vector<DirectiveText> result;
        for (const auto& [begin, end] : split(first, last)) {
            result.push_back({std::string(text_between(begin, end)), position(begin)});
        }
        return result;
    }

    [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> split(std::size_t first,
                                                                         std::size_t last) const {
        std::vector<std::pair<std::size_t, std::size_t>> result;
        int depth = 0;
        std::size_t begin = first;
        for (std::size_t i = first; i < last; ++i) {
            const std::string_view text = word(i);
            if (text == "(" || text == "<" || text == "[" || text == "{") ++depth;
            if (text == ")" || text == ">" || text == "]" || text == "}") --depth;
            if (text != "," || depth != 0) continue;
            result.emplace_back(begin, i);
            begin = i + 1;
        }
        if (begin < last || !result.empty()) result.emplace_back(begin, last);
        return result;
    }

    void add_kernel(Kernel kernel, std::size_t first, std::size_t last) {
        for (const std::string& scope : scopes_) {
            if (!scope.empty()) kernel.qualified_name += scope + "::";
        }
        kernel.qualified_name += kernel.name;
        kernel.is_template = std::exchange(has_template_, false);
        if (kernel.is_template) kernel.template_parameters = template_parameters_;
        const bool is_void = last == first + 1 && word(first) == "void";
        if (!is_void) {
            for (const auto& [begin, end] : split(first, last)) {
                kernel.parameters.push_back(read_parameter(begin, end, kernel));
            }
        }
        list_.kernels.push_back(std::move(kernel));
    }

    Parameter read_parameter(std::size_t begin, std::size_t end, Kernel& kernel) {
        Parameter parameter;
        parameter.position = position(begin);
        std::size_t words = 0;
        std::size_t last_word = none;
        bool plain = true;  // words and `*` only, so that the type is known
        for (std::size_t i = begin; i < end; ++i) {
            const std::string_view text = word(i);
            if (text == "=") {
                end = i;
                break;
            }
            if (text == "*" || text == "[") parameter.pointer = true;
            if (text == "const" && !parameter.pointer) parameter.constant = true;
            if (text == ".") kernel.readable = false;  // a parameter pack
            if (text == "<" || text == "(" || text == "&") plain = false;
            if (!is_word(i) || is_parameter_qualifier(text)) continue;
            last_word = i;
            ++words;
        }
        // A single word is a type without a name, or a macro that may stand for anything.
        if (words < 2 && !parameter.pointer) {
            if (words == 0 || macros_.count(std::string(word(last_word))) != 0)
                kernel.readable = false;
        }
        const bool named = last_word != none && words > 1;
        describe(parameter, begin, end, named && name_is_last(last_word, end) ? last_word : none,
                 plain);
        return parameter;
    }

    /// Whether nothing but array brackets follows the word, so that it is a name.
    [[nodiscard]] bool name_is_last(std::size_t i, std::size_t end) const {
        if (i + 1 < end && word(i + 1) != "[") return false;
        return scalar_type(word(i)).empty() && !is_specifier(word(i));
    }

    void describe(Parameter& parameter, std::size_t begin, std::size_t end, std::size_t name,
                  bool plain) const {
        std::string type;
        std::string value;
        for (std::size_t i = begin; i < end; ++i) {
            const std::string_view text = word(i);
            if (i == name) continue;
            if (text == "[") break;
            if (text == "__restrict__" || text == "__restrict" || text == "restrict") continue;
            const bool tight = type.empty() || text == "*" || text == "::" || text == "&" ||
                               text == "<" || text == ">" || text == "," || type.ends_with("::") ||
                               type.ends_with("<");
            type += (tight ? "" : " ") + std::string(text);
            if (text == "*" || is_parameter_qualifier(text)) continue;
            value += (value.empty() || text == "::" || value.ends_with("::") ? "" : " ") +
                     std::string(text);
        }
        parameter.type = type;
        if (name != none) parameter.name = std::string(word(name));
        if (plain) parameter.scalar = resolve_scalar(value);
        if (parameter.pointer && std::count(type.begin(), type.end(), '*') > 1)
            parameter.scalar.clear();
        if (!parameter.pointer) parameter.constant = false;
    }

    /// A declaration and its definition are one kernel; ones that differ cannot be told apart.
    void merge_repeated() {
        std::vector<Kernel> merged;
        std::map<std::string, std::size_t> known;
        for (Kernel& kernel : list_.kernels) {
            const auto [place, is_new] = known.emplace(kernel.qualified_name, merged.size());
            if (is_new) {
                merged.push_back(std::move(kernel));
                continue;
            }
            Kernel& first = merged[place->second];
            const bool same =
                std::equal(first.parameters.begin(), first.parameters.end(),
                           kernel.parameters.begin(), kernel.parameters.end(),
                           [](const Parameter& a, const Parameter& b) { return a.type == b.type; });
            if (!same || first.is_template != kernel.is_template) first.readable = false;
            if (first.cluster_dims.empty()) first.cluster_dims = kernel.cluster_dims;
        }
        list_.kernels = std::move(merged);
    }

    std::string_view source_;
    const std::string& file_;
    std::vector<Token> tokens_;
    std::vector<std::size_t> line_starts_ = {0};
    std::set<std::string> macros_;
    std::map<std::string, std::string> aliases_;
    std::vector<std::string> scopes_;
    bool has_template_ = false;
    std::vector<std::string> template_parameters_;
    KernelList list_;
};

}  // namespace

const Kernel* KernelList::find(std::string_view name) const {
    if (name.starts_with("::")) name.remove_prefix(2);
    const Kernel* found = nullptr;
    for (const Kernel& kernel : kernels) {
        if (kernel.qualified_name == name) return &kernel;
        if (kernel.name != name) continue;
        if (found != nullptr) return nullptr;
        found = &kernel;
    }
    return found;
}

std::vector<std::string> KernelList::names() const {
    std::vector<std::string> result;
    for (const Kernel& kernel : kernels) result.push_back(kernel.qualified_name);
    return result;
}

KernelList read_kernels(const SourceText& text, std::string_view source, const std::string& file) {
    return KernelReader(text, source, file).read();
}

}  // namespace kernelforge::plan
