// SPDX-License-Identifier: Apache-2.0
#include "reply.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "kernelforge/error.hpp"
#include "plan/plan.hpp"

namespace kernelforge {
namespace {

constexpr std::size_t max_field_bytes = 2000;
constexpr std::size_t max_metric_bytes = 128;
constexpr std::size_t max_expected = 16;
constexpr std::size_t max_notes = 16;
constexpr std::size_t max_blocks = 1000;

constexpr auto classes = std::to_array<std::string_view>(
    {"memory-access", "tiling", "vectorization", "occupancy", "synchronization", "algorithm",
     "fusion", "precision", "scheduling", "pipelining", "launch-configuration", "instruction-mix",
     "other"});

struct Alias {
    std::string_view word;
    std::string_view meaning;
};

/// What models write instead of a class; looked up only where no class is named. Longer ones first
/// where one holds another.
constexpr auto class_aliases = std::to_array<Alias>({
    {"vectoris", "vectorization"},
    {"vectoriz", "vectorization"},
    {"synchronis", "synchronization"},
    {"synchroniz", "synchronization"},
    {"pipelin", "pipelining"},
    {"prefetch", "pipelining"},
    {"double-buffer", "pipelining"},
    {"async-copy", "pipelining"},
    {"algorithm", "algorithm"},
    {"coalesc", "memory-access"},
    {"memory", "memory-access"},
    {"cache", "memory-access"},
    {"bank-conflict", "memory-access"},
    {"launch", "launch-configuration"},
    {"block-size", "launch-configuration"},
    {"grid", "launch-configuration"},
    {"instruction", "instruction-mix"},
    {"unroll", "instruction-mix"},
    {"schedul", "scheduling"},
    {"persistent", "scheduling"},
    {"fuse", "fusion"},
    {"tile", "tiling"},
    {"block-tiling", "tiling"},
    {"register", "occupancy"},
    {"precis", "precision"},
    {"barrier", "synchronization"},
});

enum class Field { plan, change_class, expect, lesson };
constexpr std::size_t field_count = 4;

struct FieldName {
    std::string_view name;  ///< lower case, words joined by one space
    Field field;
};

constexpr auto field_names = std::to_array<FieldName>({
    {"plan", Field::plan},
    {"change class", Field::change_class},
    {"changeclass", Field::change_class},
    {"change type", Field::change_class},
    {"class of change", Field::change_class},
    {"expect", Field::expect},
    {"expects", Field::expect},
    {"expected", Field::expect},
    {"expectation", Field::expect},
    {"expectations", Field::expect},
    {"expected metrics", Field::expect},
    {"expected changes", Field::expect},
    {"expected effect", Field::expect},
    {"expected impact", Field::expect},
    {"lesson of parent", Field::lesson},
    {"lesson from parent", Field::lesson},
    {"lesson of the parent", Field::lesson},
    {"lesson from the parent", Field::lesson},
    {"lessonofparent", Field::lesson},
    {"parent lesson", Field::lesson},
    {"lesson", Field::lesson},
});

/// Languages of blocks that cannot be a candidate.
constexpr auto foreign_languages = std::to_array<std::string_view>(
    {"diff", "patch",  "bash",  "sh",     "shell",    "zsh",  "console", "terminal",   "powershell",
     "cmd",  "bat",    "py",    "python", "python3",  "json", "jsonc",   "yaml",       "yml",
     "toml", "ini",    "cmake", "make",   "makefile", "ptx",  "sass",    "asm",        "nasm",
     "log",  "output", "xml",   "html",   "css",      "sql",  "js",      "javascript", "typescript",
     "ts",   "rust",   "go",    "java",   "latex",    "math", "mermaid", "dockerfile"});

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lowered(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), lower);
    return result;
}

bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string_view trimmed(std::string_view text, std::string_view what = " \t") {
    const std::size_t first = text.find_first_not_of(what);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(what) - first + 1);
}

