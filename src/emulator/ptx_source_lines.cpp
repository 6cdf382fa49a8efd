// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_source_lines.hpp"

#include <charconv>
#include <system_error>

namespace kernelforge::emulator::ptx {
namespace {

std::string_view without_space(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

/// Whether only spaces stand before `at` on its line. Looks at no more than those.
bool starts_line(std::string_view text, std::size_t at) {
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
    return at == 0 || text[at - 1] == '\n';
}

/// Whether `path` is `name`, or ends with a slash and `name`.
bool is_file(std::string_view path, std::string_view name) {
    if (!path.ends_with(name)) return false;
    return path.size() == name.size() || path[path.size() - name.size() - 1] == '/';
}

}  // namespace

SourceLines::SourceLines(std::string_view text, std::string_view own_file) {
    constexpr std::string_view directive = ".file";
    for (std::size_t at = text.find(directive); at != std::string_view::npos;
         at = text.find(directive, at + directive.size())) {
        if (!starts_line(text, at)) continue;
        const std::size_t end = text.find('\n', at);
        const std::string_view rest =
            without_space(text.substr(at + directive.size(), end - at - directive.size()));
        std::uint64_t number = 0;
        const auto [after, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
        const std::size_t open = rest.find('"');
        if (error != std::errc() || after == rest.data() || open == std::string_view::npos) {
            continue;
        }
        const std::size_t close = rest.find('"', open + 1);
        if (close == std::string_view::npos) continue;
        const std::string_view path = rest.substr(open + 1, close - open - 1);
        if (own_file.empty() ? path.ends_with(".cu") : is_file(path, own_file)) {
            own_files_.insert(number);
        }
    }
}

int SourceLines::at(const Location& location) {
    if (own(location)) return static_cast<int>(location.line);
    lines_[location] = 0;
    return 0;
}

int SourceLines::inlined(const Location& location, const Location& caller) {
    // Line 0 is of code that the compiler made of several places.
    if (own(location) && location.line != 0) return static_cast<int>(location.line);
    int line = 0;
    if (own(caller)) {
        line = static_cast<int>(caller.line);
    } else if (const auto known = lines_.find(caller); known != lines_.end()) {
        line = known->second;
    }
    lines_[location] = line;
    return line;
}

}  // namespace kernelforge::emulator::ptx
