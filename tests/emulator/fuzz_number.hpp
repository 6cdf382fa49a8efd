// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

// Arithmetic of the host's evaluation: exact in 113 bits, rounded once, by integers. It shares
// nothing with the emulator's.

namespace kernelforge::fuzz {

/// Of values in kernels. In front of the host's types of these names, which it must not shadow.
enum class Type : std::uint8_t {
    boolean,
    s8,
    u8,
    s16,
    u16,
    s32,
    u32,
    s64,
    u64,
    f16,
    bf16,
    f32,
    f64
};
inline constexpr int type_count = 13;

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;
struct f16 {
    u16 bits = 0;
};
struct bf16 {
    u16 bits = 0;
};
__extension__ using Quad = __float128;
__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

struct Format {
    int exponent_bits, fraction_bits;
};
enum class Rounding { nearest, zero, up, down };
/// How CUDA C++ and PTX write them.
struct RoundingName {
    Rounding rounding;
    std::string_view letters;
};
inline constexpr RoundingName rounding_names[] = {{Rounding::nearest, "rn"},
                                                  {Rounding::zero, "rz"},
                                                  {Rounding::up, "ru"},
                                                  {Rounding::down, "rd"}};

/// `value` plus something of the sign of `rest` that is less than half of `value`'s last place.
struct Exact {
    Quad value = 0;
    int rest = 0;
};
/// To the format's bits.
[[nodiscard]] u64 round_to(Format format, Exact exact, Rounding mode);
/// `zero_mode`: the mode decides the sign of an exact zero sum.
[[nodiscard]] Exact sum(Quad a, Quad b, Rounding zero_mode);
[[nodiscard]] Quad decode(Format format, u64 bits);
/// Square root rounded to f64 in a mode.
[[nodiscard]] double root(double value, Rounding mode);
/// To an integral value; halfway cases to even.
[[nodiscard]] Quad integral(Quad value, Rounding mode);
[[nodiscard]] bool negative(Quad value);

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<f16> {
    static constexpr Format format{5, 10};
    using Bits = u16;
};
template <>
struct FloatTraits<bf16> {
    static constexpr Format format{8, 7};
    using Bits = u16;
};
template <>
struct FloatTraits<f32> {
    static constexpr Format format{8, 23};
    using Bits = u32;
};
template <>
struct FloatTraits<f64> {
    static constexpr Format format{11, 52};
    using Bits = u64;
};
template <class T>
constexpr bool is_float =
    std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
[[nodiscard]] Quad quad(T value) {
    if constexpr (std::is_floating_point_v<T>) {
        return value;
    } else {
        return decode(FloatTraits<T>::format, value.bits);
    }
}
template <class T>
[[nodiscard]] T from_bits(u64 bits) {
    return std::bit_cast<T>(static_cast<typename FloatTraits<T>::Bits>(bits));
}
template <class T>
[[nodiscard]] T rounded(Exact exact, Rounding mode = Rounding::nearest) {
    return from_bits<T>(round_to(FloatTraits<T>::format, exact, mode));
}
template <class T>
[[nodiscard]] bool is_nan(T value) {
    const Quad wide = quad(value);
    return wide != wide;
}

template <class T>
[[nodiscard]] T add(T a, T b, Rounding mode = Rounding::nearest) {
    return rounded<T>(sum(quad(a), quad(b), mode), mode);
}
template <class T>
[[nodiscard]] T subtract(T a, T b, Rounding mode = Rounding::nearest) {
    return rounded<T>(sum(quad(a), -quad(b), mode), mode);
}
template <class T>
[[nodiscard]] T multiply(T a, T b, Rounding mode = Rounding::nearest) {
    return rounded<T>({quad(a) * quad(b), 0}, mode);
}
template <class T>
[[nodiscard]] T multiply_add(T a, T b, T c, Rounding mode = Rounding::nearest) {
    return rounded<T>(sum(quad(a) * quad(b), quad(c), mode), mode);
}
/// A quotient of at most 53 bits by 53 bits is never so near a boundary that 113 bits mislead.
template <class T>
[[nodiscard]] T divide(T a, T b, Rounding mode = Rounding::nearest) {
    return rounded<T>({quad(a) / quad(b), 0}, mode);
}

/// Saturates; NaN gives 0, or the highest bit where source or destination has 64 bits.
template <class I>
[[nodiscard]] I to_integer(Quad value, Rounding mode, bool from_f64) {
    using Limits = std::numeric_limits<I>;
    if (value != value) {
        return sizeof(I) == 8 || from_f64 ? static_cast<I>(I{1} << (sizeof(I) * 8 - 1)) : I{0};
    }
    const Quad whole = integral(value, mode);
    if (whole <= static_cast<Quad>(Limits::min())) return Limits::min();
    if (whole >= static_cast<Quad>(Limits::max())) return Limits::max();
    return static_cast<I>(whole);
}

/// The number beside a NaN; -0 is less than +0.
template <class T>
[[nodiscard]] T least(T a, T b) {
    const Quad x = quad(a), y = quad(b);
    if (x != x) return b;
    if (y != y) return a;
    if (x == 0 && y == 0) return negative(x) ? a : b;
    return x < y ? a : b;
}
template <class T>
[[nodiscard]] T greatest(T a, T b) {
    const Quad x = quad(a), y = quad(b);
    if (x != x) return b;
    if (y != y) return a;
    if (x == 0 && y == 0) return negative(x) ? b : a;
    return x > y ? a : b;
}

}  // namespace kernelforge::fuzz