bool has_kernel(std::string_view code) {
    return code.find("__global__") != std::string_view::npos;
}

/// Cuts at a character's start, so that UTF-8 stays valid.
std::string cut_text(std::string text, std::size_t max_bytes) {
    if (text.size() <= max_bytes) return text;
    std::size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.resize(end);
    return text;
}

/// Without a byte order mark, and with line feeds only.
std::string normalise_lines(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    std::string result;
    result.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\r') {
            result += text[i];
        } else if (i + 1 == text.size() || text[i + 1] != '\n') {
            result += '\n';
        }
    }
    return result;
}

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

class ReplyParser {
  public:
    explicit ReplyParser(const Definition& definition) : definition_(definition) {}

    ModelReply parse(std::string_view text) {
        std::string normal = drop_thinking(normalise_lines(text));
        const std::vector<std::string_view> lines = split_lines(normal);
        find_blocks(lines);
        choose_code(lines);
        read_fields(lines);
        return std::move(reply_);
    }

  private:
    struct Block {
        std::string language;   ///< first word of the info string, lower case
        std::size_t first = 0;  ///< line of the opening fence
        std::size_t last = 0;   ///< line of the closing fence, or one past the block's last line
        bool closed = false;
        std::string code;
        bool has_plan = false;
        bool has_kernel = false;
        bool foreign = false;
    };
    struct Fence {
        char mark = '`';
        std::size_t count = 0;
        std::size_t indent = 0;
        std::string info;
    };

    void note(std::string text) {
        if (reply_.notes.size() < max_notes) reply_.notes.push_back(std::move(text));
    }

    std::string drop_thinking(std::string text);
    static std::optional<Fence> fence_of(std::string_view line);
    static std::string language_of(std::string_view info);
    void find_blocks(const std::vector<std::string_view>& lines);
    void finish_block(Block block, std::string code, std::size_t last, bool closed);
    void choose_code(const std::vector<std::string_view>& lines);
    const Block* last_block(bool closed, bool with_plan) const;
    void use_block(const Block& block, std::string code);
    bool use_lifted(const Block& block);
    bool use_unfenced(const std::vector<std::string_view>& lines);
    void explain_no_code(const std::vector<std::string_view>& lines);

    struct FieldText {
        std::string value;  ///< lines joined by line feeds
        std::size_t line = 0;
    };
    static std::optional<Field> label_of(std::string_view line, std::string_view& rest);
    void collect_fields(const std::vector<std::string_view>& lines, std::size_t first,
                        std::size_t last);
    void collect_comment_fields(const std::vector<std::string_view>& lines);
    std::string pick(Field field) const;
    void read_fields(const std::vector<std::string_view>& lines);
    void read_change_class(const std::string& value);
    void read_expect(const std::string& value);
    static std::string first_prose(const std::vector<std::string_view>& lines,
                                   const std::vector<bool>& in_code);

    const Definition& definition_;
    ModelReply reply_;
    std::vector<Block> blocks_;
    std::size_t code_first_ = 0;  ///< lines that the chosen code takes, [first, last)
    std::size_t code_last_ = 0;
    bool ends_in_thinking_ = false;
    std::array<std::vector<FieldText>, field_count> fields_;
};

/// Position of `what` (lower case) in `text`, whose lower-case form is `low`, at the start of a
/// line.
std::size_t find_at_line_start(const std::string& low, std::string_view what, std::size_t from) {
    for (std::size_t at = low.find(what, from); at != std::string::npos;
         at = low.find(what, at + 1)) {
        const std::size_t before = low.find_last_not_of(" \t", at == 0 ? 0 : at - 1);
        if (at == 0 || before == std::string::npos || low[before] == '\n') return at;
    }
    return std::string::npos;
}

