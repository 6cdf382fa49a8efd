// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_scopes.hpp"

#include <charconv>

namespace kernelforge::emulator::ptx {

bool Scopes::open() {
    const std::size_t depth = scopes_[current_].depth + 1;
    if (depth > most_depth) return false;
    Scope scope;
    scope.parent = current_;
    scope.depth = depth;
    current_ = scopes_.size();
    scopes_.push_back(std::move(scope));
    return true;
}

bool Scopes::close() {
    if (current_ == 0) return false;
    current_ = scopes_[current_].parent;
    return true;
}

std::string Scopes::unique(std::string_view name, std::size_t scope) const {
    std::string result(name);
    if (scope != 0) result += "@" + std::to_string(scope);
    return result;
}

Name* Scopes::declare(std::string_view name, Name::What what, Type type) {
    const auto [at, added] = scopes_[current_].names.try_emplace(name);
    if (!added) return nullptr;
    at->second = {what, type, unique(name, current_), false};
    return &at->second;
}

bool Scopes::declare_range(std::string_view prefix, std::uint64_t count, Type type) {
    return scopes_[current_].ranges.try_emplace(prefix, Range{count, type}).second;
}

Name* Scopes::find_in(std::string_view name, std::size_t scope) {
    Scope& where = scopes_[scope];
    if (const auto at = where.names.find(name); at != where.names.end()) return &at->second;
    if (where.ranges.empty()) return nullptr;
    // The digits at the end may be split between prefix and number in several ways.
    constexpr std::size_t most_digits = 8;
    for (std::size_t digits = 1; digits <= most_digits && digits < name.size(); ++digits) {
        const std::string_view tail = name.substr(name.size() - digits);
        if (tail.front() < '0' || tail.front() > '9') return nullptr;
        if (tail.front() == '0' && digits > 1) continue;
        const auto range = where.ranges.find(name.substr(0, name.size() - digits));
        if (range == where.ranges.end()) continue;
        std::uint64_t number = 0;
        std::from_chars(tail.data(), tail.data() + tail.size(), number);
        if (number >= range->second.count) return nullptr;
        Name& added = where.names[name];
        added = {Name::What::reg, range->second.type, unique(name, scope), false};
        return &added;
    }
    return nullptr;
}

const Name* Scopes::find(std::string_view name, std::size_t scope) {
    while (true) {
        if (Name* const found = find_in(name, scope)) {
            found->used = true;
            return found;
        }
        if (scope == 0) return nullptr;
        scope = scopes_[scope].parent;
    }
}

std::map<std::string, Type> Scopes::used_registers() const {
    std::map<std::string, Type> result;
    for (const Scope& scope : scopes_) {
        for (const auto& [text, name] : scope.names) {
            if (name.what == Name::What::reg && name.used) result.emplace(name.unique, name.type);
        }
    }
    return result;
}

}  // namespace kernelforge::emulator::ptx
