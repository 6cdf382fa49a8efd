// SPDX-License-Identifier: Apache-2.0
#include "fuzz_ops.hpp"

#include <cstdio>

namespace kernelforge::fuzz {
namespace {

struct TypeFacts {
    const char* name;
    std::size_t bytes;
    const char* open;   ///< of a literal: before its bits
    const char* close;  ///< and after
};
constexpr TypeFacts facts[type_count] = {
    {"bool", 1, "(", " != 0)"},
    {"s8", 1, "(s8)(", ")"},
    {"u8", 1, "(u8)(", ")"},
    {"s16", 2, "(s16)(", ")"},
    {"u16", 2, "(u16)(", ")"},
    {"s32", 4, "(s32)(", "u)"},
    {"u32", 4, "(", "u)"},
    {"s64", 8, "(s64)(", "ull)"},
    {"u64", 8, "(", "ull)"},
    {"f16", 2, "__ushort_as_half(", ")"},
    {"bf16", 2, "__ushort_as_bfloat16(", ")"},
    {"f32", 4, "__uint_as_float(", "u)"},
    {"f64", 8, "__longlong_as_double((s64)(", "ull))"},
};
const TypeFacts& facts_of(Type type) {
    return facts[static_cast<int>(type)];
}

const char* constraint_of(Type type) {
    switch (type) {
        case Type::f32:
            return "f";
        case Type::f64:
            return "d";
        default:
            return bytes_of(type) == 8 ? "l" : bytes_of(type) == 4 ? "r" : "h";
    }
}

}  // namespace

const char* name_of(Type type) {
    return facts_of(type).name;
}
std::size_t bytes_of(Type type) {
    return facts_of(type).bytes;
}
bool is_integer(Type type) {
    return type > Type::boolean && type < Type::f16;
}

bool is_nan(Type type, u64 bits) {
    switch (type) {
        case Type::f16:
            return is_nan(value_of<f16>(bits));
        case Type::bf16:
            return is_nan(value_of<bf16>(bits));
        case Type::f32:
            return is_nan(value_of<f32>(bits));
        case Type::f64:
            return is_nan(value_of<f64>(bits));
        default:
            return false;
    }
}

std::string literal(Type type, u64 bits) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(bits));
    return facts_of(type).open + std::string(digits) + facts_of(type).close;
}

std::string OperationList::helper_of(const Operation& operation, const std::string& name,
                                     const std::string& text) {
    const bool one = text.back() == ' ';  // an opcode, whose operands are to follow
    std::string parameters, operands, inputs;
    for (std::size_t i = 0; i < operation.arguments.size(); ++i) {
        const std::string letter(1, static_cast<char>('a' + i));
        const std::string comma = i > 0 ? ", " : "";
        parameters += comma + name_of(operation.arguments[i]) + " " + letter;
        operands += ", %" + std::to_string(i + 1);
        inputs += comma + "\"" + constraint_of(operation.arguments[i]) + "\"(" + letter + ")";
    }
    const std::string result = name_of(operation.result);
    return "__device__ __forceinline__ " + result + " " + name + "(" + parameters + ") {\n    " +
           result + " result;\n    asm(\"" + text + (one ? "%0" + operands + ";" : "") +
           "\" : \"=" + constraint_of(operation.result) + "\"(result) : " + inputs +
           ");\n    return result;\n}\n";
}

const std::vector<Operation>& all_operations() {
    static const std::vector<Operation> all = [] {
        OperationList list;
        list_integer_operations(list);
        list_float_operations(list);
        list_half_operations(list);
        return list.operations;
    }();
    return all;
}

}  // namespace kernelforge::fuzz