/// Removes what reasoning models write between <think> and </think>.
std::string ReplyParser::drop_thinking(std::string text) {
    for (const std::string_view tag : {"think", "thinking", "reasoning"}) {
        const std::string open = "<" + std::string(tag) + ">";
        const std::string close = "</" + std::string(tag) + ">";
        const std::string low = lowered(text);
        std::string kept;
        std::size_t from = 0;
        std::size_t start = find_at_line_start(low, open, 0);
        const std::size_t lone = low.find(close);
        if (lone != std::string::npos && lone < start) {
            // Some servers leave out the opening tag, which their template has written.
            if (text.find_first_not_of(" \t\n", lone + close.size()) != std::string::npos) {
                from = lone + close.size();
                note("a thinking section was skipped");
            }
        }
        while (start != std::string::npos) {
            const std::size_t end = low.find(close, start);
            kept.append(text, from, start - from);
            note("a thinking section was skipped");
            if (end == std::string::npos) {
                ends_in_thinking_ = true;
                from = text.size();
                break;
            }
            from = end + close.size();
            start = find_at_line_start(low, open, from);
        }
        kept.append(text, from);
        text = std::move(kept);
    }
    return text;
}

std::optional<ReplyParser::Fence> ReplyParser::fence_of(std::string_view line) {
    Fence fence;
    std::size_t at = 0;
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t' || line[at] == '>')) ++at;
    fence.indent = at;
    if (at == line.size() || (line[at] != '`' && line[at] != '~')) return std::nullopt;
    fence.mark = line[at];
    while (at < line.size() && line[at] == fence.mark) ++at, ++fence.count;
    if (fence.count < 3) return std::nullopt;
    fence.info = trimmed(line.substr(at));
    // ```code``` on one line is no fence.
    if (fence.info.find(fence.mark) != std::string::npos) return std::nullopt;
    return fence;
}

/// `cuda`, `{.cuda}`, `cuda title="x"`, `CUDA:kernel.cu` are all `cuda`.
std::string ReplyParser::language_of(std::string_view info) {
    info = trimmed(info, " \t{.}");
    std::size_t end = 0;
    while (end < info.size() &&
           (is_alphanumeric(info[end]) || info[end] == '+' || info[end] == '#'))
        ++end;
    return lowered(info.substr(0, end));
}

void ReplyParser::finish_block(Block block, std::string code, std::size_t last, bool closed) {
    if (blocks_.size() == max_blocks) return;
    block.last = last;
    block.closed = closed;
    block.foreign = std::find(foreign_languages.begin(), foreign_languages.end(), block.language) !=
                        foreign_languages.end() ||
                    code.starts_with("--- ") || code.starts_with("diff --git ") ||
                    code.starts_with("@@ ");
    block.has_plan = plan::has_plan(code);
    block.has_kernel = has_kernel(code);
    block.code = std::move(code);
    blocks_.push_back(std::move(block));
}

void ReplyParser::find_blocks(const std::vector<std::string_view>& lines) {
    std::optional<Fence> open;
    Block block;
    std::string code;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto fence = fence_of(lines[i]);
        if (open) {
            if (fence && fence->mark == open->mark && fence->count >= open->count &&
                fence->info.empty()) {
                finish_block(std::move(block), std::move(code), i, true);
                open.reset();
                continue;
            }
            // A fence that names a language inside a block of the same length: the block around it
            // is prose in a fence, or was never closed.
            const bool starts_new = fence && fence->mark == open->mark &&
                                    fence->count == open->count && !fence->info.empty();
            if (!starts_new) {
                std::string_view line = lines[i];
                std::size_t indent = 0;
                while (indent < open->indent && indent < line.size() &&
                       (line[indent] == ' ' || line[indent] == '\t' || line[indent] == '>')) {
                    ++indent;
                }
                code += line.substr(indent);
                code += '\n';
                continue;
            }
            finish_block(std::move(block), std::move(code), i, false);
        }
        if (!fence) continue;
        open = fence;
        block = Block{};
        block.language = language_of(fence->info);
        block.first = i;
        code.clear();
    }
    if (open) finish_block(std::move(block), std::move(code), lines.size(), false);
}

