// SPDX-License-Identifier: Apache-2.0
#include "sanitizer_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace kernelforge::cuda {
namespace {

constexpr std::string_view prefix = "=========";

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// `gemm` of `void ns::Tile<4>::gemm<64, float>(float const*)`, `(anonymous namespace)::gemm(int*)`
/// and of `gemm`.
std::string identifier_of(std::string_view signature) {
    constexpr std::string_view unnamed = "(anonymous namespace)";
    std::string name;  // the word that is read last, outside of template arguments
    int depth = 0;
    bool ended = false;
    for (std::size_t i = 0; i < signature.size(); ++i) {
        const char c = signature[i];
        if (c == '<') ++depth;
        if (c == '>' && depth > 0) --depth;
        if (depth > 0) continue;
        if (c == '(' && signature.substr(i).starts_with(unnamed)) {
            i += unnamed.size() - 1;
            continue;
        }
        if (c == '(') break;
        if (is_word(c)) {
            if (ended) name.clear();
            name += c;
        }
        ended = !is_word(c);
    }
    return name;
}

/// "ERROR SUMMARY: 2 errors", "RACECHECK SUMMARY: …". (A place may hold a namespace `SUMMARY::`.)
bool is_summary(std::string_view line) {
    const std::size_t end = line.find(" SUMMARY:");
    return end != std::string_view::npos &&
           std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end),
                       [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// "NAME+0x70 in FILE:12", or, of older versions, "0x70 in FILE:12:NAME".
void add_place(SanitizerRecord& record, std::string_view place) {
    const std::size_t in = place.find(" in ");
    std::string_view function = place.substr(0, in);
    std::string_view source = in == std::string_view::npos ? "" : trimmed(place.substr(in + 4));
    int line = 0;
    if (const std::size_t hazards = source.find(" ["); hazards != std::string_view::npos) {
        source = source.substr(0, hazards);
    }
    const std::size_t colon = source.find(':');
    if (colon != std::string_view::npos) {
        const char* end = source.data() + source.size();
        const auto [rest, error] = std::from_chars(source.data() + colon + 1, end, line);
        if (error != std::errc()) line = 0;
        if (function.starts_with("0x") && rest < end && *rest == ':') {
            function = {rest + 1, static_cast<std::size_t>(end - rest - 1)};
        }
        source = source.substr(0, colon);
    }
    if (const std::size_t offset = function.rfind("+0x"); offset != std::string_view::npos) {
        function = function.substr(0, offset);
    }
    std::string name = identifier_of(function);
    if (!name.empty() && !function.starts_with("0x")) record.functions.push_back(std::move(name));
    if (!record.file.empty() || source.empty()) return;
    record.file = source.substr(source.find_last_of('/') + 1);
    record.line = line;
}

/// Every place that a line names: after "at", "access at", "Device Frame:".
void add_places(SanitizerRecord& record, std::string_view line) {
    constexpr std::string_view frame = "Device Frame:";
    if (line.starts_with(frame)) return add_place(record, trimmed(line.substr(frame.size())));
    if (line.starts_with("at ")) return add_place(record, line.substr(3));
    constexpr std::string_view access = "access at ";
    std::size_t at = line.find(access);
    while (at != std::string_view::npos) {
        const std::size_t begin = at + access.size();
        at = line.find(access, begin);
        // Two on one line are joined by "and".
        std::string_view place = line.substr(begin, at == std::string_view::npos ? at : at - begin);
        if (const std::size_t joined = place.find(" and "); joined != std::string_view::npos) {
            place = place.substr(0, joined);
        }
        add_place(record, place);
    }
}

SanitizerRecord begin_record(std::string_view line) {
    SanitizerRecord record;
    for (const std::string_view severity : {"Error: ", "Warning: ", "Info: "}) {
        if (!line.starts_with(severity)) continue;
        record.warning = severity != "Error: ";
        line.remove_prefix(severity.size());
        break;
    }
    add_places(record, line);
    const std::size_t place = line.find(" access at ");
    record.what = line.substr(0, place == std::string_view::npos ? place : place + 7);
    return record;
}

/// "Address 0x7f00 is out of bounds" without the address.
void add_detail(SanitizerRecord& record, std::string_view line) {
    if (line.starts_with("by thread")) {
        record.thread = line;
    } else if (line.starts_with("Address 0x") && record.detail.empty()) {
        const std::size_t end = line.find(' ', 8);
        if (end != std::string_view::npos) record.detail = trimmed(line.substr(end));
    }
}

bool is_global_read(const SanitizerRecord& record) {
    return record.what.find("Uninitialized") != std::string::npos &&
           record.what.find("__global__") != std::string::npos &&
           record.what.find("read") != std::string::npos;
}

}  // namespace

SanitizerLog parse_sanitizer_log(std::string_view text) {
    SanitizerLog log;
    bool in_record = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!line.starts_with(prefix)) continue;
        line.remove_prefix(prefix.size());
        const bool indented = line.starts_with("  ") || line.starts_with(" \t");
        line = trimmed(line);
        if (line.empty()) {
            in_record = false;
        } else if (!indented && line.starts_with("COMPUTE-SANITIZER")) {
            log.started = true;
        } else if (!indented && is_summary(line)) {
            log.ended = true;
            in_record = false;
        } else if (!indented) {
            log.records.push_back(begin_record(line));
            in_record = true;
        } else if (in_record) {
            // What follows is about the host.
            if (line.starts_with("Saved host backtrace") || line.starts_with("Host Frame")) {
                in_record = false;
                continue;
            }
            // "and Read access at …" belongs to the sentence.
            add_places(log.records.back(), line);
            add_detail(log.records.back(), line);
        }
    }
    return log;
}

