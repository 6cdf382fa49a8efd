// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulator/pure_lanes.hpp"

// Floating point of a lane: formats, rounding, NaNs. Everything is branchless where it is meant to
// be vectorised.

namespace kernelforge::emulator::KERNELFORGE_ISA {

// NaNs as NVIDIA's hardware gives them; the ISA leaves the bits open for all but f64.
inline constexpr u32 nan_f32 = 0x7fff'ffff;
inline constexpr u16 nan_16 = 0x7fff;  // of f16 and bf16
inline constexpr u64 nan_f64 = 0xfff8'0000'0000'0000;
inline constexpr u64 quiet_f64 = 0x0008'0000'0000'0000;

/// With `ftz`, subnormal numbers become zeros of their sign.
template <bool ftz>
[[gnu::always_inline]] inline float flushed(float value) {
    if constexpr (!ftz) return value;
    const u32 bits = bit_cast<u32>(value);
    return bit_cast<float>((bits & 0x7f80'0000) == 0 ? bits & 0x8000'0000 : bits);
}
template <bool ftz>
[[gnu::always_inline]] inline F16 flushed(F16 value) {
    if constexpr (!ftz) return value;
    return {static_cast<u16>((value.bits & 0x7c00) == 0 ? value.bits & 0x8000 : value.bits)};
}
template <bool ftz>
[[gnu::always_inline]] inline Bf16 flushed(Bf16 value) {
    if constexpr (!ftz) return value;
    return {static_cast<u16>((value.bits & 0x7f80) == 0 ? value.bits & 0x8000 : value.bits)};
}

[[gnu::always_inline]] inline float canonical(float value) {
    return value == value ? value : bit_cast<float>(nan_f32);
}

/// Clamped to [0, 1]; NaN and -0 become +0.
template <bool sat, class T>
[[gnu::always_inline]] inline T saturated_unit(T value) {
    if constexpr (!sat) return value;
    const T raised = value > T{0} ? value : T{0};
    return raised < T{1} ? raised : T{1};
}

/// What every f32 instruction does with its result.
template <bool ftz, bool sat>
[[gnu::always_inline]] inline float finished(float value) {
    return saturated_unit<sat>(canonical(flushed<ftz>(value)));
}

/// f64 keeps the payload of the first NaN among the sources, made quiet.
[[gnu::always_inline]] inline double finished(double value, double a, double b, double c) {
    const u64 chosen = a != a   ? bit_cast<u64>(a) | quiet_f64
                       : b != b ? bit_cast<u64>(b) | quiet_f64
                       : c != c ? bit_cast<u64>(c) | quiet_f64
                                : nan_f64;
    return value == value ? value : bit_cast<double>(chosen);
}

/// Exact. NaNs become the canonical one.
[[gnu::always_inline]] inline float to_float(F16 value) {
    // The exponent is moved; subnormal numbers get their value by a subtraction of what the moved
    // exponent added (F. Giesen, "half to float done quic").
    const u32 moved = (value.bits & 0x7fffU) << 13;
    const u32 exponent = moved & 0x0f80'0000;
    const u32 normal = moved + ((127U - 15U) << 23);
    const u32 special = normal + ((128U - 16U) << 23);
    const float small = bit_cast<float>(normal + (1U << 23)) - bit_cast<float>(113U << 23);
    u32 bits = exponent == 0 ? bit_cast<u32>(small) : exponent == 0x0f80'0000 ? special : normal;
    bits |= (value.bits & 0x8000U) << 16;
    return canonical(bit_cast<float>(bits));
}
/// Exact; a NaN's bits stay, as the hardware does it by a shift.
[[gnu::always_inline]] inline float to_float(Bf16 value) {
    return bit_cast<float>(u32{value.bits} << 16);
}

/// To nearest even; needs the default rounding mode.
[[gnu::always_inline]] inline F16 to_f16(float value) {
    const u32 all = bit_cast<u32>(value);
    const u32 sign = all & 0x8000'0000;
    const u32 bits = all ^ sign;
    // A sum whose last place is that of f16's subnormal numbers rounds them.
    constexpr u32 magic = ((127U - 15U) + (23U - 10U) + 1U) << 23;
    const u32 small = bit_cast<u32>(bit_cast<float>(bits) + bit_cast<float>(magic)) - magic;
    const u32 normal = (bits - ((127U - 15U) << 23) + 0xfff + ((bits >> 13) & 1U)) >> 13;
    u32 half = bits < (113U << 23) ? small : normal;
    half = bits >= (143U << 23) ? 0x7c00U : half;
    half |= sign >> 16;
    return {static_cast<u16>(bits > 0x7f80'0000 ? nan_16 : half)};
}
[[gnu::always_inline]] inline Bf16 to_bf16(float value) {
    const u32 bits = bit_cast<u32>(value);
    const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1U)) >> 16;
    return {static_cast<u16>(value == value ? rounded : u32{nan_16})};
}
template <class T>
[[gnu::always_inline]] inline T to_half(float value) {
    if constexpr (std::is_same_v<T, F16>)
        return to_f16(value);
    else
        return to_bf16(value);
}

/// a * b + c of f32 values, rounded to odd: a further rounding to a much shorter format is then as
/// if it were the only one (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums",
/// 2008). The product of two f32 is exact in f64. Needs the default rounding mode.
[[gnu::always_inline]] inline double fma_to_odd(float a, float b, float c) {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    const double addend = c;
    const double sum = product + addend;
    const double part = sum - product;
    const double error = (product - (sum - part)) + (addend - part);
    const u64 bits = bit_cast<u64>(sum);
    const bool inexact = error > 0 || error < 0;  // false where it is NaN beside an infinite sum
    const u64 step = (error > 0) == (sum > 0) ? u64{1} : ~u64{0};
    return bit_cast<double>(inexact && (bits & 1) == 0 ? bits + step : bits);
}
/// f64 to f32, rounded to odd.
[[gnu::always_inline]] inline float to_float_to_odd(double value) {
    const float near = static_cast<float>(value);
    const double back = near;
    const u32 bits = bit_cast<u32>(near);
    const bool above = (value > 0 && back > value) || (value < 0 && back < value);
    const bool inexact = back > value || back < value;
    return bit_cast<float>(inexact ? (bits - (above ? 1U : 0U)) | 1U : bits);
}

template <Rounding mode>
[[gnu::always_inline]] inline float fma_f32(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    if constexpr (mode == Rounding::rn) return static_cast<float>(fma_to_odd(a, b, c));
    return __builtin_fmaf(a, b, c);  // libm's, in the rounding mode that the scope has set
#endif
}

/// Binary format `1 + exponent_bits + mantissa_bits`.
struct Format {
    int exponent_bits, mantissa_bits;
    /// Bits of the greatest finite value.
    u64 greatest = (((u64{1} << exponent_bits) - 1) << mantissa_bits) - 1;
};
inline constexpr Format format_f64{11, 52};
inline constexpr Format format_f32{8, 23};
inline constexpr Format format_tf32{8, 10};
inline constexpr Format format_bf16{8, 7};
inline constexpr Format format_f16{5, 10};
inline constexpr Format format_e5m2{5, 2};
inline constexpr Format format_e4m3{4, 3, 0x7e};

/// Rounding to nearest with ties away from zero exists in `cvt.rna.tf32` only.
enum class Nearest { even, away };

/// Bits, without the sign, of `significand * 2^exponent` (significand not 0) rounded; beyond the
/// greatest value, infinity's bits are `greatest + 1`.
template <Format format, Rounding mode, Nearest nearest = Nearest::even>
inline u64 encoded(bool negative, u64 significand, int exponent) {
    constexpr int bias = (1 << (format.exponent_bits - 1)) - 1;
    const int top = exponent + 63 - __builtin_clzll(significand);
    const int scale = top < 1 - bias ? 1 - bias : top;
    if (scale > bias + 1) {  // e4m3 has finite values with the exponent bias + 1
        return mode == Rounding::rn || (mode == Rounding::rp && !negative) ||
                       (mode == Rounding::rm && negative)
                   ? format.greatest + 1
                   : format.greatest;
    }
    const int drop = scale - format.mantissa_bits - exponent;
    u64 kept = 0, half = 0, rest = 0;
    if (drop <= 0) {
        kept = significand << -drop;
    } else if (drop > 64) {
        rest = 1;
        half = 2;
    } else {
        half = u64{1} << (drop - 1);
        kept = drop == 64 ? 0 : significand >> drop;
        rest = drop == 64 ? significand : significand & (2 * half - 1);
    }
    bool up = false;
    if (mode == Rounding::rn) {
        up = rest > half ||
             (rest == half && half != 0 && (nearest == Nearest::away || (kept & 1) != 0));
    } else if (mode != Rounding::rz) {
        up = rest != 0 && negative == (mode == Rounding::rm);
    }
    kept += up ? 1 : 0;
    const u64 bits = (static_cast<u64>(scale + bias - 1) << format.mantissa_bits) + kept;
    if (bits <= format.greatest) return bits;
    const bool to_infinity =
        mode == Rounding::rn || (mode != Rounding::rz && negative == (mode == Rounding::rm));
    return to_infinity ? format.greatest + 1 : format.greatest;
}

/// The same of a double that may be anything; with the sign; NaN gives `nan`.
template <Format format, Rounding mode, Nearest nearest = Nearest::even>
inline u64 encoded(double value, u64 nan) {
    const u64 all = bit_cast<u64>(value);
    const u64 bits = all & ~(u64{1} << 63);
    const bool negative = all != bits;
    const u64 sign = u64{negative} << (format.exponent_bits + format.mantissa_bits);
    if (bits > 0x7ff0'0000'0000'0000) return nan;
    if (bits == 0x7ff0'0000'0000'0000) return sign | (format.greatest + 1);
    if (bits == 0) return sign;
    const int exponent = static_cast<int>(bits >> 52);
    const u64 fraction = bits & ((u64{1} << 52) - 1);
    if (exponent == 0) return sign | encoded<format, mode, nearest>(negative, fraction, -1074);
    return sign |
           encoded<format, mode, nearest>(negative, fraction | (u64{1} << 52), exponent - 1075);
}

/// min and max of floats: the number beside a NaN, -0 below +0.
template <class T>
[[gnu::always_inline]] inline T least_number(T a, T b) {
    const bool a_negative = __builtin_signbit(a) != 0;
    const T least = a < b || (a == b && a_negative) ? a : b;
    return b != b ? a : least;
}
template <class T>
[[gnu::always_inline]] inline T greatest_number(T a, T b) {
    const bool b_negative = __builtin_signbit(b) != 0;
    const T greatest = a > b || (a == b && b_negative) ? a : b;
    return b != b ? a : greatest;
}

template <class F>
void for_roundings(F f) {
    f.template operator()<Rounding::rn>("rn");
    f.template operator()<Rounding::rz>("rz");
    f.template operator()<Rounding::rm>("rm");
    f.template operator()<Rounding::rp>("rp");
}
/// Calls `f.operator()<flag>(word)` without and with the modifier.
template <class F>
void with_and_without(const char* word, F f) {
    f.template operator()<false>("");
    f.template operator()<true>(word);
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