const ReplyParser::Block* ReplyParser::last_block(bool closed, bool with_plan) const {
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
        if (block->foreign || block->closed != closed) continue;
        if (with_plan ? block->has_plan : block->has_kernel) return &*block;
    }
    return nullptr;
}

void ReplyParser::use_block(const Block& block, std::string code) {
    code_first_ = block.first;
    code_last_ = block.last;
    reply_.code_was_cut_off = !block.closed;
    code.erase(0, std::min(code.find_first_not_of(" \t\n") == std::string::npos
                               ? code.size()
                               : code.rfind('\n', code.find_first_not_of(" \t\n")) + 1,
                           code.size()));
    if (!code.ends_with('\n')) code += '\n';
    reply_.code = std::move(code);
    if (!block.closed) note("the code block is not closed: the code may be cut off");
    const auto usable = std::count_if(blocks_.begin(), blocks_.end(), [](const Block& other) {
        return !other.foreign && (other.has_plan || other.has_kernel);
    });
    if (usable > 1) {
        note("the reply has " + std::to_string(usable) +
             " code blocks with kernels, one of them was used");
    }
}

/// Uses the block if its host launcher can be turned into a plan.
bool ReplyParser::use_lifted(const Block& block) {
    std::string why_not;
    std::optional<std::string> lifted;
    try {
        lifted = plan::lift_host_launcher(block.code, definition_, why_not);
    } catch (const Error& error) {
        why_not = error.what();
    }
    if (!lifted) {
        note("the code has no //@launch line" + (why_not.empty() ? "" : ": " + why_not));
        return false;
    }
    use_block(block, std::move(*lifted));
    note("a pasted host launcher was turned into //@launch lines");
    return true;
}

void ReplyParser::choose_code(const std::vector<std::string_view>& lines) {
    if (const Block* block = last_block(true, true)) return use_block(*block, block->code);
    const Block* complete = last_block(true, false);
    if (complete != nullptr && use_lifted(*complete)) return;
    if (const Block* block = last_block(false, true)) return use_block(*block, block->code);
    if (complete != nullptr) return use_block(*complete, complete->code);
    if (const Block* block = last_block(false, false)) {
        if (!use_lifted(*block)) use_block(*block, block->code);
        return;
    }
    if (use_unfenced(lines)) return;
    explain_no_code(lines);
}

bool starts_code(std::string_view line) {
    static constexpr auto starts = std::to_array<std::string_view>(
        {"//",       "/*",         "#include",   "#define",  "#pragma",      "#if",
         "template", "__global__", "__device__", "__host__", "__constant__", "__forceinline__",
         "extern",   "using ",     "namespace",  "static ",  "constexpr ",   "typedef ",
         "struct ",  "inline "});
    return std::any_of(starts.begin(), starts.end(),
                       [&](std::string_view start) { return line.starts_with(start); });
}

bool ends_code(std::string_view line) {
    return line.ends_with('}') || line.ends_with(';') || line.starts_with("//@") ||
           line.starts_with("#endif") || line.starts_with("#undef");
}

/// Code that stands in the reply without any fence.
bool ReplyParser::use_unfenced(const std::vector<std::string_view>& lines) {
    if (!blocks_.empty()) return false;
    std::size_t first = 0;
    while (first < lines.size() && !starts_code(trimmed(lines[first]))) ++first;
    std::size_t last = lines.size();
    while (last > first && !ends_code(trimmed(lines[last - 1]))) --last;
    Block block;
    block.first = first;
    block.last = last;
    for (std::size_t i = first; i < last; ++i) {
        block.code += lines[i];
        block.code += '\n';
    }
    block.has_plan = plan::has_plan(block.code);
    block.has_kernel = has_kernel(block.code);
    if (!block.has_kernel) return false;
    block.closed = true;
    note("the code stands in no code block");
    if (block.has_plan || !use_lifted(block)) use_block(block, block.code);
    return true;
}

