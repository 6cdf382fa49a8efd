// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_module.hpp"

#include <algorithm>
#include <array>

#include "emulator/ptx_parser.hpp"

namespace kernelforge::emulator {
namespace {

struct TypeFact {
    std::string_view word;
    Type type = Type::none;
    int bytes = 0;
};

constexpr std::array<TypeFact, 25> type_facts = {
    {{"pred", Type::pred, 0},     {"b8", Type::b8, 1},         {"b16", Type::b16, 2},
     {"b32", Type::b32, 4},       {"b64", Type::b64, 8},       {"u8", Type::u8, 1},
     {"u16", Type::u16, 2},       {"u32", Type::u32, 4},       {"u64", Type::u64, 8},
     {"s8", Type::s8, 1},         {"s16", Type::s16, 2},       {"s32", Type::s32, 4},
     {"s64", Type::s64, 8},       {"f16", Type::f16, 2},       {"f16x2", Type::f16x2, 4},
     {"bf16", Type::bf16, 2},     {"bf16x2", Type::bf16x2, 4}, {"tf32", Type::tf32, 4},
     {"e4m3", Type::e4m3, 1},     {"e5m2", Type::e5m2, 1},     {"e4m3x2", Type::e4m3x2, 2},
     {"e5m2x2", Type::e5m2x2, 2}, {"f32", Type::f32, 4},       {"f32x2", Type::f32x2, 8},
     {"f64", Type::f64, 8}}};

}  // namespace

int bytes_of(Type type) noexcept {
    for (const TypeFact& fact : type_facts) {
        if (fact.type == type) return fact.bytes;
    }
    return 0;
}

bool is_signed(Type type) noexcept {
    return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

std::optional<Type> parse_type(std::string_view word) noexcept {
    for (const TypeFact& fact : type_facts) {
        if (fact.word == word) return fact.type;
    }
    return std::nullopt;
}

bool Instruction::has(std::string_view modifier) const noexcept {
    return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string Instruction::full_name() const {
    std::string result = opcode;
    for (const std::string& modifier : modifiers) result += "." + modifier;
    return result;
}

const Function* Module::find_function(std::string_view name) const noexcept {
    const auto found = std::find_if(functions.begin(), functions.end(),
                                    [name](const Function& f) { return f.name == name; });
    return found == functions.end() ? nullptr : &*found;
}

Module parse_ptx(std::string_view text, std::string_view own_file) {
    // NVRTC gives a text with its NUL.
    while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
    return ptx::Parser(text, own_file).read();
}

}  // namespace kernelforge::emulator
