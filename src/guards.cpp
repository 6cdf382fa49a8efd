// SPDX-License-Identifier: Apache-2.0
#include "guards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/sha256.hpp"
#include "plan/plan.hpp"

namespace kernelforge {
namespace {

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_space(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0;
}

/// A piece of source text.
struct Piece {
    enum class Kind { code, literal, comment, plan };
    Kind kind = Kind::code;
    std::string_view text;
    std::size_t line = 1;
};

/// In C++ a backslash hides the quote that follows; in PTX it is a character like any other.
enum class Language { cpp, ptx };

std::size_t end_of_literal(std::string_view source, std::size_t begin, Language language) {
    const char quote = source[begin];
    std::size_t i = begin + 1;
    // In PTX a string goes on over the end of a line, in C++ it does not.
    const auto ends = [&](char c) {
        return c == quote || (c == '\n' && language == Language::cpp);
    };
    while (i < source.size() && !ends(source[i])) {
        i += source[i] == '\\' && language == Language::cpp ? 2 : 1;
    }
    return std::min(i + 1, source.size());
}

/// The end of R"tag( … )tag", whose opening quote is at `quote`.
std::size_t end_of_raw_literal(std::string_view source, std::size_t quote) {
    const std::size_t open = source.find('(', quote);
    if (open == std::string_view::npos || open - quote > 17)
        return end_of_literal(source, quote, Language::cpp);
    const std::string close = ")" + std::string(source.substr(quote + 1, open - quote - 1)) + "\"";
    const std::size_t end = source.find(close, open);
    return end == std::string_view::npos ? source.size() : end + close.size();
}

/// Whether the quote at `at` is a digit separator (`1'000`).
bool is_separator(std::string_view source, std::size_t at) {
    return source[at] == '\'' && at > 0 &&
           std::isxdigit(static_cast<unsigned char>(source[at - 1])) != 0 &&
           at + 1 < source.size() && std::isxdigit(static_cast<unsigned char>(source[at + 1])) != 0;
}

bool starts_plan_line(std::string_view source, std::size_t at) {
    if (source.substr(at, 3) != "//@") return false;
    while (at > 0 && (source[at - 1] == ' ' || source[at - 1] == '\t')) --at;
    return at == 0 || source[at - 1] == '\n';
}

/// Where a special piece that begins at `at` ends; `at` itself when plain code goes on there.
std::size_t end_of_special(std::string_view source, std::size_t at, Language language,
                           Piece::Kind& kind) {
    const std::string_view rest = source.substr(at);
    if (rest.starts_with("//")) {
        kind = starts_plan_line(source, at) ? Piece::Kind::plan : Piece::Kind::comment;
        return std::min(source.find('\n', at), source.size());
    }
    if (rest.starts_with("/*")) {
        kind = Piece::Kind::comment;
        const std::size_t end = source.find("*/", at + 2);
        return end == std::string_view::npos ? source.size() : end + 2;
    }
    const bool character =
        language == Language::cpp && rest[0] == '\'' && !is_separator(source, at);
    if (rest[0] == '"' || character) {
        kind = Piece::Kind::literal;
        const bool raw =
            language == Language::cpp && rest[0] == '"' && at > 0 && source[at - 1] == 'R';
        return raw ? end_of_raw_literal(source, at) : end_of_literal(source, at, language);
    }
    return at;
}

std::vector<Piece> pieces(std::string_view source, Language language) {
    std::vector<Piece> result;
    std::size_t begin = 0;
    std::size_t line = 1;
    const auto add = [&](Piece::Kind kind, std::size_t end) {
        if (end == begin) return;
        const std::string_view text = source.substr(begin, end - begin);
        result.push_back({kind, text, line});
        line += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        begin = end;
    };
    for (std::size_t i = 0; i < source.size();) {
        Piece::Kind kind = Piece::Kind::code;
        const std::size_t end = end_of_special(source, i, language, kind);
        if (end > i) {
            add(Piece::Kind::code, i);
            add(kind, end);
        }
        i = std::max(i + 1, end);
    }
    add(Piece::Kind::code, source.size());
    return result;
}

void append_reduced(std::string& out, std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_space(text[i])) {
            out += text[i];
            continue;
        }
        // A line end matters before and after a preprocessor line; else white space matters between
        // words.
        std::size_t end = i;
        bool line_end = false;
        for (; end < text.size() && is_space(text[end]); ++end)
            line_end = line_end || text[end] == '\n';
        out += line_end ? '\n' : ' ';
        i = end - 1;
    }
}