void ReplyParser::explain_no_code(const std::vector<std::string_view>& lines) {
    const bool blank = std::all_of(lines.begin(), lines.end(),
                                   [](std::string_view line) { return trimmed(line).empty(); });
    const auto is_diff = [](const Block& block) {
        return block.language == "diff" || block.language == "patch" ||
               block.code.starts_with("--- ") || block.code.starts_with("diff --git ");
    };
    if (ends_in_thinking_) {
        reply_.why_no_code = "the reply ends inside its thinking section";
    } else if (blank) {
        reply_.why_no_code = "the reply is empty";
    } else if (blocks_.empty()) {
        reply_.why_no_code = "the reply has no code block and no kernel";
    } else if (std::any_of(blocks_.begin(), blocks_.end(), is_diff)) {
        reply_.why_no_code = "the reply holds a diff, expected the whole file in one code block";
    } else {
        reply_.why_no_code = "no code block of the reply holds a kernel or a launch plan (" +
                             std::to_string(blocks_.size()) +
                             (blocks_.size() == 1 ? " block)" : " blocks)");
    }
}

constexpr std::string_view decoration = " \t>*_`#-+\"'|/";

/// The field that a line starts, with `rest` what follows the label.
std::optional<Field> ReplyParser::label_of(std::string_view line, std::string_view& rest) {
    if (line.size() > 100'000) return std::nullopt;
    std::size_t at = 0;
    const auto skip = [&](std::string_view what) {
        while (at < line.size() && what.find(line[at]) != std::string_view::npos) ++at;
    };
    skip(decoration);
    if (line.substr(at).starts_with("\xe2\x80\xa2")) at += 3;  // a bullet
    const std::size_t before_number = at;
    skip("0123456789");
    if (at != before_number && at < line.size() && (line[at] == '.' || line[at] == ')')) {
        ++at;
    } else {
        at = before_number;
    }
    skip(decoration);
    const bool decorated = at != 0;
    std::string label;
    while (at < line.size() && label.size() < 32) {
        const char c = line[at];
        if (is_alphanumeric(c)) {
            label += lower(c);
        } else if (c == ' ' || c == '-' || c == '_') {
            if (!label.empty() && label.back() != ' ') label += ' ';
        } else {
            break;
        }
        ++at;
    }
    while (!label.empty() && label.back() == ' ') label.pop_back();
    skip(" \t*_`\"'");
    const bool colon = at < line.size() && (line[at] == ':' || line[at] == '=');
    const bool wide_colon = line.substr(at).starts_with("\xef\xbc\x9a");
    if (colon) ++at;
    if (wide_colon) at += 3;
    // A heading or a bold line needs no colon.
    if (!colon && !wide_colon && !(decorated && at == line.size())) return std::nullopt;
    for (const FieldName& name : field_names) {
        if (name.name != label) continue;
        rest = line.substr(at);
        return name.field;
    }
    return std::nullopt;
}

void ReplyParser::collect_fields(const std::vector<std::string_view>& lines, std::size_t first,
                                 std::size_t last) {
    FieldText* current = nullptr;
    for (std::size_t i = first; i < last; ++i) {
        std::string_view rest;
        if (const auto field = label_of(lines[i], rest)) {
            auto& texts = fields_[static_cast<std::size_t>(*field)];
            texts.push_back({std::string(trimmed(rest, " \t*_`")), i});
            current = &texts.back();
            continue;
        }
        if (current == nullptr) continue;
        std::string_view line = trimmed(lines[i]);
        if (line.starts_with("//")) line = trimmed(line.substr(2));
        if (line.empty()) {
            if (!current->value.empty()) current = nullptr;
            continue;
        }
        // Another heading ends a field.
        if (line.starts_with('#') || fence_of(line)) {
            current = nullptr;
            continue;
        }
        if (current->value.size() > max_field_bytes) continue;
        if (!current->value.empty()) current->value += '\n';
        current->value += line;
    }
}

/// Some models write the fields as comments of the code.
void ReplyParser::collect_comment_fields(const std::vector<std::string_view>& lines) {
    const auto is_comment = [&](std::size_t i) {
        const std::string_view line = trimmed(lines[i]);
        return line.starts_with("//") && !line.starts_with("//@");
    };
    const std::size_t last = std::min(code_last_, lines.size());
    for (std::size_t i = code_first_; i < last; ++i) {
        if (!is_comment(i)) continue;
        std::size_t end = i;
        while (end < last && is_comment(end)) ++end;
        collect_fields(lines, i, end);
        i = end;
    }
}

/// The last value that stands before the code, else the first one after it.
std::string ReplyParser::pick(Field field) const {
    std::string chosen;
    for (const FieldText& text : fields_[static_cast<std::size_t>(field)]) {
        if (text.value.empty()) continue;
        if (text.line >= code_first_ && !chosen.empty()) break;
        chosen = text.value;
    }
    return chosen;
}

/// One line, single spaces, without the decoration around it.
std::string one_line(std::string_view text) {
    std::string result;
    for (const char c : text) {
        const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\0';
        if (!space) {
            result += c;
        } else if (!result.empty() && result.back() != ' ') {
            result += ' ';
        }
    }
    std::string_view view = trimmed(result);
    if (view.starts_with('"')) view = trimmed(view, "\", ");
    view = trimmed(view, " *_`");
    return cut_text(std::string(view), max_field_bytes);
}

std::string ReplyParser::first_prose(const std::vector<std::string_view>& lines,
                                     const std::vector<bool>& in_code) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (in_code[i] || fence_of(lines[i])) continue;
        std::string_view rest;
        if (label_of(lines[i], rest)) continue;
        const std::string text = one_line(trimmed(lines[i], " \t#>*-_`"));
        if (!text.empty()) return cut_text(text, 300);
    }
    return {};
}

