// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_numbers.hpp"

// cvt.

namespace kernelforge::emulator::KERNELFORGE_ISA {
namespace {

using AllIntegers = TypeList<u8, u16, u32, u64, s8, s16, s32, s64>;

template <class T>
constexpr int bits_v = static_cast<int>(sizeof(T) * 8);
template <class T>
constexpr bool is_half_v = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;
template <class T>
constexpr T greatest_of = static_cast<T>((std::make_unsigned_t<T>(~std::make_unsigned_t<T>{0})) >>
                                         (std::is_signed_v<T> ? 1 : 0));
template <class T>
constexpr T least_of = static_cast<T>(~greatest_of<T>*(std::is_signed_v<T> ? 1 : 0));

/// -1, 0, 1: whether `a` is below, inside or above what To holds.
template <class To, class From>
int side_of(From a) {
    constexpr u64 top = static_cast<u64>(greatest_of<To>);
    if constexpr (std::is_signed_v<From>) {
        if (a < 0) {
            if constexpr (!std::is_signed_v<To>) return -1;
            return static_cast<s64>(a) < static_cast<s64>(least_of<To>) ? -1 : 0;
        }
    }
    return static_cast<u64>(a) > top ? 1 : 0;
}
template <class To, class From, bool sat>
To integer_of(From a) {
    if constexpr (!sat) return static_cast<To>(a);
    const int side = side_of<To>(a);
    return side < 0 ? least_of<To> : side > 0 ? greatest_of<To> : static_cast<To>(a);
}

/// T extended into a register of `bits`.
template <class T, int bits>
using Extended = std::conditional_t<
    bits == 64, std::conditional_t<std::is_signed_v<T>, s64, u64>,
    std::conditional_t<
        bits == 32, std::conditional_t<std::is_signed_v<T>, s32, u32>,
        std::conditional_t<sizeof(T) == 1, std::conditional_t<std::is_signed_v<T>, s16, u16>, T>>>;

template <class To, class From, bool sat, int to_bits>
void list_integer_pair(PureRegistry& r, const char* to, const char* from, const char* extended) {
    using Register = Extended<To, to_bits>;
    const char* saturate = sat ? "sat" : "";
    add(r, {{"cvt", saturate, to, from, extended}},
        [](From a) -> Register { return static_cast<Register>(integer_of<To, From, sat>(a)); });
    if constexpr (sizeof(From) < 8) {
        add(r, {{"cvt", saturate, to, from, "from64", extended}}, [](u64 a) -> Register {
            return static_cast<Register>(integer_of<To, From, sat>(static_cast<From>(a)));
        });
    }
}
void list_integers(PureRegistry& r) {
    for_types(AllIntegers{}, [&]<class To>(const char* to) {
        for_types(AllIntegers{}, [&]<class From>(const char* from) {
            with_and_without("sat", [&]<bool sat>(const char*) {
                list_integer_pair<To, From, sat, 0>(r, to, from, "");
                if constexpr (sizeof(To) < 4 && std::is_signed_v<To>) {
                    list_integer_pair<To, From, sat, 32>(r, to, from, "to32");
                }
                if constexpr (sizeof(To) < 8) {
                    list_integer_pair<To, From, sat, 64>(r, to, from, "to64");
                }
            });
        });
    });
}

template <Rounding mode, class T>
T integral(T value) {
    if constexpr (sizeof(T) == 4) {
        if constexpr (mode == Rounding::rn) return __builtin_rintf(value);
        if constexpr (mode == Rounding::rz) return __builtin_truncf(value);
        if constexpr (mode == Rounding::rm) return __builtin_floorf(value);
        return __builtin_ceilf(value);
    } else {
        if constexpr (mode == Rounding::rn) return __builtin_rint(value);
        if constexpr (mode == Rounding::rz) return __builtin_trunc(value);
        if constexpr (mode == Rounding::rm) return __builtin_floor(value);
        return __builtin_ceil(value);
    }
}
/// f32 or f64 of any float, exact.
template <class From>
auto number_of(From a) {
    if constexpr (is_half_v<From>)
        return to_float(a);
    else
        return a;
}

/// Clamped to To. NaN gives 0, but the top bit alone where either type has 64 bits (PTX ISA, cvt).
template <class To, Rounding mode, class T>
To clamped(T value) {
    const T whole = integral<mode>(value);
    constexpr T above = static_cast<T>(u64{1} << (bits_v<To> - 1)) * (std::is_signed_v<To> ? 1 : 2);
    constexpr T below = std::is_signed_v<To> ? -above : T{0};
    constexpr bool wide = sizeof(T) == 8 || sizeof(To) == 8;
    constexpr To nan = wide ? static_cast<To>(u64{1} << (bits_v<To> - 1)) : To{0};
    const bool inside = whole >= below && whole < above;
    const To result = static_cast<To>(inside ? whole : T{0});
    const To outside = whole >= above ? greatest_of<To> : whole < below ? least_of<To> : nan;
    return inside ? result : outside;
}

template <class To, class From, Rounding mode, bool ftz, int to_bits>
void list_to_integer(PureRegistry& r, const char* rounding, const char* to, const char* from,
                     const char* extended) {
    using Register = Extended<To, to_bits>;
    const PureEntry entry = entry_of([](From a) -> Register {
        if constexpr (std::is_same_v<From, float>) a = flushed<ftz>(a);
        return static_cast<Register>(clamped<To, mode>(number_of(a)));
    });
    const char* flush = ftz ? "ftz" : "";
    r.add({{"cvt", rounding, flush, to, from, extended}}, entry);
    r.add({{"cvt", rounding, flush, "sat", to, from, extended}}, entry);  // clamped anyway
}
template <class From, bool ftz>
void list_to_integers(PureRegistry& r) {
    const char* from = type_name<From>();
    for_types(AllIntegers{}, [&]<class To>(const char* to) {
        const auto list = [&]<Rounding mode>(const char* rounding) {
            list_to_integer<To, From, mode, ftz, 0>(r, rounding, to, from, "");
            if constexpr (sizeof(To) < 4 && std::is_signed_v<To>) {
                list_to_integer<To, From, mode, ftz, 32>(r, rounding, to, from, "to32");
            }
        };
        list.template operator()<Rounding::rn>("rni");
        list.template operator()<Rounding::rz>("rzi");
        list.template operator()<Rounding::rm>("rmi");
        list.template operator()<Rounding::rp>("rpi");
    });
}

template <class T>
constexpr Format format_of = std::is_same_v<T, F16>    ? format_f16
                             : std::is_same_v<T, Bf16> ? format_bf16
                             : sizeof(T) == 4          ? format_f32
                                                       : format_f64;

template <class To, Rounding mode, class From>
To float_of(From a) {
    if (a == 0) return bit_cast<To>(typename Lane<To>::Bits{0});
    const bool negative = a < 0;
    const u64 magnitude = negative ? u64{0} - static_cast<u64>(a) : static_cast<u64>(a);
    constexpr Format format = format_of<To>;
    const u64 bits = encoded<format, mode>(negative, magnitude, 0);
    const u64 sign = u64{negative} << (format.exponent_bits + format.mantissa_bits);
    return bit_cast<To>(static_cast<typename Lane<To>::Bits>(bits | sign));
}

void list_from_integers(PureRegistry& r) {
    for_types(AllIntegers{}, [&]<class From>(const char* from) {
        for_types(types<float, double, F16, Bf16>, [&]<class To>(const char* to) {
            for_roundings([&]<Rounding mode>(const char* rounding) {
                constexpr bool native = mode == Rounding::rn && !is_half_v<To>;
                if constexpr (native) {
                    add(r, {{"cvt", rounding, to, from}},
                        [](From a) -> To { return static_cast<To>(a); });
                } else {
                    add_by_lane(r, {{"cvt", rounding, to, from}},
                                [](From a) -> To { return float_of<To, mode>(a); });
                }
                add_by_lane(r, {{"cvt", rounding, "sat", to, from}}, [](From a) -> To {
                    return float_of<To, Rounding::rn>(static_cast<s32>(a > 0));
                });
            });
        });
    });
}

/// What is done to a number between its types.
struct Steps {
    Rounding mode = Rounding::rn;
    bool ftz = false, sat = false, relu = false, satfinite = false;
};
template <Steps steps, class T>
T prepared(T value) {
    if constexpr (sizeof(T) == 4) value = flushed<steps.ftz>(value);
    value = saturated_unit<steps.sat>(value);
    if (steps.relu) value = value > 0 ? value : value == value ? T{0} : value;
    return value;
}
/// The bits of a value in a short format; with satfinite infinity becomes the greatest value.
template <Format format, Steps steps>
u64 short_bits(double value, u64 nan) {
    if (value != value) return nan;
    const u64 bits = encoded<format, steps.mode>(value, nan);
    constexpr u64 sign = u64{1} << (format.exponent_bits + format.mantissa_bits);
    const bool beyond = steps.satfinite && (bits & ~sign) > format.greatest;
    return beyond ? (bits & sign) | format.greatest : bits;
}

template <class To, Steps steps, class From>
To converted(From a) {
    const auto value = prepared<steps>(number_of(a));
    if constexpr (std::is_same_v<To, float>) {
        return finished<steps.ftz, false>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, double>) {
        return static_cast<double>(value);
    } else if constexpr (steps.mode == Rounding::rn && sizeof(value) == 4 && !steps.satfinite) {
        return to_half<To>(value);
    } else {
        return {static_cast<u16>(short_bits<format_of<To>, steps>(value, nan_16))};
    }
}

template <class To, class From, Steps steps>
void list_float_pair(PureRegistry& r, const char* rounding) {
    const PureName name{{"cvt", rounding, steps.ftz ? "ftz" : "", steps.relu ? "relu" : "",
                         steps.sat ? "sat" : "", steps.satfinite ? "satfinite" : "",
                         type_name<To>(), type_name<From>()}};
    constexpr bool by_bits =
        is_half_v<To> && (steps.mode != Rounding::rn || sizeof(From) == 8 || steps.satfinite);
    const auto function = [](From a) -> To { return converted<To, steps>(a); };
    if constexpr (by_bits)
        add_by_lane(r, name, function);
    else
        add_rounded<steps.mode>(r, name, function);
}
/// Conversions that lose nothing take no rounding.
template <class To, class From, bool ftz>
void list_exact(PureRegistry& r) {
    list_float_pair<To, From, Steps{.ftz = ftz}>(r, "");
    list_float_pair<To, From, Steps{.ftz = ftz, .sat = true}>(r, "");
}
template <class To, class From, bool ftz>
void list_rounded(PureRegistry& r) {
    for_roundings([&]<Rounding mode>(const char* rounding) {
        list_float_pair<To, From, Steps{.mode = mode, .ftz = ftz}>(r, rounding);
        list_float_pair<To, From, Steps{.mode = mode, .ftz = ftz, .sat = true}>(r, rounding);
    });
}
template <class To, class From, Rounding mode>
void list_clamped(PureRegistry& r, const char* rounding) {
    list_float_pair<To, From, Steps{.mode = mode, .relu = true}>(r, rounding);
    list_float_pair<To, From, Steps{.mode = mode, .satfinite = true}>(r, rounding);
    list_float_pair<To, From, Steps{.mode = mode, .relu = true, .satfinite = true}>(r, rounding);
}

template <class T, bool ftz>
void list_integral(PureRegistry& r) {
    const auto list = [&]<Rounding mode>(const char* rounding) {
        with_and_without("sat", [&]<bool sat>(const char* saturate) {
            add(r, {{"cvt", rounding, ftz ? "ftz" : "", saturate, type_name<T>(), type_name<T>()}},
                [](T a) -> T {
                    constexpr Steps steps{.ftz = ftz, .sat = sat};
                    const auto value =
                        prepared<steps>(integral<mode>(prepared<Steps{.ftz = ftz}>(number_of(a))));
                    if constexpr (is_half_v<T>)
                        return to_half<T>(value);
                    else if constexpr (sizeof(T) == 4)
                        return canonical(value);
                    else
                        return value;
                });
        });
    };
    list.template operator()<Rounding::rn>("rni");
    list.template operator()<Rounding::rz>("rzi");
    list.template operator()<Rounding::rm>("rmi");
    list.template operator()<Rounding::rp>("rpi");
}

void list_floats(PureRegistry& r) {
    list_exact<float, float, false>(r);
    list_exact<float, float, true>(r);
    list_exact<double, double, false>(r);
    list_exact<F16, F16, false>(r);
    list_exact<Bf16, Bf16, false>(r);
    list_exact<float, F16, false>(r);
    list_exact<float, F16, true>(r);
    list_exact<double, F16, false>(r);
    list_exact<double, Bf16, false>(r);
    list_exact<double, float, false>(r);
    list_exact<double, float, true>(r);
    // A shift, even of NaNs.
    add(r, {{"cvt", "f32", "bf16"}}, [](Bf16 a) -> float { return to_float(a); });
    list_float_pair<float, Bf16, Steps{.sat = true}>(r, "");
    list_rounded<float, double, false>(r);
    list_rounded<float, double, true>(r);
    list_rounded<F16, float, false>(r);
    list_rounded<F16, float, true>(r);
    list_rounded<F16, double, false>(r);
    list_rounded<F16, Bf16, false>(r);
    list_rounded<Bf16, float, false>(r);
    list_rounded<Bf16, float, true>(r);
    list_rounded<Bf16, double, false>(r);
    list_rounded<Bf16, F16, false>(r);
    list_clamped<F16, float, Rounding::rn>(r, "rn");
    list_clamped<F16, float, Rounding::rz>(r, "rz");
    list_clamped<Bf16, float, Rounding::rn>(r, "rn");
    list_clamped<Bf16, float, Rounding::rz>(r, "rz");
    list_integral<float, false>(r);
    list_integral<float, true>(r);
    list_integral<double, false>(r);
    list_integral<F16, false>(r);
    list_integral<Bf16, false>(r);
}

template <Steps steps, Nearest nearest = Nearest::even>
float tf32_of(float a) {
    const float value = prepared<steps>(a);
    u64 bits = encoded<format_tf32, steps.mode, nearest>(static_cast<double>(value), ~u64{0});
    if (bits == ~u64{0}) return bit_cast<float>(nan_f32);
    if (steps.satfinite && (bits & 0x3'ffff) > format_tf32.greatest) {
        bits = (bits & 0x4'0000) | format_tf32.greatest;
    }
    return bit_cast<float>(static_cast<u32>(bits) << 13);
}
void list_tf32(PureRegistry& r) {
    add_by_lane(r, {{"cvt", "rna", "tf32", "f32"}},
                [](float a) -> float { return tf32_of<Steps{}, Nearest::away>(a); });
    add_by_lane(r, {{"cvt", "rna", "satfinite", "tf32", "f32"}}, [](float a) -> float {
        return tf32_of<Steps{.satfinite = true}, Nearest::away>(a);
    });
    with_and_without("relu", [&]<bool relu>(const char* clamp) {
        with_and_without("satfinite", [&]<bool satfinite>(const char* finite) {
            add_by_lane(r, {{"cvt", "rn", clamp, finite, "tf32", "f32"}}, [](float a) -> float {
                return tf32_of<Steps{.relu = relu, .satfinite = satfinite}>(a);
            });
            add_by_lane(r, {{"cvt", "rz", clamp, finite, "tf32", "f32"}}, [](float a) -> float {
                return tf32_of<Steps{.mode = Rounding::rz, .relu = relu, .satfinite = satfinite}>(
                    a);
            });
        });
    });
}

/// Two f32 into one register, the first operand into the high half.
template <class T, Steps steps>
void list_two_halves(PureRegistry& r, const char* rounding) {
    add(r,
        {{"cvt", rounding, steps.relu ? "relu" : "", steps.satfinite ? "satfinite" : "",
          type_name<Two<T>>(), "f32"}},
        [](float high, float low) -> Two<T> {
            return {converted<T, steps>(low), converted<T, steps>(high)};
        });
}
/// The same into 8-bit floats.
template <Format format, bool relu>
void list_two_bytes(PureRegistry& r, const char* to) {
    static constexpr Steps steps{.relu = relu, .satfinite = true};
    const char* clamp = relu ? "relu" : "";
    add_by_lane(r, {{"cvt", "rn", "satfinite", clamp, to, "f32"}},
                [](float high, float low) -> u16 {
                    const u64 high_bits = short_bits<format, steps>(prepared<steps>(high), 0x7f);
                    const u64 low_bits = short_bits<format, steps>(prepared<steps>(low), 0x7f);
                    return static_cast<u16>((high_bits << 8) | low_bits);
                });
    add_by_lane(r, {{"cvt", "rn", "satfinite", clamp, to, "f16x2"}}, [](Two<F16> a) -> u16 {
        const u64 high_bits = short_bits<format, steps>(prepared<steps>(to_float(a.high)), 0x7f);
        const u64 low_bits = short_bits<format, steps>(prepared<steps>(to_float(a.low)), 0x7f);
        return static_cast<u16>((high_bits << 8) | low_bits);
    });
}

/// Exact. e5m2 is the high byte of f16.
float of_e5m2(u32 byte) {
    return to_float(F16{static_cast<u16>(byte << 8)});
}
float of_e4m3(u32 byte) {
    const u32 magnitude = byte & 0x7f;
    const float value = to_float(F16{static_cast<u16>(magnitude << 7)}) * 256.0F;
    const float signed_value = (byte & 0x80) != 0 ? -value : value;
    return magnitude == 0x7f ? bit_cast<float>(nan_f32) : signed_value;
}
template <bool relu, float (*decode)(u32)>
Two<F16> halves_of_bytes(u16 bytes) {
    constexpr Steps steps{.relu = relu};
    return {to_f16(prepared<steps>(decode(bytes & 0xffU))),
            to_f16(prepared<steps>(decode(bytes >> 8U)))};
}

void list_pairs(PureRegistry& r) {
    with_and_without("relu", [&]<bool relu>(const char* clamp) {
        with_and_without("satfinite", [&]<bool satfinite>(const char*) {
            constexpr Steps rn{.relu = relu, .satfinite = satfinite};
            constexpr Steps rz{.mode = Rounding::rz, .relu = relu, .satfinite = satfinite};
            list_two_halves<F16, rn>(r, "rn");
            list_two_halves<F16, rz>(r, "rz");
            list_two_halves<Bf16, rn>(r, "rn");
            list_two_halves<Bf16, rz>(r, "rz");
        });
        list_two_bytes<format_e4m3, relu>(r, "e4m3x2");
        list_two_bytes<format_e5m2, relu>(r, "e5m2x2");
        add(r, {{"cvt", "rn", clamp, "f16x2", "e4m3x2"}},
            [](u16 a) -> Two<F16> { return halves_of_bytes<relu, of_e4m3>(a); });
        add(r, {{"cvt", "rn", clamp, "f16x2", "e5m2x2"}},
            [](u16 a) -> Two<F16> { return halves_of_bytes<relu, of_e5m2>(a); });
    });
}

/// cvt.pack: `a` clamped above `b` clamped; below 16 bits `c` is moved up and they come in below
/// it.
template <int bits, bool is_signed>
u32 clamped_bits(s32 a) {
    constexpr s32 greatest = (1 << (is_signed ? bits - 1 : bits)) - 1;
    constexpr s32 least = is_signed ? -greatest - 1 : 0;
    const s32 value = a < least ? least : a > greatest ? greatest : a;
    return static_cast<u32>(value) & ((1U << bits) - 1);
}
template <int bits, bool is_signed>
void list_pack(PureRegistry& r, const char* type) {
    if constexpr (bits == 16) {
        add(r, {{"cvt", "pack", "sat", type, "s32"}}, [](s32 a, s32 b) -> u32 {
            return (clamped_bits<16, is_signed>(a) << 16) | clamped_bits<16, is_signed>(b);
        });
    } else {
        add(r, {{"cvt", "pack", "sat", type, "s32", "b32"}}, [](s32 a, s32 b, u32 c) -> u32 {
            const u32 two =
                (clamped_bits<bits, is_signed>(a) << bits) | clamped_bits<bits, is_signed>(b);
            return (c << (2 * bits)) | two;
        });
    }
}

}  // namespace

void list_convert(PureRegistry& registry) {
    list_integers(registry);
    list_to_integers<float, false>(registry);
    list_to_integers<float, true>(registry);
    list_to_integers<double, false>(registry);
    list_to_integers<F16, false>(registry);
    list_to_integers<Bf16, false>(registry);
    list_from_integers(registry);
    list_floats(registry);
    list_tf32(registry);
    list_pairs(registry);
    list_pack<16, true>(registry, "s16");
    list_pack<16, false>(registry, "u16");
    list_pack<8, true>(registry, "s8");
    list_pack<8, false>(registry, "u8");
    list_pack<4, true>(registry, "s4");
    list_pack<4, false>(registry, "u4");
    list_pack<2, true>(registry, "s2");
    list_pack<2, false>(registry, "u2");
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