std::set<std::string> kernel_names(const CompiledCandidate& candidate) {
    std::set<std::string> names;
    for (const CompileResult& build : candidate.builds) {
        for (const KernelFacts& kernel : build.kernels) {
            names.insert(identifier_of(kernel.name));
            if (!kernel.lowered_name.starts_with("_Z")) {
                names.insert(identifier_of(kernel.lowered_name));
                continue;
            }
            // Itanium mangling spells every part of a name after its length.
            const std::string& mangled = kernel.lowered_name;
            for (std::size_t i = 2; i < mangled.size(); ++i) {
                std::size_t length = 0;
                const auto [rest, error] =
                    std::from_chars(mangled.data() + i, mangled.data() + mangled.size(), length);
                if (error == std::errc::result_out_of_range) break;
                if (error != std::errc()) continue;
                const auto begin = static_cast<std::size_t>(rest - mangled.data());
                if (length == 0 || length > mangled.size() - begin) break;
                names.insert(mangled.substr(begin, length));
                // Of a nested name the last part is the function's; parameters follow it.
                i = begin + length - 1;
                const bool nested = mangled[2] == 'N';
                if (!nested || i + 1 >= mangled.size() || mangled[i + 1] < '0' ||
                    mangled[i + 1] > '9') {
                    break;
                }
            }
        }
    }
    names.erase("");
    return names;
}

bool is_about(const SanitizerRecord& record, const std::set<std::string>& kernels) {
    if (record.file == "reference.cu") return false;
    return std::any_of(record.functions.begin(), record.functions.end(),
                       [&](const std::string& name) { return kernels.contains(name); });
}

std::string describe(const SanitizerRecord& record) {
    constexpr std::size_t most = 200;  // of what a candidate names
    std::string text = record.what.substr(0, most);
    if (!record.functions.empty()) text += " in " + record.functions.front().substr(0, most);
    if (!record.file.empty()) {
        text += " at " + record.file;
        if (record.line > 0) text += ":" + std::to_string(record.line);
    }
    if (!record.thread.empty()) text += " " + record.thread;
    if (!record.detail.empty()) text += ": " + record.detail;
    return text;
}

SanitizerResult judge_log(const std::string& tool, const SanitizerLog& log,
                          const std::set<std::string>& kernels, const std::string& why_incomplete) {
    SanitizerResult result;
    result.tool = tool;
    std::size_t findings = 0;
    for (const SanitizerRecord& record : log.records) {
        if (record.warning || !is_about(record, kernels)) continue;
        if (tool == "initcheck" && !is_global_read(record)) continue;
        if (++findings == 1) result.message = describe(record);
    }
    if (findings > 0) {
        result.status = SanitizerResult::Status::findings;
        if (findings > 1) result.message += fmt::format(" (and {} more)", findings - 1);
    } else if (why_incomplete.empty() && log.started && log.ended) {
        result.status = SanitizerResult::Status::clean;
    } else {
        result.status = SanitizerResult::Status::failed;
        result.message = !why_incomplete.empty() ? why_incomplete
                         : log.started           ? "its log ends without a summary"
                                                 : "it wrote no log";
    }
    return result;
}

}  // namespace kernelforge::cuda