void ReplyParser::read_fields(const std::vector<std::string_view>& lines) {
    std::vector<bool> in_code(lines.size(), false);
    const auto mark = [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < std::min(last, lines.size()); ++i) in_code[i] = true;
    };
    if (reply_.code) mark(code_first_, code_last_);
    for (const Block& block : blocks_) {
        // Prose in a fence may hold the fields.
        if (block.has_plan || block.has_kernel || block.foreign) mark(block.first, block.last);
    }
    for (std::size_t i = 0; i < lines.size();) {
        std::size_t end = i;
        while (end < lines.size() && in_code[end] == in_code[i]) ++end;
        if (!in_code[i]) collect_fields(lines, i, end);
        i = end;
    }
    const bool none = std::all_of(fields_.begin(), fields_.end(),
                                  [](const auto& texts) { return texts.empty(); });
    if (none && reply_.code) collect_comment_fields(lines);

    reply_.plan = one_line(pick(Field::plan));
    if (reply_.plan.empty()) {
        reply_.plan = first_prose(lines, in_code);
        note("the reply has no field plan");
    }
    if (reply_.plan.empty()) reply_.plan = "no plan given";
    reply_.lesson_of_parent = one_line(pick(Field::lesson));
    read_change_class(pick(Field::change_class));
    read_expect(pick(Field::expect));
}

void ReplyParser::read_change_class(const std::string& value) {
    reply_.change_class = "other";
    if (value.empty()) return note("the reply has no field change-class, taken as other");
    std::string words;
    for (const char c : value.substr(0, max_field_bytes)) {
        if (is_alphanumeric(c)) {
            words += lower(c);
        } else if (!words.empty() && words.back() != '-') {
            words += '-';
        }
    }
    std::size_t best = std::string::npos;
    for (const std::string_view name : classes) {
        const std::size_t at = words.find(name);
        if (at >= best) continue;
        best = at;
        reply_.change_class = name;
    }
    if (best != std::string::npos) return;
    for (const Alias& alias : class_aliases) {
        const std::size_t at = words.find(alias.word);
        if (at >= best) continue;
        best = at;
        reply_.change_class = alias.meaning;
    }
    note("change-class \"" + cut_text(one_line(value), 60) + "\" is not in the list, taken as " +
         reply_.change_class);
}

