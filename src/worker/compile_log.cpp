// SPDX-License-Identifier: Apache-2.0
#include "worker/compile_log.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace kernelforge::compile {
namespace {

using Severity = CompileDiagnostic::Severity;
constexpr std::size_t max_diagnostics = 200;
constexpr std::size_t max_message_bytes = 2000;

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.push_back(text.substr(0, end));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    return lines;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::optional<std::size_t> number(std::string_view text) {
    std::size_t value = 0;
    const auto [end, cause] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (cause != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string clean(std::string_view text) {
    std::string result;
    for (const char c : text.substr(0, max_message_bytes)) {
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result;
}

struct Head {
    Severity severity = Severity::error;
    std::string file;
    std::size_t line = 0;
    std::string message;
};

std::optional<Severity> severity_of(std::string_view word) {
    if (word.find("error") != std::string_view::npos) return Severity::error;
    if (word.starts_with("warning")) return Severity::warning;
    if (word.starts_with("remark") || word.starts_with("note")) return Severity::note;
    return std::nullopt;
}

/// `NAME(LINE): error: text`, `NAME(LINE): warning #177-D: text`, `NAME(LINE): catastrophic error:
/// …`
std::optional<Head> front_end_head(std::string_view line) {
    const std::size_t close = line.find("): ");
    if (close == std::string_view::npos || line.starts_with(" ")) return std::nullopt;
    const std::size_t open = line.rfind('(', close);
    if (open == std::string_view::npos || open == 0) return std::nullopt;
    const auto line_number = number(line.substr(open + 1, close - open - 1));
    std::string_view rest = line.substr(close + 3);
    const std::size_t colon = rest.find(": ");
    if (!line_number || colon == std::string_view::npos) return std::nullopt;
    const auto severity = severity_of(rest.substr(0, colon));
    if (!severity || colon > 40) return std::nullopt;
    return Head{*severity, std::string(line.substr(0, open)), *line_number,
                clean(rest.substr(colon + 2))};
}

/// Without a place: `error: text`, `Catastrophic error: text`, `nvrtc: error: text`.
std::optional<Head> bare_head(std::string_view line) {
    for (const std::string_view start : {"error: ", "Catastrophic error: ", "catastrophic error: ",
                                         "nvrtc: error: ", "internal error: "}) {
        if (line.starts_with(start)) {
            return Head{Severity::error, {}, 0, clean(line.substr(start.size()))};
        }
    }
    return std::nullopt;
}

struct AssemblerHead {
    Severity severity = Severity::error;
    std::size_t ptx_line = 0;  ///< 0: none
    std::string message;
    bool follow_up = false;  ///< says only that there were errors
};

/// `ptxas application ptx input, line 31; error   : text`, `ptxas fatal   : text`, `ptxas warning :
/// …`
std::optional<AssemblerHead> assembler_head(std::string_view line) {
    if (!line.starts_with("ptxas ")) return std::nullopt;
    AssemblerHead head;
    line.remove_prefix(6);
    const std::size_t semicolon = line.find("; ");
    const std::size_t at = line.find(", line ");
    if (at != std::string_view::npos && semicolon != std::string_view::npos && at < semicolon) {
        head.ptx_line = number(line.substr(at + 7, semicolon - at - 7)).value_or(0);
        line.remove_prefix(semicolon + 2);
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view kind = trimmed(line.substr(0, colon));
    if (kind == "warning") {
        head.severity = Severity::warning;
    } else if (kind != "error" && kind != "fatal") {
        return std::nullopt;
    }
    head.message = "ptxas: " + clean(trimmed(line.substr(colon + 1)));
    head.follow_up = head.message.find("aborted due to errors") != std::string::npos;
    return head;
}

/// Where PTX lines come from, by `.loc` and `.file`.
class PtxPlaces {
  public:
    PtxPlaces(std::string_view ptx, std::string file)
        : lines_(lines_of(ptx)), file_(std::move(file)) {
        for (const std::string_view line : lines_) {
            const std::string_view text = trimmed(line);
            if (!text.starts_with(".file")) continue;
            const std::size_t open = text.find('"');
            const std::size_t close = text.rfind('"');
            if (open == std::string_view::npos || close <= open) continue;
            const auto index = number(trimmed(text.substr(5, open - 5)));
            const std::string_view name = text.substr(open + 1, close - open - 1);
            const bool ours = name == file_ || name.ends_with("/" + file_);
            if (index) files_[*index] = ours ? file_ : std::string(name);
        }
    }

    /// The nearest `.loc` at or before a line, within its function.
    [[nodiscard]] SourcePosition before(std::size_t line) const {
        for (std::size_t i = std::min(line, lines_.size()); i > 0; --i) {
            const std::string_view text = trimmed(lines_[i - 1]);
            if (text.starts_with(".loc")) return place(text);
            if (text == "}" || text.find(".entry") != std::string_view::npos) break;
        }
        return {file_, 0, 0};
    }

    /// The first `.loc` of a function.
    [[nodiscard]] SourcePosition of_function(std::string_view name) const {
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const std::size_t at = lines_[i].find(name);
            const bool head =
                at != std::string_view::npos &&
                (lines_[i].find(".entry ") != std::string_view::npos ||
                 lines_[i].find(".func ") != std::string_view::npos) &&
                (at + name.size() == lines_[i].size() || lines_[i][at + name.size()] == '(');
            if (!head) continue;
            for (std::size_t k = i; k < lines_.size() && trimmed(lines_[k]) != "}"; ++k) {
                if (trimmed(lines_[k]).starts_with(".loc")) return place(trimmed(lines_[k]));
            }
        }
        return {file_, 0, 0};
    }

    /// The first use of a name outside declarations.
    [[nodiscard]] SourcePosition of_use(std::string_view name) const {
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            const std::string_view text = trimmed(lines_[i]);
            if (text.starts_with(".") || text.starts_with("//")) continue;
            if (text.find(name) == std::string_view::npos) continue;
            const SourcePosition found = before(i + 1);
            if (found.line != 0) return found;
        }
        return {file_, 0, 0};
    }

  private:
    /// `.loc FILE LINE COLUMN[, function_name …, inlined_at FILE LINE COLUMN]`; where the code
    /// comes from a header, the place in the candidate that it was inlined at says more.
    [[nodiscard]] SourcePosition place(std::string_view loc) const {
        const SourcePosition direct = triple(loc.substr(4));
        if (direct.file == file_) return direct;
        const std::size_t inlined = loc.find("inlined_at");
        if (inlined == std::string_view::npos) return direct;
        const SourcePosition outer = triple(loc.substr(inlined + 10));
        return outer.file == file_ ? outer : direct;
    }

    [[nodiscard]] SourcePosition triple(std::string_view text) const {
        std::array<std::size_t, 3> values{};
        for (std::size_t& value : values) {
            text = trimmed(text);
            const std::size_t length = text.find_first_not_of("0123456789");
            value = number(text.substr(0, length)).value_or(0);
            text.remove_prefix(std::min(length, text.size()));
        }
        const auto file = files_.find(values[0]);
        return {file == files_.end() ? file_ : file->second, values[1], values[2]};
    }

    std::vector<std::string_view> lines_;
    std::string file_;
    std::map<std::size_t, std::string> files_;
};

SourcePosition place_of_assembler_message(const AssemblerHead& head, const PtxPlaces& places) {
    if (head.ptx_line != 0) return places.before(head.ptx_line);
    const std::size_t open = head.message.find('\'');
    const std::size_t close = head.message.find('\'', open == std::string::npos ? open : open + 1);
    if (open == std::string::npos || close == std::string::npos) return places.of_function("");
    const std::string name = head.message.substr(open + 1, close - open - 1);
    const SourcePosition function = places.of_function(name);
    return function.line != 0 ? function : places.of_use(name);
}

/// The lines that belong to a front-end message: more text, then the source line and a caret.
struct Tail {
    std::string more;
    std::size_t column = 0;
};

Tail read_tail(const std::vector<std::string_view>& lines, std::size_t begin, std::size_t end,
               std::string_view source_line) {
    Tail tail;
    std::size_t caret = end;
    for (std::size_t i = begin; i < end; ++i) {
        if (trimmed(lines[i]) == "^") caret = i;
    }
    for (std::size_t i = begin; i < end; ++i) {
        const bool shown_source = caret != end && (i == caret || i + 1 == caret);
        if (shown_source || tail.more.size() > max_message_bytes) continue;
        tail.more += " " + clean(trimmed(lines[i]));
    }
    // The compiler shows the source line with two spaces in front. Where it cut or changed the
    // line, the caret says nothing.
    if (caret == end || caret == begin) return tail;
    const std::string_view shown = lines[caret - 1];
    const bool same = shown.size() >= 2 && trimmed(shown) != "" &&
                      trimmed(source_line).starts_with(trimmed(shown.substr(2)));
    const std::size_t at = lines[caret].find('^');
    if (same && at >= 2) tail.column = at - 1;
    return tail;
}

}  // namespace

std::string capped_log(std::string log) {
    while (!log.empty() && log.back() == '\n') log.pop_back();
    if (!log.empty()) log += '\n';
    if (log.size() <= max_log_bytes) return log;
    constexpr std::size_t tail = max_log_bytes / 4;
    constexpr std::size_t head = max_log_bytes - tail - 100;
    const std::string note =
        "\n... " + std::to_string(log.size() - head - tail) + " bytes left out ...\n";
    return log.substr(0, head) + note + log.substr(log.size() - tail);
}

std::string mapped_log(std::string_view log, const ScannedSource& scanned,
                       const AssembledSource& assembled) {
    std::string result;
    result.reserve(log.size());
    while (true) {
        const std::size_t at = log.find(prefix_name);
        result += log.substr(0, at);
        if (at == std::string_view::npos) return result;
        log.remove_prefix(at + prefix_name.size());
        result += scanned.file;
        if (!log.starts_with("(")) continue;
        const std::size_t close = log.find(')');
        const auto line =
            close == std::string_view::npos ? std::nullopt : number(log.substr(1, close - 1));
        if (!line || *line == 0 || *line > assembled.prefix_lines.size()) continue;
        result += "(" + std::to_string(assembled.prefix_lines[*line - 1]) + ")";
        log.remove_prefix(close + 1);
    }
}

std::vector<CompileDiagnostic> read_diagnostics(std::string_view log, std::string_view source,
                                                const std::string& file, std::string_view ptx) {
    std::vector<CompileDiagnostic> result;
    const std::vector<std::string_view> lines = lines_of(log);
    const std::vector<std::string_view> source_lines = lines_of(source);
    const PtxPlaces places(ptx, file);
    std::optional<CompileDiagnostic> follow_up;
    for (std::size_t i = 0; i < lines.size() && result.size() < max_diagnostics; ++i) {
        if (auto assembler = assembler_head(lines[i])) {
            CompileDiagnostic one{assembler->severity,
                                  place_of_assembler_message(*assembler, places),
                                  std::move(assembler->message)};
            if (assembler->follow_up) {
                follow_up = std::move(one);
            } else {
                result.push_back(std::move(one));
            }
            continue;
        }
        auto head = front_end_head(lines[i]);
        if (!head) head = bare_head(lines[i]);
        if (!head) continue;
        std::size_t end = i + 1;
        while (end < lines.size() && !trimmed(lines[end]).empty() && end - i < 64 &&
               !front_end_head(lines[end])) {
            ++end;
        }
        const bool own = head->file == file && head->line >= 1 && head->line <= source_lines.size();
        const Tail tail =
            read_tail(lines, i + 1, end, own ? source_lines[head->line - 1] : std::string_view{});
        // Where a kernel's name is looked up there is no text of the candidate.
        const bool name_lookup = head->file == "__nv_name_map";
        SourcePosition place{head->file, head->line, tail.column};
        if (name_lookup || head->file.empty()) place = {file, 0, 0};
        result.push_back(
            {head->severity, std::move(place),
             clean((name_lookup ? "kernel of the plan: " : "") + head->message + tail.more)});
        i = end - 1;
    }
    const bool any_error = std::any_of(result.begin(), result.end(), [](const auto& one) {
        return one.severity == Severity::error;
    });
    if (follow_up && !any_error) result.push_back(std::move(*follow_up));
    return result;
}

std::map<std::string, AssemblerFacts> read_assembler_facts(std::string_view log) {
    std::map<std::string, AssemblerFacts> result;
    AssemblerFacts* entry = nullptr;       // of the last "Compiling entry function"
    AssemblerFacts* properties = nullptr;  // of the last "Function properties for"
    // The number in front of a phrase: "Used 10 registers".
    const auto before = [](std::string_view line, std::string_view phrase) -> std::optional<int> {
        const std::size_t at = line.find(phrase);
        if (at == std::string_view::npos || at < 2) return std::nullopt;
        const std::string_view text = trimmed(line.substr(0, at));
        const std::size_t begin = text.find_last_not_of("0123456789");
        const auto value = number(text.substr(begin == std::string_view::npos ? 0 : begin + 1));
        return value && *value < (1U << 30) ? std::optional<int>(static_cast<int>(*value))
                                            : std::nullopt;
    };
    for (const std::string_view line : lines_of(log)) {
        constexpr std::string_view compiling = "Compiling entry function '";
        constexpr std::string_view properties_for = "Function properties for ";
        if (const std::size_t at = line.find(compiling); at != std::string_view::npos) {
            const std::string_view rest = line.substr(at + compiling.size());
            entry = &result[std::string(rest.substr(0, rest.find('\'')))];
            properties = entry;
        } else if (const std::size_t p = line.find(properties_for); p != std::string_view::npos) {
            const auto found =
                result.find(std::string(trimmed(line.substr(p + properties_for.size()))));
            properties = found == result.end() ? nullptr : &found->second;
        } else if (properties != nullptr &&
                   line.find("bytes stack frame") != std::string_view::npos) {
            properties->stack_bytes = before(line, " bytes stack frame");
            properties->spill_store_bytes = before(line, " bytes spill stores");
            properties->spill_load_bytes = before(line, " bytes spill loads");
        } else if (entry != nullptr && line.find("Used ") != std::string_view::npos) {
            entry->registers = before(line, " registers");
            entry->barriers = before(line, " barriers");
            entry->shared_bytes = before(line, " bytes smem").value_or(0);
        }
    }
    return result;
}

}  // namespace kernelforge::compile