/// Drops the separators that `append_reduced` kept where no word is joined by dropping them.
std::string without_needless_space(const std::string& text) {
    std::string out;
    bool directive = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '#' && (out.empty() || out.back() == '\n')) directive = true;
        if (c != ' ' && c != '\n') {
            out += c;
            continue;
        }
        const char next = i + 1 < text.size() ? text[i + 1] : '\n';
        if (c == '\n' && (directive || next == '#' || text.compare(i + 1, 3, "//@") == 0)) {
            directive = false;
            if (!out.empty() && out.back() != '\n') out += '\n';
        } else if (directive ? c == ' ' : (!out.empty() && is_word(out.back()) && is_word(next))) {
            out += ' ';
        }
    }
    return out;
}

bool is_runtime_call(std::string_view word) {
    constexpr std::array<std::string_view, 4> device_side = {
        "cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion",
        "cudaTextureObject_t", "cudaSurfaceObject_t"};
    if (std::find(device_side.begin(), device_side.end(), word) != device_side.end()) return false;
    const auto upper_at = [&](std::size_t i) {
        return word.size() > i && std::isupper(static_cast<unsigned char>(word[i])) != 0;
    };
    return (word.starts_with("cuda") && upper_at(4)) || (word.starts_with("cu") && upper_at(2));
}

/// What is wrong with a word of code, or nothing.
std::string_view forbidden_word(std::string_view word) {
    if (is_runtime_call(word)) return "device code cannot call the CUDA runtime or driver";
    if (word == "printf" || word == "vprintf" || word == "puts") return "printing from a kernel";
    if (word == "malloc" || word == "free" || word == "new" || word == "delete" ||
        word == "alloca" || word == "__nv_aligned_device_malloc") {
        return "allocation in device code";
    }
    if (word == "clock" || word == "clock64" || word == "__globaltimer" || word == "globaltimer" ||
        word == "__clock64") {
        return "a kernel must not depend on a clock";
    }
    return {};
}

bool is_matrix_word(std::string_view word) {
    return word == "wmma" || word == "mma_sync" || word == "mma" || word == "wgmma" ||
           word == "tcgen05";
}

/// What is wrong with a word of assembly, or nothing. Words here may begin with `%` or `.`.
std::string_view forbidden_assembly(std::string_view word) {
    if (word.starts_with("%clock") || word.starts_with("%globaltimer")) {
        return "a kernel must not depend on a clock";
    }
    if (word.starts_with("%gridid")) return "a kernel must not depend on how many ran before";
    if (word.starts_with("%pm")) return "performance counters";
    if (word == "brkpt" || word == "pmevent") return "debugging instructions";
    if (word == "discard") return "discard drops other buffers' lines";
    return {};
}

template <class F>
void for_each_word(std::string_view text, std::string_view also_begins, F&& f) {
    for (std::size_t i = 0; i < text.size();) {
        const bool prefix = also_begins.find(text[i]) != std::string_view::npos;
        if (!prefix && !is_word(text[i])) {
            ++i;
            continue;
        }
        std::size_t end = i + 1;
        while (end < text.size() && is_word(text[end])) ++end;
        f(text.substr(i, end - i), i);
        i = end;
    }
}

std::size_t line_at(const Piece& piece, std::size_t offset) {
    const auto begin = piece.text.begin();
    return piece.line + static_cast<std::size_t>(
                            std::count(begin, begin + static_cast<std::ptrdiff_t>(offset), '\n'));
}

Refusal forbidden(std::string_view what, std::string_view why, std::size_t line) {
    return {"forbidden_construct",
            fmt::format("line {}: `{}` is not allowed: {}", line, what, why)};
}

Refusal matrix_refused(const std::string& where, std::string_view what) {
    return {"policy",
            fmt::format("{}: `{}`: the task allows vector fp32 arithmetic only", where, what)};
}

/// Words that a declaration needs: `= delete`, `operator new` of nothing.
bool is_deleted_function(std::string_view text, std::size_t offset) {
    while (offset > 0 && is_space(text[offset - 1])) --offset;
    return offset > 0 && text[offset - 1] == '=';
}