/// -1, 0 or +1: what a word says about the direction of a change.
int direction_of(std::string_view word) {
    static constexpr auto ups = std::to_array<std::string_view>(
        {"up", "increase", "increases", "increased", "higher", "rise", "rises", "more", "grow",
         "grows", "improve", "improves", "raise", "raises", "\xe2\x86\x91", "\xe2\xac\x86", "+",
         "++"});
    static constexpr auto downs = std::to_array<std::string_view>(
        {"down",  "decrease", "decreases", "decreased",    "lower",        "lowers",  "drop",
         "drops", "less",     "fewer",     "reduce",       "reduces",      "reduced", "fall",
         "falls", "shrink",   "shrinks",   "\xe2\x86\x93", "\xe2\xac\x87", "-",       "--"});
    if (std::find(ups.begin(), ups.end(), word) != ups.end()) return 1;
    if (std::find(downs.begin(), downs.end(), word) != downs.end()) return -1;
    return 0;
}

/// Reads `metric up`, `metric: down (…)`, `lower metric`; nothing where there is no direction.
std::optional<ExpectedChange> expected_change(std::string_view piece) {
    ExpectedChange change;
    int direction = 0;
    bool leads = false;     // the direction stands before the metric
    bool complete = false;  // all words of the metric were seen
    std::string plain;
    std::string exact;  // a name as CUPTI spells them
    while (!piece.empty()) {
        const std::size_t end = std::min(piece.find_first_of(" \t:=()[]*`\"'"), piece.size());
        std::string_view word = trimmed(piece.substr(0, end), ".,;|_>");
        piece.remove_prefix(std::min(end + 1, piece.size()));
        // The arrows may stand right behind the metric.
        for (const std::string_view arrow : {"\xe2\x86\x91", "\xe2\x86\x93"}) {
            if (word.size() <= arrow.size() || !word.ends_with(arrow)) continue;
            if (direction == 0) direction = direction_of(arrow);
            word.remove_suffix(arrow.size());
        }
        if (word.empty()) continue;
        const std::string low = lowered(word);
        const int found = direction_of(low);
        if (found != 0 && direction == 0) {
            direction = found;
            leads = plain.empty();
            continue;
        }
        if (exact.empty() && word.find("__") != std::string_view::npos) exact = word;
        // What follows explains: `metric up with wider loads`, `reduce registers by 20 %`.
        if (low == "by" || low == "from" || low == "to" || low == "because") complete = true;
        if (direction != 0 && !leads) complete = true;
        if (complete) continue;
        if (!plain.empty()) plain += ' ';
        plain += word;
    }
    change.metric = exact.empty() ? plain : exact;
    if (direction == 0 || change.metric.empty() || change.metric.size() > max_metric_bytes) {
        return std::nullopt;
    }
    change.direction =
        direction > 0 ? ExpectedChange::Direction::up : ExpectedChange::Direction::down;
    return change;
}

void ReplyParser::read_expect(const std::string& value) {
    std::string_view rest = value;
    std::size_t ignored = 0;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find_first_of(",;\n"), rest.size());
        std::string_view piece = trimmed(rest.substr(0, end), " \t*");
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (piece.starts_with("- ")) piece.remove_prefix(2);  // a bullet, not a direction
        if (piece.empty()) continue;
        const auto change =
            reply_.expect.size() < max_expected ? expected_change(piece) : std::nullopt;
        if (change) {
            reply_.expect.push_back(*change);
        } else {
            ++ignored;
        }
    }
    if (ignored > 0) {
        note("expect: " + std::to_string(ignored) + " parts without metric and direction ignored");
    }
}

}  // namespace

std::span<const std::string_view> change_classes() noexcept {
    return classes;
}

ModelReply parse_reply(std::string_view text, const Definition& definition) {
    return ReplyParser(definition).parse(text);
}

}  // namespace kernelforge
