// SPDX-License-Identifier: Apache-2.0
#include "fuzz_ops.hpp"

// Operations of f16 and bf16.

namespace kernelforge::fuzz {
namespace {

template <class T>
T whole(T a, Rounding mode) {
    return rounded<T>({integral(quad(a), mode), 0});
}
template <class T>
T saturated(T a) {
    const Quad value = quad(a);
    if (value >= 1) return rounded<T>({1, 0});
    return value > 0 ? a : T{};
}
template <class T>
T not_negative(T a) {
    const Quad value = quad(a);
    return value > 0 || value != value ? a : T{};
}
template <class T>
T truth(bool holds) {
    return rounded<T>({holds ? Quad(1) : Quad(0), 0});
}
template <class T>
T any_nan() {
    return from_bits<T>(0x7fff);
}

template <class T>
void list_arithmetic(OperationList& list) {
    list.call("__hadd_rn", [](T a, T b) { return add(a, b); });
    list.call("__hsub_rn", [](T a, T b) { return subtract(a, b); });
    list.call("__hmul_rn", [](T a, T b) { return multiply(a, b); });
    list.call("__hfma", [](T a, T b, T c) { return multiply_add(a, b, c); });
    list.call("__hfma_relu", [](T a, T b, T c) { return not_negative(multiply_add(a, b, c)); });
    list.call("__hneg", [](T a) { return T{u16(a.bits ^ 0x8000)}; });
    list.call("__habs", [](T a) { return T{u16(a.bits & 0x7fff)}; });
    list.call("__hadd", [](T a, T b) { return add(a, b); }).contracts = true;
    list.call("__hmul", [](T a, T b) { return multiply(a, b); }).contracts = true;
    list.call("__hfma_sat", [](T a, T b, T c) { return saturated(multiply_add(a, b, c)); });
    list.call("__hadd_sat", [](T a, T b) { return saturated(add(a, b)); });
    list.call("__hmul_sat", [](T a, T b) { return saturated(multiply(a, b)); });
    list.call("__hmin", [](T a, T b) { return least(a, b); });
    list.call("__hmax", [](T a, T b) { return greatest(a, b); });
    list.call("__hmin_nan",
              [](T a, T b) { return is_nan(a) || is_nan(b) ? any_nan<T>() : least(a, b); });
    list.call("__hmax_nan",
              [](T a, T b) { return is_nan(a) || is_nan(b) ? any_nan<T>() : greatest(a, b); });
    list.call("hfloor", [](T a) { return whole(a, Rounding::down); });
    list.call("hceil", [](T a) { return whole(a, Rounding::up); });
    list.call("htrunc", [](T a) { return whole(a, Rounding::zero); });
    list.call("hrint", [](T a) { return whole(a, Rounding::nearest); });
}

template <class T>
void list_comparisons(OperationList& list) {
    list.call("__heq", [](T a, T b) { return quad(a) == quad(b); });
    list.call("__hne", [](T a, T b) { return quad(a) < quad(b) || quad(a) > quad(b); });
    list.call("__hlt", [](T a, T b) { return quad(a) < quad(b); });
    list.call("__hge", [](T a, T b) { return quad(a) >= quad(b); });
    list.call("__hltu", [](T a, T b) { return !(quad(a) >= quad(b)); });
    list.call("__hneu", [](T a, T b) { return quad(a) != quad(b); });
    list.call("__hisnan", [](T a) { return is_nan(a); });
    list.add("($0 ? $1 : $2)", [](bool p, T a, T b) { return p ? a : b; });
}

template <class T, class I>
void list_integer(OperationList& list, const std::string& real, const std::string& integer) {
    for (const RoundingName& mode : rounding_names) {
        const Rounding m = mode.rounding;
        list.call("__" + real + "2" + integer + "_" + std::string(mode.letters),
                  [m](T a) { return to_integer<I>(quad(a), m, false); });
        list.call("__" + integer + "2" + real + "_" + std::string(mode.letters), [m](I a) {
            return rounded<T>({static_cast<Quad>(a), 0}, m);
        });
    }
}

template <class T>
void list_conversions(OperationList& list, const std::string& real) {
    for (const RoundingName& mode : rounding_names) {
        const Rounding m = mode.rounding;
        list.call("__float2" + real + "_" + std::string(mode.letters), [m](f32 a) {
            return rounded<T>({quad(a), 0}, m);
        });
    }
    list.call("__double2" + real, [](f64 a) { return rounded<T>({quad(a), 0}); });
    list.call("__" + real + "2float", [](T a) -> f32 { return f32(quad(a)); });
    list_integer<T, s32>(list, real, "int");
    list_integer<T, u32>(list, real, "uint");
    list_integer<T, s64>(list, real, "ll");
    list_integer<T, u64>(list, real, "ull");
    list_integer<T, s16>(list, real, "short");
    list_integer<T, u16>(list, real, "ushort");
}

/// A NaN, whose bits are anyone's, becomes 0.
template <class T>
void list_bits(OperationList& list, const std::string& as, const std::string& infinity) {
    list.call("__ushort_as_" + as, [](u16 a) { return T{a}; });
    const std::string name = "bits_of_" + as;
    list.call(name, [](T a) -> u16 { return is_nan(a) ? u16{0} : a.bits; }).helper =
        "__device__ __forceinline__ u16 " + name + "(" + name_of(type_of<T>()) +
        " a) {\n    const u16 b = __" + as + "_as_ushort(a);\n    return (b & 0x7fff) > " +
        infinity + " ? 0 : b;\n}\n";
}

/// Two in a word. NaNs in it become zeros, since their bits are anyone's.
template <class T, class Function>
u32 by_halves(const u32* words, Function function) {
    u32 result = 0;
    for (int at = 0; at < 32; at += 16) {
        const T one =
            function(T{u16(words[0] >> at)}, T{u16(words[1] >> at)}, T{u16(words[2] >> at)});
        result |= u32{is_nan(one) ? u16{0} : one.bits} << at;
    }
    return result;
}
template <class T>
void list_packed(OperationList& list, const std::string& type) {
    const std::string pair = type + "_word";
    const std::string helper =
        "__device__ __forceinline__ " + type + "2 as_" + pair + "(u32 a) {\n    " + type +
        "2 d;\n    memcpy(&d, &a, 4);\n    return d;\n}\n" + "__device__ __forceinline__ u32 of_" +
        pair + "(" + type + "2 a) {\n    if (__hisnan(a.x)) a.x = __ushort_as_" +
        (type == "__half" ? "half" : "bfloat16") +
        "(0);\n    if (__hisnan(a.y)) a.y = __ushort_as_" +
        (type == "__half" ? "half" : "bfloat16") +
        "(0);\n    u32 d;\n    memcpy(&d, &a, 4);\n    return d;\n}\n";
    const std::string open = "of_" + pair + "(", as = "as_" + pair;
    const auto two = [&](const std::string& name, auto function) {
        list.add(open + name + "(" + as + "($0), " + as + "($1)))",
                 [function](u32 a, u32 b) -> u32 {
                     const u32 words[] = {a, b, 0};
                     return by_halves<T>(words, [&](T x, T y, T) { return function(x, y); });
                 })
            .helper = helper;
    };
    two("__hadd2_rn", [](T a, T b) { return add(a, b); });
    two("__hsub2_rn", [](T a, T b) { return subtract(a, b); });
    two("__hmul2_rn", [](T a, T b) { return multiply(a, b); });
    two("__hmin2", [](T a, T b) { return least(a, b); });
    two("__hmax2", [](T a, T b) { return greatest(a, b); });
    two("__hmul2_sat", [](T a, T b) { return saturated(multiply(a, b)); });
    two("__hle2", [](T a, T b) { return truth<T>(quad(a) <= quad(b)); });
    two("__hneu2", [](T a, T b) { return truth<T>(quad(a) != quad(b)); });
    const auto three = [&](const std::string& name, auto function) {
        list.add(open + name + "(" + as + "($0), " + as + "($1), " + as + "($2)))",
                 [function](u32 a, u32 b, u32 c) -> u32 {
                     const u32 words[] = {a, b, c};
                     return by_halves<T>(words, function);
                 })
            .helper = helper;
    };
    three("__hfma2", [](T a, T b, T c) { return multiply_add(a, b, c); });
    three("__hfma2_relu", [](T a, T b, T c) { return not_negative(multiply_add(a, b, c)); });
    three("__hfma2_sat", [](T a, T b, T c) { return saturated(multiply_add(a, b, c)); });
}

/// e5m2 and e4m3, whose greatest values stand for what is beyond.
u32 as_e5m2(Quad value) {
    const u64 bits = round_to({5, 2}, {value, 0}, Rounding::nearest);
    return static_cast<u32>((bits & 0x7f) == 0x7c ? bits - 1 : bits);
}
u32 as_e4m3(Quad value) {
    const u32 sign = negative(value) ? 0x80 : 0;
    const Quad size = negative(value) ? -value : value;
    if (size >= 448) return sign | 0x7e;
    // From 256 on, with the exponent that is infinity's elsewhere.
    const bool high = size >= 240;
    const u64 bits = round_to({4, 3}, {high ? size / 2 : size, 0}, Rounding::nearest);
    return sign | static_cast<u32>(bits + (high ? 8 : 0));
}

/// Conversions of two f32, the first into the upper half; a NaN makes all of it 0.
void list_pairs(OperationList& list) {
    const auto pair = [&list](const std::string& opcode, bool sm90, auto result) {
        Operation& made = list.instruction(opcode, [result](f32 a, f32 b) {
            using R = decltype(result(a, b));
            return a == a && b == b ? result(a, b) : R{0};
        });
        made.text = "($0 == $0 && $1 == $1 ? " + made.text + " : 0)";
        made.needs_sm90 = sm90;
    };
    const auto word = []<class T>(T high, T low) { return u32{high.bits} << 16 | low.bits; };
    pair("cvt.rn.f16x2.f32", false, [word](f32 a, f32 b) -> u32 {
        return word(rounded<f16>({a, 0}), rounded<f16>({b, 0}));
    });
    pair("cvt.rz.bf16x2.f32", false, [word](f32 a, f32 b) -> u32 {
        return word(rounded<bf16>({a, 0}, Rounding::zero), rounded<bf16>({b, 0}, Rounding::zero));
    });
    pair("cvt.rn.relu.bf16x2.f32", false, [word](f32 a, f32 b) -> u32 {
        return word(not_negative(rounded<bf16>({a, 0})), not_negative(rounded<bf16>({b, 0})));
    });
    pair("cvt.rn.satfinite.e4m3x2.f32", true,
         [](f32 a, f32 b) -> u16 { return u16(as_e4m3(a) << 8 | as_e4m3(b)); });
    pair("cvt.rn.satfinite.e5m2x2.f32", true,
         [](f32 a, f32 b) -> u16 { return u16(as_e5m2(a) << 8 | as_e5m2(b)); });
}

}  // namespace

void list_half_operations(OperationList& list) {
    list_arithmetic<f16>(list);
    list_arithmetic<bf16>(list);
    list_comparisons<f16>(list);
    list_comparisons<bf16>(list);
    list_conversions<f16>(list, "half");
    list_conversions<bf16>(list, "bfloat16");
    list_bits<f16>(list, "half", "0x7c00");
    list_bits<bf16>(list, "bfloat16", "0x7f80");
    list_packed<f16>(list, "__half");
    list_packed<bf16>(list, "__nv_bfloat16");
    list_pairs(list);
}

}  // namespace kernelforge::fuzz