std::optional<Refusal> guard_code(const Piece& piece, const Policy& policy) {
    std::optional<Refusal> refusal;
    for_each_word(piece.text, "", [&](std::string_view word, std::size_t at) {
        if (refusal) return;
        const std::string_view why = forbidden_word(word);
        if (!why.empty() && !(word == "delete" && is_deleted_function(piece.text, at))) {
            refusal = forbidden(word, why, line_at(piece, at));
        } else if (policy.vector_fp32_only && is_matrix_word(word)) {
            refusal = matrix_refused(fmt::format("line {}", line_at(piece, at)), word);
        }
    });
    const std::size_t chevron = piece.text.find("<<<");
    if (!refusal && chevron != std::string_view::npos) {
        refusal = forbidden("<<<", "launches are //@launch lines", line_at(piece, chevron));
    }
    return refusal;
}

std::optional<Refusal> guard_literal(const Piece& piece, const Policy& policy) {
    std::optional<Refusal> refusal;
    for_each_word(piece.text, "%", [&](std::string_view word, std::size_t at) {
        if (refusal) return;
        const std::string_view why =
            word == "call" ? "calls in assembly hide what is called"
            : word == "entry" || word == "func" || word == "visible" || word == "extern"
                ? "assembly must not begin another function"
                : forbidden_assembly(word);
        if (!why.empty()) {
            refusal = forbidden(word, why, line_at(piece, at));
        } else if (policy.vector_fp32_only && is_matrix_word(word)) {
            refusal = matrix_refused(fmt::format("line {}", line_at(piece, at)), word);
        }
    });
    return refusal;
}

/// The functions that PTX names when device code prints, allocates or launches.
std::string_view forbidden_ptx(std::string_view word) {
    if (word == "vprintf") return "printing from a kernel";
    if (word == "malloc" || word == "free") return "allocation in device code";
    if (word.starts_with("cudaLaunchDevice") || word.starts_with("cudaGetParameterBuffer")) {
        return "launches from device code";
    }
    return forbidden_assembly(word);
}

/// PTX without its quoted strings and comments, both of which name files.
std::optional<Refusal> guard_ptx(std::string_view ptx) {
    std::optional<Refusal> refusal;
    for (const Piece& piece : pieces(ptx, Language::ptx)) {
        if (piece.kind != Piece::Kind::code) continue;
        for_each_word(piece.text, "%", [&](std::string_view word, std::size_t) {
            const std::string_view why = refusal ? std::string_view{} : forbidden_ptx(word);
            if (!why.empty()) {
                refusal = Refusal{"forbidden_construct",
                                  fmt::format("the compiled code uses `{}`: {}", word, why)};
            }
        });
    }
    return refusal;
}

bool is_matrix_opcode(std::string_view opcode) {
    constexpr std::array<std::string_view, 9> classes = {"hmma", "hgmma", "imma", "igmma", "qgmma",
                                                         "dmma", "bmma",  "qmma", "utc"};
    return std::any_of(classes.begin(), classes.end(),
                       [&](std::string_view c) { return opcode.starts_with(c); });
}

bool is_control_opcode(std::string_view opcode) {
    constexpr std::array<std::string_view, 5> control = {"exit", "bra", "nop", "ret", "bpt"};
    return std::find(control.begin(), control.end(), opcode) != control.end();
}

std::optional<Refusal> guard_kernel(const KernelFacts& kernel, const Policy& policy,
                                    int max_spill_bytes) {
    if (kernel.spill_store_bytes.value_or(0) > max_spill_bytes) {
        return Refusal{
            "spills",
            fmt::format("kernel {}: {} bytes of registers spilled per thread, at most {} allowed",
                        kernel.name, *kernel.spill_store_bytes, max_spill_bytes)};
    }
    const auto& counts = kernel.opcode_counts;
    const bool only_control = std::all_of(counts.begin(), counts.end(), [](const auto& entry) {
        return entry.second == 0 || is_control_opcode(entry.first);
    });
    if (!counts.empty() && only_control) {
        return Refusal{"empty_kernel", fmt::format("kernel {} does nothing", kernel.name)};
    }
    if (!policy.vector_fp32_only) return std::nullopt;
    for (const auto& [opcode, count] : counts) {
        if (count > 0 && is_matrix_opcode(opcode)) {
            return matrix_refused("kernel " + kernel.name, opcode);
        }
    }
    return std::nullopt;
}

