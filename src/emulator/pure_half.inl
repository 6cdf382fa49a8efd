// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_numbers.hpp"

// Arithmetic of f16, f16x2, bf16 and bf16x2. Sums and products are computed in f32, which rounds
// them harmlessly: 24 bits are at least twice 11 and two more (S. Figueroa, "When is double
// rounding innocuous?", 1995). Fused ones go through a value rounded to odd (S. Boldo, G.
// Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

namespace kernelforge::emulator::KERNELFORGE_ISA {
namespace {

template <class T, bool ftz, bool sat, bool relu>
T half_result(float value) {
    value = saturated_unit<sat>(value);
    if (relu) value = value > 0 ? value : value == value ? 0.0F : value;
    return flushed<ftz>(to_half<T>(value));
}
template <bool ftz, class T>
float source(T a) {
    return to_float(flushed<ftz>(a));
}

/// a + b rounded to odd: what a sum to nearest leaves out says on which side of it the exact one
/// lies.
template <class Bits, class T>
[[gnu::always_inline]] inline Bits sum_to_odd(T a, T b) {
    const T sum = a + b;
    const T part = sum - a;
    const T error = (a - (sum - part)) + (b - part);
    const Bits bits = bit_cast<Bits>(sum);
    const Bits inexact =
        error > 0 || error < 0 ? 1 : 0;  // 0 where it is NaN beside an infinite sum
    const Bits beyond = (bits ^ bit_cast<Bits>(error)) >> (8 * sizeof(T) - 1);
    return (bits - (beyond & inexact)) | inexact;
}
/// a * b + c, from which one rounding to T gives the right result. A product of two f16 is exact in
/// f32, one of two bf16 in f64.
template <class T>
[[gnu::always_inline]] inline float fused(float a, float b, float c) {
    if constexpr (std::is_same_v<T, F16>) return bit_cast<float>(sum_to_odd<u32>(a * b, c));
    const double product = static_cast<double>(a) * static_cast<double>(b);
    const u64 bits = sum_to_odd<u64>(product, static_cast<double>(c));
    // To odd in 12 bits, which f32 holds even where it is subnormal and bf16 is not all zero.
    constexpr u64 dropped = (u64{1} << 41) - 1;
    const u64 sticky = (bits & dropped) != 0 ? dropped + 1 : 0;
    return static_cast<float>(bit_cast<double>((bits & ~dropped) | sticky));
}

PureName with_type(PureName name, const char* type) {
    int count = 0;
    while (name.words[count] != nullptr) ++count;
    name.words[count] = type;
    return name;
}

/// `F`, a function of numbers T, listed for T and for two of T.
template <class T, class F>
void add_unary(PureRegistry& r, const PureName& name, F) {
    add(r, with_type(name, type_name<T>()), [](T a) -> T { return F{}(a); });
    add(r, with_type(name, type_name<Two<T>>()), [](Two<T> a) -> Two<T> {
        return {F{}(a.low), F{}(a.high)};
    });
}
template <class T, class F>
void add_binary(PureRegistry& r, const PureName& name, F) {
    add(r, with_type(name, type_name<T>()), [](T a, T b) -> T { return F{}(a, b); });
    add(r, with_type(name, type_name<Two<T>>()), [](Two<T> a, Two<T> b) -> Two<T> {
        return {F{}(a.low, b.low), F{}(a.high, b.high)};
    });
}
template <class T, class F>
void add_ternary(PureRegistry& r, const PureName& name, F) {
    add(r, with_type(name, type_name<T>()), [](T a, T b, T c) -> T { return F{}(a, b, c); });
    add(r, with_type(name, type_name<Two<T>>()), [](Two<T> a, Two<T> b, Two<T> c) -> Two<T> {
        return {F{}(a.low, b.low, c.low), F{}(a.high, b.high, c.high)};
    });
}

template <class T, bool ftz, bool sat>
void list_sums(PureRegistry& r) {
    const char* flush = ftz ? "ftz" : "";
    const char* saturate = sat ? "sat" : "";
    add_binary<T>(r, {{"add", flush, saturate}}, [](T a, T b) {
        return half_result<T, ftz, sat, false>(source<ftz>(a) + source<ftz>(b));
    });
    add_binary<T>(r, {{"sub", flush, saturate}}, [](T a, T b) {
        return half_result<T, ftz, sat, false>(source<ftz>(a) - source<ftz>(b));
    });
    add_binary<T>(r, {{"mul", flush, saturate}}, [](T a, T b) {
        return half_result<T, ftz, sat, false>(source<ftz>(a) * source<ftz>(b));
    });
}
template <class T, bool ftz, bool sat, bool relu>
void list_fused(PureRegistry& r) {
    add_ternary<T>(r, {{"fma", ftz ? "ftz" : "", sat ? "sat" : "", relu ? "relu" : ""}},
                   [](T a, T b, T c) {
                       return half_result<T, ftz, sat, relu>(
                           fused<T>(source<ftz>(a), source<ftz>(b), source<ftz>(c)));
                   });
}

template <class T, bool ftz, bool nan, bool xorsign, bool greatest>
T extreme(T a, T b) {
    float x = source<ftz>(a);
    float y = source<ftz>(b);
    const u32 sign = (a.bits ^ b.bits) & 0x8000U;
    if (xorsign) {
        x = __builtin_fabsf(x);
        y = __builtin_fabsf(y);
    }
    const float chosen = greatest ? greatest_number(x, y) : least_number(x, y);
    const u32 bits = to_half<T>(chosen).bits | (xorsign && chosen == chosen ? sign : 0);
    return {static_cast<u16>(nan && (x != x || y != y) ? nan_16 : bits)};
}
template <class T, bool ftz>
void list_extremes(PureRegistry& r) {
    const char* flush = ftz ? "ftz" : "";
    with_and_without("NaN", [&]<bool nan>(const char* nans) {
        add_binary<T>(r, {{"min", flush, nans}},
                      [](T a, T b) { return extreme<T, ftz, nan, false, false>(a, b); });
        add_binary<T>(r, {{"max", flush, nans}},
                      [](T a, T b) { return extreme<T, ftz, nan, false, true>(a, b); });
        add_binary<T>(r, {{"min", flush, nans, "xorsign", "abs"}},
                      [](T a, T b) { return extreme<T, ftz, nan, true, false>(a, b); });
        add_binary<T>(r, {{"max", flush, nans, "xorsign", "abs"}},
                      [](T a, T b) { return extreme<T, ftz, nan, true, true>(a, b); });
    });
}
template <class T, bool ftz>
void list_signs(PureRegistry& r) {
    const char* flush = ftz ? "ftz" : "";
    add_unary<T>(r, {{"abs", flush}},
                 [](T a) { return to_half<T>(__builtin_fabsf(source<ftz>(a))); });
    add_unary<T>(r, {{"neg", flush}}, [](T a) { return to_half<T>(-source<ftz>(a)); });
}

/// Two lanes' worth of a function of libm; lanes outside the mask are left out.
template <class T, class F>
void add_unary_by_lane(PureRegistry& r, const PureName& name, F) {
    add_by_lane(r, with_type(name, type_name<T>()), [](T a) -> T { return F{}(a); });
    add_by_lane(r, with_type(name, type_name<Two<T>>()), [](Two<T> a) -> Two<T> {
        return {F{}(a.low), F{}(a.high)};
    });
}
template <class T, bool ftz>
void list_approximations(PureRegistry& r) {
    add_unary_by_lane<T>(r, {{"ex2", "approx", ftz ? "ftz" : ""}}, [](T a) {
        const double value = __builtin_exp2(source<ftz>(a));
        return half_result<T, ftz, false, false>(to_float_to_odd(value));
    });
    if constexpr (!ftz) {
        add_unary_by_lane<T>(r, {{"tanh", "approx"}}, [](T a) {
            return to_half<T>(to_float_to_odd(__builtin_tanh(source<false>(a))));
        });
    }
}

template <class T, bool ftz>
void list_all(PureRegistry& r) {
    list_sums<T, ftz, false>(r);
    list_sums<T, ftz, true>(r);
    list_fused<T, ftz, false, false>(r);
    list_fused<T, ftz, true, false>(r);
    list_fused<T, ftz, false, true>(r);
    list_extremes<T, ftz>(r);
    list_signs<T, ftz>(r);
    list_approximations<T, ftz>(r);
}

}  // namespace

void list_half(PureRegistry& registry) {
    list_all<F16, false>(registry);
    list_all<F16, true>(registry);
    list_all<Bf16, false>(registry);
    list_approximations<Bf16, true>(registry);
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
