// SPDX-License-Identifier: Apache-2.0
#include "emulator/async_combine.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "emulator/matrix_numbers.hpp"

namespace kernelforge::emulator {

namespace {

using Combine = MemoryOp::Combine;

template <class T>
T value_of(std::uint64_t bits) {
    return static_cast<T>(bits);
}

template <class T>
std::uint64_t bits_of(T value) {
    return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

// T is the unsigned or signed integer type of the element.
template <class T, Combine combine>
std::uint64_t combine_integer(std::uint64_t old_bits, std::uint64_t operand_bits,
                              std::uint64_t second_bits) {
    const T old = value_of<T>(old_bits);
    const T operand = value_of<T>(operand_bits);
    if constexpr (combine == Combine::exchange) return bits_of(operand);
    if constexpr (combine == Combine::compare_exchange) {
        return bits_of(old == operand ? value_of<T>(second_bits) : old);
    }
    if constexpr (combine == Combine::add) {
        return bits_of(value_of<T>(old_bits + operand_bits));
    }
    if constexpr (combine == Combine::min) return bits_of(std::min(old, operand));
    if constexpr (combine == Combine::max) return bits_of(std::max(old, operand));
    if constexpr (combine == Combine::inc) {
        return bits_of(old >= operand ? T{0} : static_cast<T>(old + 1));
    }
    if constexpr (combine == Combine::dec) {
        return bits_of(old == 0 || old > operand ? operand : static_cast<T>(old - 1));
    }
    if constexpr (combine == Combine::bit_and) return bits_of(static_cast<T>(old & operand));
    if constexpr (combine == Combine::bit_or) return bits_of(static_cast<T>(old | operand));
    if constexpr (combine == Combine::bit_xor) return bits_of(static_cast<T>(old ^ operand));
}

template <class T>
CombineFn find_integer(Combine combine) {
    switch (combine) {
        case Combine::none:
            return nullptr;
        case Combine::exchange:
            return combine_integer<T, Combine::exchange>;
        case Combine::compare_exchange:
            return combine_integer<T, Combine::compare_exchange>;
        case Combine::add:
            return combine_integer<T, Combine::add>;
        case Combine::min:
            return combine_integer<T, Combine::min>;
        case Combine::max:
            return combine_integer<T, Combine::max>;
        case Combine::inc:
            return std::is_unsigned_v<T> ? combine_integer<T, Combine::inc> : nullptr;
        case Combine::dec:
            return std::is_unsigned_v<T> ? combine_integer<T, Combine::dec> : nullptr;
        case Combine::bit_and:
            return combine_integer<T, Combine::bit_and>;
        case Combine::bit_or:
            return combine_integer<T, Combine::bit_or>;
        case Combine::bit_xor:
            return combine_integer<T, Combine::bit_xor>;
    }
    return nullptr;
}

float flushed(float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value;
}

template <Subnormals subnormals>
std::uint64_t add_f32(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
    float left = std::bit_cast<float>(static_cast<std::uint32_t>(old));
    float right = std::bit_cast<float>(static_cast<std::uint32_t>(operand));
    if constexpr (subnormals == Subnormals::flush) {
        left = flushed(left);
        right = flushed(right);
    }
    float sum = left + right;
    if constexpr (subnormals == Subnormals::flush) sum = flushed(sum);
    return std::isnan(sum) ? canonical_nan_f32 : std::bit_cast<std::uint32_t>(sum);
}

std::uint64_t add_f64(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
    return std::bit_cast<std::uint64_t>(std::bit_cast<double>(old) +
                                        std::bit_cast<double>(operand));
}

struct HalfFormat {
    static float value(std::uint16_t bits) { return f32_of_f16(bits); }
    static std::uint16_t bits(float value) { return f16_of(value); }
};
struct BrainFormat {
    static float value(std::uint16_t bits) { return f32_of_bf16(bits); }
    static std::uint16_t bits(float value) { return bf16_of(value); }
};

// Of two zeros the negative one is less; a NaN loses against a number.
bool precedes(float left, float right) {
    return left < right || (left == right && std::signbit(left) && !std::signbit(right)) ||
           (std::isnan(right) && !std::isnan(left));
}

// f32 holds every sum of two such values closely enough that rounding it again is rounding once:
// its 24 bits are at least 2 * 11 + 2.
template <class Format, Combine combine>
std::uint16_t combine_16(std::uint16_t old, std::uint16_t operand) {
    const float left = Format::value(old);
    const float right = Format::value(operand);
    if constexpr (combine == Combine::add) {
        return Format::bits(left + right);
    } else {
        if (std::isnan(left) && std::isnan(right)) return canonical_nan_16;
        if (std::isnan(left) || std::isnan(right)) return std::isnan(left) ? operand : old;
        const bool first = combine == Combine::min ? precedes(left, right) : precedes(right, left);
        return first ? old : operand;
    }
}

template <class Format, Combine combine, int elements>
std::uint64_t combine_halves(std::uint64_t old, std::uint64_t operand, std::uint64_t) {
    std::uint64_t result = 0;
    for (int i = 0; i < elements; ++i) {
        result |= static_cast<std::uint64_t>(
                      combine_16<Format, combine>(static_cast<std::uint16_t>(old >> (16 * i)),
                                                  static_cast<std::uint16_t>(operand >> (16 * i))))
                  << (16 * i);
    }
    return result;
}

template <class Format, int elements>
CombineFn find_halves(Combine combine) {
    switch (combine) {
        case Combine::add:
            return combine_halves<Format, Combine::add, elements>;
        case Combine::min:
            return combine_halves<Format, Combine::min, elements>;
        case Combine::max:
            return combine_halves<Format, Combine::max, elements>;
        default:
            return nullptr;
    }
}

CombineFn find_f32(Combine combine, Subnormals subnormals) {
    if (combine == Combine::exchange) return find_integer<std::uint32_t>(combine);
    if (combine != Combine::add) return nullptr;
    return subnormals == Subnormals::flush ? add_f32<Subnormals::flush> : add_f32<Subnormals::keep>;
}

CombineFn find_f64(Combine combine) {
    if (combine == Combine::exchange) return find_integer<std::uint64_t>(combine);
    return combine == Combine::add ? add_f64 : nullptr;
}

template <class T>
std::uint64_t combine_word(std::byte* at, CombineFn combine, std::uint64_t operand,
                           std::uint64_t second) {
    std::atomic_ref<T> word(*reinterpret_cast<T*>(at));
    T old = word.load();
    while (!word.compare_exchange_weak(old, static_cast<T>(combine(old, operand, second)))) {
    }
    return old;
}

}  // namespace

CombineFn find_combine(Combine combine, Type type, Subnormals subnormals) noexcept {
    switch (type) {
        case Type::b16:
        case Type::u16:
            return find_integer<std::uint16_t>(combine);
        case Type::b32:
        case Type::u32:
            return find_integer<std::uint32_t>(combine);
        case Type::b64:
        case Type::u64:
            return find_integer<std::uint64_t>(combine);
        case Type::s32:
            return find_integer<std::int32_t>(combine);
        case Type::s64:
            return find_integer<std::int64_t>(combine);
        case Type::f32:
            return find_f32(combine, subnormals);
        case Type::f64:
            return find_f64(combine);
        case Type::f16:
            return find_halves<HalfFormat, 1>(combine);
        case Type::bf16:
            return find_halves<BrainFormat, 1>(combine);
        case Type::f16x2:
            return find_halves<HalfFormat, 2>(combine);
        case Type::bf16x2:
            return find_halves<BrainFormat, 2>(combine);
        default:
            return nullptr;
    }
}

std::uint64_t combine_in_memory(std::byte* at, int bytes, CombineFn combine, std::uint64_t operand,
                                std::uint64_t second) noexcept {
    if (bytes == 2) return combine_word<std::uint16_t>(at, combine, operand, second);
    if (bytes == 4) return combine_word<std::uint32_t>(at, combine, operand, second);
    return combine_word<std::uint64_t>(at, combine, operand, second);
}

void reduce_in_memory(std::byte* to, const std::byte* from, std::size_t bytes, int element_bytes,
                      CombineFn combine) noexcept {
    const auto element = static_cast<std::size_t>(element_bytes);
    for (std::size_t i = 0; i < bytes; i += element) {
        std::uint64_t operand = 0;
        std::memcpy(&operand, from + i, element);
        combine_in_memory(to + i, element_bytes, combine, operand);
    }
}

}  // namespace kernelforge::emulator
