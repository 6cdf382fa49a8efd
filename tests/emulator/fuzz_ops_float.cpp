// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "fuzz_ops.hpp"

// Operations of f32 and f64, and conversions between them and integers.

namespace kernelforge::fuzz {
namespace {

template <class T>
constexpr bool is_f64 = std::is_same_v<T, f64>;
template <class T>
T saturated(T value) {
    if (value != value) return 0;
    return value <= 0 ? T{0} : value >= 1 ? T{1} : value;
}
template <class T>
T negated(T value) {
    return from_bits<T>(bits_of(value) ^ (u64{1} << (sizeof(T) * 8 - 1)));
}
/// A subnormal number becomes the zero of its sign.
f32 flushed(f32 value) {
    const u32 bits = std::bit_cast<u32>(value);
    return std::bit_cast<f32>((bits & 0x7f800000) == 0 ? bits & 0x80000000 : bits);
}

template <class T>
std::string number_name() {
    return std::string("number_") + name_of(type_of<T>());
}
/// A device function that makes a NaN, whose bits are anyone's, a zero. By integers: compilers have
/// been seen to drop `a == a ? a : 0`.
template <class T>
std::string number_helper() {
    const std::string type = name_of(type_of<T>());
    const std::string bits =
        is_f64<T> ? "u64 b = __double_as_longlong(a)" : "u32 b = __float_as_uint(a)";
    const std::string back = is_f64<T> ? "__longlong_as_double" : "__uint_as_float";
    return "__device__ __forceinline__ " + type + " " + number_name<T>() + "(" + type +
           " a) {\n    const " + bits + ";\n    return " + back + "((b << 1) > " +
           (is_f64<T> ? "0xffe0000000000000ull" : "0xff000000u") + " ? 0 : b);\n}\n";
}

template <class T>
void list_arithmetic(OperationList& list) {
    const std::string prefix = is_f64<T> ? "__d" : "__f";
    const std::string fma = is_f64<T> ? "__fma_" : "__fmaf_";
    for (const RoundingName& mode : rounding_names) {
        const Rounding m = mode.rounding;
        const std::string end = "_" + std::string(mode.letters);
        list.call(prefix + "add" + end, [m](T a, T b) -> T { return add(a, b, m); });
        list.call(prefix + "sub" + end, [m](T a, T b) -> T { return subtract(a, b, m); });
        list.call(prefix + "mul" + end, [m](T a, T b) -> T { return multiply(a, b, m); });
        list.call(prefix + "div" + end, [m](T a, T b) -> T { return divide(a, b, m); });
        list.call(prefix + "rcp" + end, [m](T a) -> T { return divide(T{1}, a, m); });
        list.call(fma + std::string(mode.letters),
                  [m](T a, T b, T c) -> T { return multiply_add(a, b, c, m); });
        list.call(prefix + "sqrt" + end, [m](T a) -> T {
            if constexpr (is_f64<T>) {
                return root(a, m);
            } else {
                // A root of 24 bits in 53 bits is nowhere near a boundary unless it is exact.
                return rounded<T>({root(a, Rounding::nearest), 0}, m);
            }
        });
    }
    list.add("($0 + $1)", [](T a, T b) -> T { return add(a, b); }).contracts = true;
    list.add("($0 - $1)", [](T a, T b) -> T { return subtract(a, b); }).contracts = true;
    list.add("($0 * $1)", [](T a, T b) -> T { return multiply(a, b); }).contracts = true;
    list.add("($0 / $1)", [](T a, T b) -> T { return divide(a, b); });
    list.add("(-$0)", [](T a) -> T { return negated(a); });
}

template <class T>
void list_functions(OperationList& list) {
    const std::string f = is_f64<T> ? "" : "f";
    list.call("fmin" + f, [](T a, T b) -> T { return least(a, b); });
    list.call("fmax" + f, [](T a, T b) -> T { return greatest(a, b); });
    list.call("fabs" + f, [](T a) -> T { return std::fabs(a); });
    list.call("fma" + f, [](T a, T b, T c) -> T { return multiply_add(a, b, c); });
    list.call("sqrt" + f, [](T a) -> T { return std::sqrt(a); });
    list.call("floor" + f, [](T a) -> T { return std::floor(a); });
    list.call("ceil" + f, [](T a) -> T { return std::ceil(a); });
    list.call("trunc" + f, [](T a) -> T { return std::trunc(a); });
    list.call("rint" + f, [](T a) -> T { return T(integral(a, Rounding::nearest)); });
    list.call("round" + f, [](T a) -> T { return std::round(a); });
    list.call("fdim" + f, [](T a, T b) -> T {
        if (is_nan(a) || is_nan(b)) return std::numeric_limits<T>::quiet_NaN();
        return a > b ? subtract(a, b) : T{0};
    });
    list.call("fmod" + f, [](T a, T b) -> T { return std::fmod(a, b); });
    list.call("remainder" + f, [](T a, T b) -> T { return std::remainder(a, b); });
    list.call("logb" + f, [](T a) -> T { return std::logb(a); });
    list.add("nextafter" + f + "($0, $1)", [](T a, T b) -> T { return std::nextafter(a, b); });
    list.add("ldexp" + f + "($0, (s32)($1 & 1023u) - 512)",
             [](T a, u32 b) -> T { return std::ldexp(a, int(b & 1023) - 512); });
    // The sign of a NaN is anyone's.
    Operation& copied = list.add("copysign" + f + "($0, " + number_name<T>() + "($1))",
                                 [](T a, T b) -> T { return std::copysign(a, b == b ? b : T{0}); });
    copied.helper = number_helper<T>();
}

template <class T>
void list_comparisons(OperationList& list) {
    list.add("($0 == $1)", [](T a, T b) { return a == b; });
    list.add("($0 != $1)", [](T a, T b) { return a != b; });
    list.add("($0 < $1)", [](T a, T b) { return a < b; });
    list.add("($0 <= $1)", [](T a, T b) { return a <= b; });
    list.add("($0 > $1)", [](T a, T b) { return a > b; });
    list.add("(!($0 >= $1))", [](T a, T b) { return !(a >= b); });
    list.add("(!($0 < $1))", [](T a, T b) { return !(a < b); });
    list.add("isnan($0)", [](T a) { return a != a; });
    list.add("(isnan($0) || isnan($1))", [](T a, T b) { return a != a || b != b; });
    list.add("isinf($0)", [](T a) { return std::isinf(a); });
    list.add("($0 ? $1 : $2)", [](bool p, T a, T b) -> T { return p ? a : b; });
    const std::string type = name_of(type_of<T>());
    const auto predicate = [&list, &type](const std::string& opcode, auto function) {
        list.block(".reg .pred p; " + opcode + "." + type + " p, %1; selp.u32 %0, 1, 0, p;",
                   [function](T a) -> u32 { return function(a) ? 1 : 0; });
    };
    predicate("testp.finite", [](T a) { return std::isfinite(a); });
    predicate("testp.subnormal", [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
    predicate("testp.notanumber", [](T a) { return a != a; });
    list.block(".reg .pred p, q, r; setp.gt.s32 r, %3, 5; setp.ltu.and." + type +
                   " p|q, %1, %2, !r; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2;",
               [](T a, T b, s32 c) -> u32 {
                   const bool below = !(a >= b), other = !(c > 5);
                   return (below && other ? 1 : 0) + (!below && other ? 2 : 0);
               });
    list.instruction("set.gtu.u32." + type, [](T a, T b) -> u32 { return a <= b ? 0 : ~0U; });
    list.instruction("set.le.f32." + type, [](T a, T b) -> f32 { return a <= b ? 1 : 0; });
}

/// From and to integers: `__int2float_rz`, `__double2ull_ru`, …
template <class T, class I>
void list_conversions(OperationList& list, const std::string& integer) {
    const std::string real = is_f64<T> ? "double" : "float";
    for (const RoundingName& mode : rounding_names) {
        const Rounding m = mode.rounding;
        const std::string end = "_" + std::string(mode.letters);
        list.call("__" + real + "2" + integer + end,
                  [m](T a) -> I { return to_integer<I>(a, m, is_f64<T>); });
        if (is_f64<T> && sizeof(I) == 4) continue;  // exact
        list.call("__" + integer + "2" + real + end, [m](I a) -> T {
            return rounded<T>({static_cast<Quad>(a), 0}, m);
        });
    }
    list.add(std::string("(") + name_of(type_of<T>()) + ")$0", [](I a) -> T {
        return rounded<T>({static_cast<Quad>(a), 0});
    });
}

void list_single(OperationList& list) {
    list.call("__saturatef", [](f32 a) -> f32 { return saturated(a); });
    list.call("__frsqrt_rn", [](f32 a) -> f32 {
        // In 113 bits, by a step of Newton's method from 53.
        if (!(a > 0) || std::isinf(a)) return 1.0F / std::sqrt(a);
        const Quad guess = 1.0 / std::sqrt(double(a));
        return rounded<f32>({guess * (Quad(1.5) - Quad(0.5) * a * guess * guess), 0});
    });
    list.instruction("add.rn.sat.f32", [](f32 a, f32 b) { return saturated(add(a, b)); });
    list.instruction("mul.rz.sat.f32",
                     [](f32 a, f32 b) { return saturated(multiply(a, b, Rounding::zero)); });
    list.instruction("fma.rn.sat.f32",
                     [](f32 a, f32 b, f32 c) { return saturated(multiply_add(a, b, c)); });
    list.instruction("add.ftz.f32",
                     [](f32 a, f32 b) -> f32 { return flushed(add(flushed(a), flushed(b))); });
    list.instruction("min.ftz.f32",
                     [](f32 a, f32 b) -> f32 { return least(flushed(a), flushed(b)); });
    list.instruction("min.NaN.f32", [](f32 a, f32 b) -> f32 {
        return a != a || b != b ? std::numeric_limits<f32>::quiet_NaN() : least(a, b);
    });
    list.instruction("max.NaN.f32", [](f32 a, f32 b) -> f32 {
        return a != a || b != b ? std::numeric_limits<f32>::quiet_NaN() : greatest(a, b);
    });
    list.instruction("slct.s32.f32", [](s32 a, s32 b, f32 c) -> s32 { return c >= 0 ? a : b; });
    list.add("__float_as_uint(number_f32($0))",
             [](f32 a) -> u32 { return a == a ? std::bit_cast<u32>(a) : 0; })
        .helper = number_helper<f32>();
    list.call("__uint_as_float", [](u32 a) -> f32 { return std::bit_cast<f32>(a); });
    list.call("__int_as_float", [](s32 a) -> f32 { return std::bit_cast<f32>(a); });
    list.instruction("cvt.rni.f32.f32", [](f32 a) { return f32(integral(a, Rounding::nearest)); });
    list.instruction("cvt.rpi.f32.f32", [](f32 a) { return f32(integral(a, Rounding::up)); });
    list.instruction("cvt.rzi.sat.f32.f32",
                     [](f32 a) { return saturated(f32(integral(a, Rounding::zero))); });
    list.instruction("cvt.rni.u16.f32",
                     [](f32 a) { return to_integer<u16>(a, Rounding::nearest, false); });
    list.instruction("cvt.rmi.s16.f32",
                     [](f32 a) { return to_integer<s16>(a, Rounding::down, false); });
    list.block(
        ".reg .pred p; cvt.rna.tf32.f32 %0, %1; and.b32 %0, %0, 0xffffe000; "
        "testp.notanumber.f32 p, %1; selp.b32 %0, 0, %0, p;",
        [](f32 a) -> u32 {
            const u32 bits = std::bit_cast<u32>(a);
            return a != a ? 0 : std::isinf(a) ? bits : (bits + 0x1000) & 0xffffe000;
        });
    list.instruction("cvt.rn.f32.u16", [](u16 a) -> f32 { return f32(a); });
}
void list_double(OperationList& list) {
    list.add("__double_as_longlong(number_f64($0))",
             [](f64 a) -> s64 { return a == a ? std::bit_cast<s64>(a) : 0; })
        .helper = number_helper<f64>();
    list.call("__longlong_as_double", [](s64 a) -> f64 { return std::bit_cast<f64>(a); });
    list.call("__hiloint2double", [](s32 high, s32 low) -> f64 {
        return std::bit_cast<f64>(u64{u32(high)} << 32 | u32(low));
    });
    list.add("__double2hiint(number_f64($0))",
             [](f64 a) -> s32 { return a == a ? s32(std::bit_cast<u64>(a) >> 32) : 0; })
        .helper = number_helper<f64>();
    list.add("(f64)$0", [](f32 a) -> f64 { return a; });
    list.add("(f32)$0", [](f64 a) -> f32 { return rounded<f32>({a, 0}); });
    for (const RoundingName& mode : rounding_names) {
        const Rounding m = mode.rounding;
        list.call("__double2float_" + std::string(mode.letters), [m](f64 a) -> f32 {
            return rounded<f32>({a, 0}, m);
        });
    }
}

}  // namespace

void list_float_operations(OperationList& list) {
    list_arithmetic<f32>(list);
    list_arithmetic<f64>(list);
    list_functions<f32>(list);
    list_functions<f64>(list);
    list_comparisons<f32>(list);
    list_comparisons<f64>(list);
    list_conversions<f32, s32>(list, "int");
    list_conversions<f32, u32>(list, "uint");
    list_conversions<f32, s64>(list, "ll");
    list_conversions<f32, u64>(list, "ull");
    list_conversions<f64, s32>(list, "int");
    list_conversions<f64, u32>(list, "uint");
    list_conversions<f64, s64>(list, "ll");
    list_conversions<f64, u64>(list, "ull");
    list_single(list);
    list_double(list);
}

}  // namespace kernelforge::fuzz
