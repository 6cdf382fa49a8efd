// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_numbers.hpp"

// f32 and f64 arithmetic.

namespace kernelforge::emulator::KERNELFORGE_ISA {
namespace {

void list_f32_sums(PureRegistry& r) {
    for_roundings([&]<Rounding mode>(const char* rounding) {
        with_and_without("ftz", [&]<bool ftz>(const char* flush) {
            with_and_without("sat", [&]<bool sat>(const char* saturate) {
                add_rounded<mode>(r, {{"add", rounding, flush, saturate, "f32"}},
                                  [](float a, float b) -> float {
                                      return finished<ftz, sat>(flushed<ftz>(a) + flushed<ftz>(b));
                                  });
                add_rounded<mode>(r, {{"sub", rounding, flush, saturate, "f32"}},
                                  [](float a, float b) -> float {
                                      return finished<ftz, sat>(flushed<ftz>(a) - flushed<ftz>(b));
                                  });
                add_rounded<mode>(r, {{"mul", rounding, flush, saturate, "f32"}},
                                  [](float a, float b) -> float {
                                      return finished<ftz, sat>(flushed<ftz>(a) * flushed<ftz>(b));
                                  });
                const auto fused = [](float a, float b, float c) -> float {
                    return finished<ftz, sat>(
                        fma_f32<mode>(flushed<ftz>(a), flushed<ftz>(b), flushed<ftz>(c)));
                };
                add_rounded<mode>(r, {{"fma", rounding, flush, saturate, "f32"}}, fused);
                add_rounded<mode>(r, {{"mad", rounding, flush, saturate, "f32"}}, fused);
            });
        });
    });
}

void list_f32_quotients(PureRegistry& r) {
    for_roundings([&]<Rounding mode>(const char* rounding) {
        with_and_without("ftz", [&]<bool ftz>(const char* flush) {
            add_rounded<mode>(r, {{"div", rounding, flush, "f32"}}, [](float a, float b) -> float {
                return finished<ftz, false>(flushed<ftz>(a) / flushed<ftz>(b));
            });
            add_rounded<mode>(r, {{"rcp", rounding, flush, "f32"}}, [](float a) -> float {
                return finished<ftz, false>(1.0F / flushed<ftz>(a));
            });
            add_rounded<mode>(r, {{"sqrt", rounding, flush, "f32"}}, [](float a) -> float {
                return finished<ftz, false>(__builtin_sqrtf(flushed<ftz>(a)));
            });
        });
    });
}

void list_f64(PureRegistry& r) {
    for_roundings([&]<Rounding mode>(const char* rounding) {
        const auto fused = [](double a, double b, double c) -> double {
            return finished(__builtin_fma(a, b, c), a, b, c);
        };
        add_rounded<mode>(r, {{"add", rounding, "f64"}},
                          [](double a, double b) -> double { return finished(a + b, a, b, b); });
        add_rounded<mode>(r, {{"sub", rounding, "f64"}},
                          [](double a, double b) -> double { return finished(a - b, a, b, b); });
        add_rounded<mode>(r, {{"mul", rounding, "f64"}},
                          [](double a, double b) -> double { return finished(a * b, a, b, b); });
        add_rounded<mode>(r, {{"fma", rounding, "f64"}}, fused);
        add_rounded<mode>(r, {{"mad", rounding, "f64"}}, fused);
        add_rounded<mode>(r, {{"div", rounding, "f64"}},
                          [](double a, double b) -> double { return finished(a / b, a, b, b); });
        add_rounded<mode>(r, {{"rcp", rounding, "f64"}},
                          [](double a) -> double { return finished(1.0 / a, a, a, a); });
        add_rounded<mode>(r, {{"sqrt", rounding, "f64"}},
                          [](double a) -> double { return finished(__builtin_sqrt(a), a, a, a); });
    });
}

/// 2^x for f32 x: the integral part into the exponent, the rest by its series, whose first term
/// left out is below 1e-13.
double exp2_of(float x) {
    const double limited = x > 200.0F ? 200.0 : x < -200.0F ? -200.0 : static_cast<double>(x);
    constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52: a sum is an integer in its low bits
    const double shifted = limited + magic;
    const double t = (limited - (shifted - magic)) * 0.693147180559945309417;
    double sum = 1.0 / 3628800;
    sum = sum * t + 1.0 / 362880;
    sum = sum * t + 1.0 / 40320;
    sum = sum * t + 1.0 / 5040;
    sum = sum * t + 1.0 / 720;
    sum = sum * t + 1.0 / 120;
    sum = sum * t + 1.0 / 24;
    sum = sum * t + 1.0 / 6;
    sum = sum * t + 0.5;
    sum = sum * t + 1.0;
    sum = sum * t + 1.0;
    return sum * bit_cast<double>((bit_cast<u64>(shifted) + 1023) << 52);
}

/// log2 of f32 x: m in [sqrt(1/2), sqrt(2)) by the series of atanh((m - 1) / (m + 1)), the first
/// term left out below 1e-16.
double log2_of(float x) {
    const u64 bits = bit_cast<u64>(static_cast<double>(x));
    const u64 fraction = bits & 0x000f'ffff'ffff'ffff;
    const bool upper = fraction > 0x0006'a09e'667f'3bcd;  // above sqrt(2)
    const u64 exponent = ((bits >> 52) & 0x7ff) + (upper ? 1 : 0);
    const double m = bit_cast<double>(fraction | (upper ? u64{0x3fe} << 52 : u64{0x3ff} << 52));
    const double s = (m - 1.0) / (m + 1.0);
    const double q = s * s;
    double sum = 1.0 / 19;
    for (const double term :
         {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) {
        sum = sum * q + term;
    }
    // 2^52 + exponent as bits, less 2^52 and the bias.
    const double e = bit_cast<double>(exponent | 0x4330'0000'0000'0000) - 4503599627371519.0;
    const double value = e + sum * s * 2.885390081777926814720;  // 2 / ln 2
    const double edge = x == 0 ? -__builtin_inf() : x > 0 ? __builtin_inf() : __builtin_nan("");
    return x > 0 && x < __builtin_inff() ? value : edge;
}

/// a * (1/b) as `div.approx` is documented: a divisor above 2^126 gives 0, or NaN for infinite a.
float approximate_quotient(float a, float b) {
    const float size = __builtin_fabsf(b);
    const bool beyond = size > 0x1p126F && size < __builtin_inff();
    const float scaled = a * __builtin_copysignf(0.0F, b);
    return beyond ? scaled : a / b;
}

void list_approximations(PureRegistry& r) {
    with_and_without("ftz", [&]<bool ftz>(const char* flush) {
        add(r, {{"div", "approx", flush, "f32"}}, [](float a, float b) -> float {
            return finished<ftz, false>(approximate_quotient(flushed<ftz>(a), flushed<ftz>(b)));
        });
        add(r, {{"div", "full", flush, "f32"}}, [](float a, float b) -> float {
            return finished<ftz, false>(flushed<ftz>(a) / flushed<ftz>(b));
        });
        add(r, {{"rcp", "approx", flush, "f32"}},
            [](float a) -> float { return finished<ftz, false>(1.0F / flushed<ftz>(a)); });
        add(r, {{"sqrt", "approx", flush, "f32"}}, [](float a) -> float {
            return finished<ftz, false>(__builtin_sqrtf(flushed<ftz>(a)));
        });
        add(r, {{"rsqrt", "approx", flush, "f32"}}, [](float a) -> float {
            const double root = __builtin_sqrt(static_cast<double>(flushed<ftz>(a)));
            return finished<ftz, false>(static_cast<float>(1.0 / root));
        });
        add(r, {{"ex2", "approx", flush, "f32"}}, [](float a) -> float {
            return finished<ftz, false>(static_cast<float>(exp2_of(flushed<ftz>(a))));
        });
        add(r, {{"lg2", "approx", flush, "f32"}}, [](float a) -> float {
            return finished<ftz, false>(static_cast<float>(log2_of(flushed<ftz>(a))));
        });
        add_by_lane(r, {{"sin", "approx", flush, "f32"}}, [](float a) -> float {
            return finished<ftz, false>(static_cast<float>(__builtin_sin(flushed<ftz>(a))));
        });
        add_by_lane(r, {{"cos", "approx", flush, "f32"}}, [](float a) -> float {
            return finished<ftz, false>(static_cast<float>(__builtin_cos(flushed<ftz>(a))));
        });
    });
    add_by_lane(r, {{"tanh", "approx", "f32"}}, [](float a) -> float {
        return finished<false, false>(static_cast<float>(__builtin_tanh(a)));
    });
}

/// The high word of the f64 approximations' result is all there is.
double high_word(double value) {
    return bit_cast<double>(bit_cast<u64>(value) & 0xffff'ffff'0000'0000);
}
double flushed_f64(double value) {
    const u64 bits = bit_cast<u64>(value);
    return bit_cast<double>((bits & (u64{0x7ff} << 52)) == 0 ? bits & (u64{1} << 63) : bits);
}
double canonical_high(double value) {
    return value == value ? high_word(value) : bit_cast<double>(0x7fff'ffff'0000'0000);
}

void list_f64_approximations(PureRegistry& r) {
    add(r, {{"rcp", "approx", "ftz", "f64"}}, [](double a) -> double {
        return canonical_high(flushed_f64(1.0 / high_word(flushed_f64(a))));
    });
    add(r, {{"rsqrt", "approx", "ftz", "f64"}}, [](double a) -> double {
        return canonical_high(1.0 / __builtin_sqrt(high_word(flushed_f64(a))));
    });
    add(r, {{"rsqrt", "approx", "f64"}},
        [](double a) -> double { return finished(1.0 / __builtin_sqrt(a), a, a, a); });
}

/// min/max with their modifiers; `xorsign`: of the magnitudes, with the product's sign.
template <bool ftz, bool nan, bool xorsign>
float extreme(float a, float b, float (*choose)(float, float)) {
    a = flushed<ftz>(a);
    b = flushed<ftz>(b);
    const u32 sign = (bit_cast<u32>(a) ^ bit_cast<u32>(b)) & 0x8000'0000;
    if (xorsign) {
        a = __builtin_fabsf(a);
        b = __builtin_fabsf(b);
    }
    float chosen = choose(a, b);
    if (nan) chosen = a != a || b != b ? bit_cast<float>(nan_f32) : chosen;
    if (chosen != chosen) return bit_cast<float>(nan_f32);
    return xorsign ? bit_cast<float>(bit_cast<u32>(chosen) | sign) : chosen;
}

void list_f32_extremes(PureRegistry& r) {
    with_and_without("ftz", [&]<bool ftz>(const char* flush) {
        with_and_without("NaN", [&]<bool nan>(const char* nans) {
            add(r, {{"min", flush, nans, "f32"}}, [](float a, float b) -> float {
                return extreme<ftz, nan, false>(a, b, least_number<float>);
            });
            add(r, {{"max", flush, nans, "f32"}}, [](float a, float b) -> float {
                return extreme<ftz, nan, false>(a, b, greatest_number<float>);
            });
            add(r, {{"min", flush, nans, "xorsign", "abs", "f32"}}, [](float a, float b) -> float {
                return extreme<ftz, nan, true>(a, b, least_number<float>);
            });
            add(r, {{"max", flush, nans, "xorsign", "abs", "f32"}}, [](float a, float b) -> float {
                return extreme<ftz, nan, true>(a, b, greatest_number<float>);
            });
        });
    });
}

/// Classes of numbers that testp tells apart, by the exponent's and the fraction's bits.
template <class T>
void list_tests(PureRegistry& r, const char* type) {
    using Bits = typename Lane<T>::Bits;
    constexpr int mantissa = sizeof(T) == 4 ? 23 : 52;
    constexpr Bits infinity =
        static_cast<Bits>(sizeof(T) == 4 ? u64{0xff} << 23 : u64{0x7ff} << 52);
    constexpr Bits least_normal = Bits{1} << mantissa;
    constexpr Bits magnitude = static_cast<Bits>(~Bits{0}) >> 1;
    add(r, {{"testp", "finite", type}}, [](Bits a) -> bool { return (a & magnitude) < infinity; });
    add(r, {{"testp", "infinite", type}},
        [](Bits a) -> bool { return (a & magnitude) == infinity; });
    add(r, {{"testp", "number", type}}, [](Bits a) -> bool { return (a & magnitude) <= infinity; });
    add(r, {{"testp", "notanumber", type}},
        [](Bits a) -> bool { return (a & magnitude) > infinity; });
    add(r, {{"testp", "normal", type}}, [](Bits a) -> bool {
        return (a & magnitude) >= least_normal && (a & magnitude) < infinity;
    });
    add(r, {{"testp", "subnormal", type}},
        [](Bits a) -> bool { return (a & magnitude) < least_normal && (a & magnitude) != 0; });
    add(r, {{"copysign", type}},
        [](Bits a, Bits b) -> Bits { return (a & ~magnitude) | (b & magnitude); });
}

void list_signs(PureRegistry& r) {
    with_and_without("ftz", [&]<bool ftz>(const char* flush) {
        add(r, {{"abs", flush, "f32"}},
            [](float a) -> float { return canonical(__builtin_fabsf(flushed<ftz>(a))); });
        add(r, {{"neg", flush, "f32"}},
            [](float a) -> float { return canonical(-flushed<ftz>(a)); });
    });
    add(r, {{"abs", "f64"}}, [](double a) -> double { return __builtin_fabs(a); });
    add(r, {{"neg", "f64"}}, [](double a) -> double { return -a; });
    add(r, {{"min", "f64"}},
        [](double a, double b) -> double { return finished(least_number(a, b), a, b, b); });
    add(r, {{"max", "f64"}},
        [](double a, double b) -> double { return finished(greatest_number(a, b), a, b, b); });
    list_tests<float>(r, "f32");
    list_tests<double>(r, "f64");
}

}  // namespace

void list_float(PureRegistry& registry) {
    list_f32_sums(registry);
    list_f32_quotients(registry);
    list_f64(registry);
    list_approximations(registry);
    list_f64_approximations(registry);
    list_f32_extremes(registry);
    list_signs(registry);
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