/// An integer of an ELF file, little-endian; 0 beyond its end.
std::uint64_t elf_number(std::string_view bytes, std::size_t at, std::size_t size) {
    if (at > bytes.size() || bytes.size() - at < size) return 0;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
}

std::string_view elf_slice(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
    if (offset > bytes.size() || bytes.size() - offset < size) return {};
    return bytes.substr(offset, size);
}

/// Feeds the code, constants and resources of a cubin (ELF64), but not its line table, which
/// differs when only a comment moved. Anything that is no ELF file is fed whole.
void add_machine_code(Sha256& hash, std::string_view cubin) {
    const std::uint64_t table = elf_number(cubin, 0x28, 8);
    const std::uint64_t entry = elf_number(cubin, 0x3a, 2);
    const std::uint64_t count = elf_number(cubin, 0x3c, 2);
    const std::uint64_t names_index = elf_number(cubin, 0x3e, 2);
    if (!cubin.starts_with("\177ELF") || entry < 64 || names_index >= count ||
        table > cubin.size() || count > (cubin.size() - table) / entry) {
        hash.field(cubin);
        return;
    }
    const auto section = [&](std::uint64_t index) {
        const std::size_t header = table + index * entry;
        return elf_slice(cubin, elf_number(cubin, header + 0x18, 8),
                         elf_number(cubin, header + 0x20, 8));
    };
    constexpr std::uint64_t no_bits = 8;  // SHT_NOBITS: only its size says something
    const std::string_view names = section(names_index);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t header = table + i * entry;
        std::string_view name =
            names.substr(std::min<std::size_t>(elf_number(cubin, header, 4), names.size()));
        name = name.substr(0, name.find('\0'));
        if (!name.starts_with(".text.") && !name.starts_with(".nv.")) continue;
        hash.field(name);
        if (elf_number(cubin, header + 4, 4) == no_bits) {
            hash.field(std::to_string(elf_number(cubin, header + 0x20, 8)));
        } else {
            hash.field(section(i));
        }
    }
}

}  // namespace

std::string normalised_source(std::string_view source) {
    std::string reduced;
    for (const Piece& piece : pieces(source, Language::cpp)) {
        switch (piece.kind) {
            case Piece::Kind::code:
                append_reduced(reduced, piece.text);
                break;
            case Piece::Kind::literal:
                reduced += piece.text;
                break;
            case Piece::Kind::comment:
                reduced += ' ';
                break;
            case Piece::Kind::plan:
                append_reduced(reduced, piece.text);
                break;
        }
    }
    return without_needless_space(reduced);
}

std::optional<Refusal> guard_source(std::string_view source, const Policy& policy,
                                    std::size_t max_bytes) {
    if (source.size() > max_bytes) {
        return Refusal{"size", fmt::format("the candidate has {} bytes, at most {} allowed",
                                           source.size(), max_bytes)};
    }
    if (const auto call = plan::first_call(source); call && !policy.library_calls) {
        return Refusal{"policy", fmt::format("line {}: this task does not allow library steps "
                                             "(//@call)",
                                             call->line)};
    }
    for (const Piece& piece : pieces(source, Language::cpp)) {
        std::optional<Refusal> refusal;
        if (piece.kind == Piece::Kind::code) refusal = guard_code(piece, policy);
        if (piece.kind == Piece::Kind::literal) refusal = guard_literal(piece, policy);
        if (refusal) return refusal;
    }
    return std::nullopt;
}

std::optional<Refusal> guard_build(const CompileResult& build, const Policy& policy,
                                   int max_spill_bytes) {
    for (const KernelFacts& kernel : build.kernels) {
        if (auto refusal = guard_kernel(kernel, policy, max_spill_bytes)) return refusal;
    }
    return guard_ptx(build.ptx);
}

std::string build_identity(const CompiledCandidate& compiled) {
    Sha256 hash;
    for (const Piece& piece : pieces(compiled.candidate.source, Language::cpp)) {
        if (piece.kind == Piece::Kind::plan) hash.field(normalised_source(piece.text));
    }
    for (const auto& [name, value] : compiled.candidate.bindings) {
        hash.field(fmt::format("{}={}", name, value));
    }
    for (const std::size_t build : compiled.build_of_workload) {
        const CompileResult& result = compiled.builds.at(build);
        add_machine_code(hash, result.cubin.empty() ? result.ptx : result.cubin);
    }
    return hash.hex();
}

}  // namespace kernelforge
