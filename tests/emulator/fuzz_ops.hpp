// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fuzz_number.hpp"

// Operations of random kernels: each with its text in CUDA C++ and its meaning on the host.

namespace kernelforge::fuzz {

/// Its name in the kernels.
[[nodiscard]] const char* name_of(Type type);
[[nodiscard]] std::size_t bytes_of(Type type);
[[nodiscard]] bool is_integer(Type type);
[[nodiscard]] bool is_nan(Type type, u64 bits);
/// The bits as an expression of the type, in CUDA C++.
[[nodiscard]] std::string literal(Type type, u64 bits);

template <class T>
constexpr Type type_of() {
    if constexpr (std::is_same_v<T, bool>) return Type::boolean;
    if constexpr (std::is_same_v<T, s8>) return Type::s8;
    if constexpr (std::is_same_v<T, u8>) return Type::u8;
    if constexpr (std::is_same_v<T, s16>) return Type::s16;
    if constexpr (std::is_same_v<T, u16>) return Type::u16;
    if constexpr (std::is_same_v<T, s32>) return Type::s32;
    if constexpr (std::is_same_v<T, u32>) return Type::u32;
    if constexpr (std::is_same_v<T, s64>) return Type::s64;
    if constexpr (std::is_same_v<T, u64>) return Type::u64;
    if constexpr (std::is_same_v<T, f16>) return Type::f16;
    if constexpr (std::is_same_v<T, bf16>) return Type::bf16;
    if constexpr (std::is_same_v<T, f32>) return Type::f32;
    if constexpr (std::is_same_v<T, f64>) return Type::f64;
}

/// A value lies in 64 bits, those beyond its type are 0.
template <class T>
[[nodiscard]] T value_of(u64 bits) {
    if constexpr (is_float<T>) {
        return from_bits<T>(bits);
    } else {
        return static_cast<T>(bits);
    }
}
template <class T>
[[nodiscard]] u64 bits_of(T value) {
    if constexpr (is_float<T>) {
        return std::bit_cast<typename FloatTraits<T>::Bits>(value);
    } else if constexpr (std::is_same_v<T, bool>) {
        return value ? 1 : 0;
    } else {
        return static_cast<std::make_unsigned_t<T>>(value);
    }
}

struct Operation {
    Type result = Type::u32;
    std::vector<Type> arguments;
    std::string text;    ///< of CUDA C++; $0, $1 … are the arguments
    std::string helper;  ///< a device function that `text` calls, or nothing
    std::function<u64(const u64*)> evaluate;
    /// An operator that the compiler may contract unless told not to.
    bool contracts = false;
    bool needs_sm90 = false;
};

/// Makes an operation of a function of plain values; its types are those of the function.
template <class Function>
struct Signature : Signature<decltype(&Function::operator())> {};
template <class Class, class R, class... A>
struct Signature<R (Class::*)(A...) const> {
    using Result = R;
    static constexpr std::size_t count = sizeof...(A);
    static std::vector<Type> types() { return {type_of<A>()...}; }
    template <class Function, std::size_t... at>
    static u64 call(const Function& function, const u64* values, std::index_sequence<at...>) {
        return bits_of<R>(function(value_of<A>(values[at])...));
    }
};

class OperationList {
  public:
    /// `text` in CUDA C++.
    template <class Function>
    Operation& add(std::string text, Function function) {
        using S = Signature<Function>;
        Operation made;
        made.result = type_of<typename S::Result>();
        made.arguments = S::types();
        made.text = std::move(text);
        made.evaluate = [function](const u64* values) {
            return S::call(function, values, std::make_index_sequence<S::count>{});
        };
        operations.push_back(std::move(made));
        return operations.back();
    }
    /// A function `name` of the arguments in order.
    template <class Function>
    Operation& call(const std::string& name, Function function) {
        Operation& made = add("", function);
        made.text = name + "(";
        for (std::size_t i = 0; i < made.arguments.size(); ++i) {
            made.text += (i > 0 ? ", $" : "$") + std::to_string(i);
        }
        made.text += ")";
        return made;
    }
    /// One instruction of PTX; its operands are the result and the arguments.
    template <class Function>
    Operation& instruction(const std::string& opcode, Function function) {
        return assembly(opcode + " ", function);
    }
    /// PTX of which `%0` is the result and `%1` on are the arguments.
    template <class Function>
    Operation& block(const std::string& body, Function function) {
        return assembly("{" + body + "}", function);
    }

    std::vector<Operation> operations;

  private:
    template <class Function>
    Operation& assembly(const std::string& text, Function function) {
        const std::string name = "ptx_" + std::to_string(operations.size());
        Operation& made = call(name, function);
        made.helper = helper_of(made, name, text);
        return made;
    }
    static std::string helper_of(const Operation& operation, const std::string& name,
                                 const std::string& text);
};

void list_integer_operations(OperationList& list);
void list_float_operations(OperationList& list);
void list_half_operations(OperationList& list);
/// All of them, once. [any]
[[nodiscard]] const std::vector<Operation>& all_operations();

}  // namespace kernelforge::fuzz
