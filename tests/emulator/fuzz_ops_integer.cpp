// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fuzz_ops.hpp"

// Operations of integers and of truth values.

namespace kernelforge::fuzz {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr unsigned width = sizeof(T) * 8;
template <class T>
constexpr bool is_signed = std::is_signed_v<T>;

template <class T>
std::string cast(const std::string& text) {
    return std::string("(") + name_of(type_of<T>()) + ")(" + text + ")";
}
/// "u32" or "s32".
template <class T>
std::string suffix() {
    return name_of(type_of<T>());
}
template <class T>
std::string bits_suffix() {
    return "b" + std::to_string(width<T>);
}

template <class To, class From>
To saturate(From value) {
    const SignedWide wide = value;
    const SignedWide low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return static_cast<To>(wide < low ? low : wide > high ? high : wide);
}
template <class T>
T high_product(T a, T b) {
    if constexpr (is_signed<T>) {
        return static_cast<T>((SignedWide{a} * b) >> width<T>);
    } else {
        return static_cast<T>((Wide{a} * b) >> width<T>);
    }
}
template <class T>
T average(T a, T b, int add) {
    return static_cast<T>((SignedWide{a} + b + add) >> 1);
}
template <class T>
u32 leading_zeros(T value) {
    u32 count = 0;
    for (T bit = T{1} << (width<T> - 1); bit != 0 && (value & bit) == 0; bit >>= 1) ++count;
    return count;
}
template <class T>
u32 ones(T value) {
    u32 count = 0;
    for (; value != 0; value >>= 1) count += value & 1;
    return count;
}
template <class T>
T reversed(T value) {
    T result = 0;
    for (unsigned i = 0; i < width<T>; ++i) {
        result = static_cast<T>((result << 1) | ((value >> i) & 1));
    }
    return result;
}
/// Position of the highest bit that differs from the sign; all ones where there is none.
template <class T>
u32 highest_bit(T value, bool shift_amount) {
    using U = Unsigned<T>;
    const U bits = static_cast<U>(is_signed<T> && value < 0 ? ~value : value);
    if (bits == 0) return ~0U;
    const u32 position = width<T> - 1 - leading_zeros(bits);
    return shift_amount ? width<T> - 1 - position : position;
}
template <class T>
T extract(T value, u32 position, u32 length) {
    position &= 0xff;
    length &= 0xff;
    const bool minus = is_signed<T> && length > 0 &&
                       (value >> std::min(position + length - 1, width<T> - 1) & 1) != 0;
    T result = 0;
    for (unsigned i = 0; i < width<T>; ++i) {
        const bool inside = i < length && position + i < width<T>;
        const T bit = inside ? static_cast<T>((value >> (position + i)) & 1) : T{minus};
        result = static_cast<T>(result | static_cast<T>(static_cast<Unsigned<T>>(bit) << i));
    }
    return result;
}
template <class T>
T insert(T from, T into, u32 position, u32 length) {
    position &= 0xff;
    length &= 0xff;
    for (u32 i = 0; i < length && position + i < width<T>; ++i) {
        const T bit = T{1} << (position + i);
        into = ((from >> i) & 1) != 0 ? into | bit : into & ~bit;
    }
    return into;
}

template <class T>
void list_arithmetic(OperationList& list) {
    using U = Unsigned<T>;
    // Sums that leave a signed type's range are undefined in C++; through unsigned they wrap.
    const std::string u = name_of(type_of<U>());
    const auto wrapped = [&u](const char* op) {
        return cast<T>("(" + u + ")$0 " + op + " (" + u + ")$1");
    };
    const auto as_wide = [](T value) { return static_cast<u64>(value); };
    list.add(wrapped("+"), [=](T a, T b) -> T { return T(as_wide(a) + as_wide(b)); });
    list.add(wrapped("-"), [=](T a, T b) -> T { return T(as_wide(a) - as_wide(b)); });
    // Of 16 bits the product is made unsigned of 32, else it would be one of promoted ints.
    list.add(cast<T>((width<T> < 32 ? "(u32)$0 * (u32)$1" : wrapped("*"))),
             [=](T a, T b) -> T { return T(as_wide(a) * as_wide(b)); });
    list.add(cast<T>("$0 & $1"), [](T a, T b) -> T { return T(a & b); });
    list.add(cast<T>("$0 | $1"), [](T a, T b) -> T { return T(a | b); });
    list.add(cast<T>("$0 ^ $1"), [](T a, T b) -> T { return T(a ^ b); });
    list.add(cast<T>("~$0"), [](T a) -> T { return T(~a); });
    list.add(cast<T>("-(" + u + ")$0"), [=](T a) -> T { return T(0 - as_wide(a)); });
    const std::string amount = std::to_string(width<T> - 1) + "u";
    list.add(cast<T>("(" + u + ")$0 << ($1 & " + amount + ")"),
             [](T a, u32 b) -> T { return T(static_cast<u64>(a) << (b & (width<T> - 1))); });
    list.add(cast<T>("$0 >> ($1 & " + amount + ")"),
             [](T a, u32 b) -> T { return T(a >> (b & (width<T> - 1))); });
    // The least value by -1 has no quotient.
    const std::string guard =
        is_signed<T> ? "($1 == 0 || $1 == (" + suffix<T>() + ")-1)" : std::string("$1 == 0");
    const auto guarded = [](T b) { return b == 0 || (is_signed<T> && b == T(-1)); };
    list.add(cast<T>("$0 / (" + guard + " ? (" + suffix<T>() + ")3 : $1)"),
             [=](T a, T b) -> T { return T(a / (guarded(b) ? T{3} : b)); });
    list.add(cast<T>("$0 % (" + guard + " ? (" + suffix<T>() + ")5 : $1)"),
             [=](T a, T b) -> T { return T(a % (guarded(b) ? T{5} : b)); });
    list.add(cast<T>("$0 < $1 ? $0 : $1"), [](T a, T b) -> T { return a < b ? a : b; });
    list.add(cast<T>("$0 > $1 ? $0 : $1"), [](T a, T b) -> T { return a > b ? a : b; });
}

template <class T>
void list_comparisons(OperationList& list) {
    list.add("($0 == $1)", [](T a, T b) { return a == b; });
    list.add("($0 != $1)", [](T a, T b) { return a != b; });
    list.add("($0 < $1)", [](T a, T b) { return a < b; });
    list.add("($0 <= $1)", [](T a, T b) { return a <= b; });
    list.add("($0 > $1)", [](T a, T b) { return a > b; });
    list.add("($0 >= $1)", [](T a, T b) { return a >= b; });
    list.add("($0 ? $1 : $2)", [](bool p, T a, T b) -> T { return p ? a : b; });
    list.add(cast<T>("$0"), [](bool p) -> T { return p ? T{1} : T{0}; });
    list.add("((bool)$0)", [](T a) { return a != 0; });
}

template <class To, class... From>
void list_casts(OperationList& list) {
    (list.add(cast<To>("$0"), [](From a) -> To { return static_cast<To>(a); }), ...);
}

/// What PTX has for 32 and 64 bits.
template <class T>
void list_words(OperationList& list) {
    const std::string type = suffix<T>();
    list.instruction("mul.hi." + type, [](T a, T b) -> T { return high_product(a, b); });
    list.instruction("mad.hi." + type, [](T a, T b, T c) -> T {
        return T(static_cast<u64>(high_product(a, b)) + static_cast<u64>(c));
    });
    list.instruction("mad.lo." + type, [](T a, T b, T c) -> T {
        return T(static_cast<u64>(a) * static_cast<u64>(b) + static_cast<u64>(c));
    });
    list.instruction("sad." + type, [](T a, T b, T c) -> T {
        const u64 far = a < b ? static_cast<u64>(b) - static_cast<u64>(a)
                              : static_cast<u64>(a) - static_cast<u64>(b);
        return T(static_cast<u64>(c) + far);
    });
    list.instruction("shr." + type, [](T a, u32 b) -> T {
        if (b >= width<T>) return a < 0 ? T(-1) : T{0};
        return T(a >> b);
    });
    list.instruction("bfe." + type, [](T a, u32 b, u32 c) -> T { return extract(a, b, c); });
    list.instruction("bfind." + type, [](T a) -> u32 { return highest_bit(a, false); });
    list.instruction("bfind.shiftamt." + type, [](T a) -> u32 { return highest_bit(a, true); });
    list.instruction("min." + type, [](T a, T b) -> T { return a < b ? a : b; });
    list.instruction("max." + type, [](T a, T b) -> T { return a > b ? a : b; });
}
template <class T>
void list_bits(OperationList& list) {
    const std::string type = bits_suffix<T>();
    list.instruction("shl." + type,
                     [](T a, u32 b) -> T { return b >= width<T> ? T{0} : T(a << b); });
    list.instruction("popc." + type, [](T a) -> u32 { return ones(a); });
    list.instruction("clz." + type, [](T a) -> u32 { return leading_zeros(a); });
    list.instruction("brev." + type, [](T a) -> T { return reversed(a); });
    list.instruction("bfi." + type, [](T a, T b, u32 c, u32 d) -> T { return insert(a, b, c, d); });
    list.instruction("cnot." + type, [](T a) -> T { return a == 0 ? 1 : 0; });
    list.instruction("slct." + type + ".s32", [](T a, T b, s32 c) -> T { return c >= 0 ? a : b; });
}
template <class T>
void list_wide_products(OperationList& list) {
    using W = std::conditional_t<is_signed<T>, s64, u64>;
    list.instruction("mul.wide." + suffix<T>(), [](T a, T b) -> W { return W{a} * W{b}; });
    list.instruction("mad.wide." + suffix<T>(), [](T a, T b, W c) -> W {
        return static_cast<W>(static_cast<u64>(W{a} * W{b}) + static_cast<u64>(c));
    });
}

template <class From, class... To>
void list_saturated(OperationList& list) {
    (list.instruction(
         "cvt.sat." + suffix<To>() + "." + suffix<From>(),
         [](From a) -> std::conditional_t<sizeof(To) == 1, s32, To> { return saturate<To>(a); }),
     ...);
}

void list_named(OperationList& list) {
    list.call("__clz", [](s32 a) -> s32 { return s32(leading_zeros(u32(a))); });
    list.call("__clzll", [](s64 a) -> s32 { return s32(leading_zeros(u64(a))); });
    list.call("__popc", [](u32 a) -> s32 { return s32(ones(a)); });
    list.call("__popcll", [](u64 a) -> s32 { return s32(ones(a)); });
    list.call("__brev", [](u32 a) -> u32 { return reversed(a); });
    list.call("__brevll", [](u64 a) -> u64 { return reversed(a); });
    list.call("__ffs", [](s32 a) -> s32 {
        return a == 0 ? 0 : s32(32 - leading_zeros(u32(a) & (0 - u32(a))));
    });
    list.call("__ffsll", [](s64 a) -> s32 {
        return a == 0 ? 0 : s32(64 - leading_zeros(u64(a) & (0 - u64(a))));
    });
    list.call("__mulhi", [](s32 a, s32 b) -> s32 { return high_product(a, b); });
    list.call("__umulhi", [](u32 a, u32 b) -> u32 { return high_product(a, b); });
    list.call("__mul64hi", [](s64 a, s64 b) -> s64 { return high_product(a, b); });
    list.call("__umul64hi", [](u64 a, u64 b) -> u64 { return high_product(a, b); });
    list.call("__hadd", [](s32 a, s32 b) -> s32 { return average(a, b, 0); });
    list.call("__rhadd", [](s32 a, s32 b) -> s32 { return average(a, b, 1); });
    list.call("__uhadd", [](u32 a, u32 b) -> u32 { return average(a, b, 0); });
    list.call("__urhadd", [](u32 a, u32 b) -> u32 { return average(a, b, 1); });
    list.call("__byte_perm", [](u32 a, u32 b, u32 s) -> u32 {
        u32 result = 0;
        for (unsigned i = 0; i < 4; ++i) {
            const u32 pick = (s >> (4 * i)) & 7;
            result |= (((pick < 4 ? a : b) >> (8 * (pick & 3))) & 0xff) << (8 * i);
        }
        return result;
    });
    list.instruction("prmt.b32", [](u32 a, u32 b, u32 s) -> u32 {
        u32 result = 0;
        for (unsigned i = 0; i < 4; ++i) {
            const u32 pick = (s >> (4 * i)) & 15;
            u32 byte = (((pick & 4) == 0 ? a : b) >> (8 * (pick & 3))) & 0xff;
            if (pick >= 8) byte = byte >= 128 ? 255 : 0;
            result |= byte << (8 * i);
        }
        return result;
    });
    list.call("__funnelshift_l", [](u32 low, u32 high, u32 n) -> u32 {
        return u32(((u64{high} << 32 | low) << (n & 31)) >> 32);
    });
    list.call("__funnelshift_r", [](u32 low, u32 high, u32 n) -> u32 {
        return u32((u64{high} << 32 | low) >> (n & 31));
    });
    list.call("__funnelshift_lc", [](u32 low, u32 high, u32 n) -> u32 {
        return u32(((u64{high} << 32 | low) << std::min(n, 32U)) >> 32);
    });
    list.call("__funnelshift_rc", [](u32 low, u32 high, u32 n) -> u32 {
        return u32((u64{high} << 32 | low) >> std::min(n, 32U));
    });
    list.call("__dp4a", [](s32 a, s32 b, s32 c) -> s32 {
        for (int i = 0; i < 4; ++i) c = s32(u32(c) + u32(s8(a >> 8 * i) * s8(b >> 8 * i)));
        return c;
    });
    list.call("__dp4a", [](u32 a, u32 b, u32 c) -> u32 {
        for (int i = 0; i < 4; ++i) c += u32(u8(a >> 8 * i)) * u8(b >> 8 * i);
        return c;
    });
    list.call("__dp2a_lo", [](s32 a, s32 b, s32 c) -> s32 {
        for (int i = 0; i < 2; ++i) c = s32(u32(c) + u32(s16(a >> 16 * i) * s8(b >> 8 * i)));
        return c;
    });
    list.call("__dp2a_hi", [](u32 a, u32 b, u32 c) -> u32 {
        for (int i = 0; i < 2; ++i) c += u32(u16(a >> 16 * i)) * u8(b >> (16 + 8 * i));
        return c;
    });
    list.instruction("mul24.lo.s32", [](s32 a, s32 b) -> s32 {
        return s32(s64(s32(u32(a) << 8) >> 8) * s64(s32(u32(b) << 8) >> 8));
    });
    list.instruction("mul24.hi.u32", [](u32 a, u32 b) -> u32 {
        return u32((u64{a & 0xffffff} * (b & 0xffffff)) >> 16);
    });
    list.instruction("add.sat.s32", [](s32 a, s32 b) { return saturate<s32>(s64{a} + b); });
    list.instruction("sub.sat.s32", [](s32 a, s32 b) { return saturate<s32>(s64{a} - b); });
    list.instruction("mad.hi.sat.s32", [](s32 a, s32 b, s32 c) {
        return saturate<s32>(s64{high_product(a, b)} + c);
    });
    list.instruction("abs.s32", [](s32 a) -> s32 { return a < 0 ? s32(0 - u32(a)) : a; });
    list.instruction("abs.s64", [](s64 a) -> s64 { return a < 0 ? s64(0 - u64(a)) : a; });
    list.instruction("abs.s16", [](s16 a) -> s16 { return a < 0 ? s16(-a) : a; });
    list.instruction("bmsk.clamp.b32", [](u32 a, u32 b) -> u32 {
        u64 result = 0;
        for (u64 i = a; i < 32 && i < u64{a} + b; ++i) result |= u64{1} << i;
        return u32(result);
    });
    list.instruction("szext.clamp.s32", [](s32 a, u32 n) -> s32 {
        if (n >= 32) return a;
        if (n == 0) return 0;
        return s32(u32(a) << (32 - n)) >> (32 - n);
    });
    list.instruction("szext.wrap.u32",
                     [](u32 a, u32 n) -> u32 { return a & ((u64{1} << (n & 31)) - 1); });
    list.add("__fns($0, $1 & 31u, (s32)($2 & 7u) - 3)", [](u32 mask, u32 base, u32 n) -> u32 {
        base &= 31;
        const int offset = int(n & 7) - 3;
        if (offset == 0) return (mask >> base & 1) != 0 ? base : ~0U;
        int left = offset > 0 ? offset : -offset;
        for (int i = int(base); i >= 0 && i<32; i += offset> 0 ? 1 : -1) {
            if ((mask >> i & 1) != 0 && --left == 0) return u32(i);
        }
        return ~0U;
    });
    // The carry flag through three words.
    list.block(".reg .b32 x; add.cc.u32 x, %1, %2; addc.cc.u32 x, x, %3; addc.u32 %0, x, %2;",
               [](u32 a, u32 b, u32 c) -> u32 {
                   const u64 first = u64{a} + b;
                   const u64 second = u64{u32(first)} + c + (first >> 32);
                   return u32(u32(second) + b + u32(second >> 32));
               });
    list.block(".reg .b32 x; sub.cc.u32 x, %1, %2; subc.u32 %0, x, %3;",
               [](u32 a, u32 b, u32 c) -> u32 { return a - b - c - (a < b ? 1 : 0); });
    list.block(
        ".reg .b32 x; mad.lo.cc.u32 x, %1, %2, %3; madc.hi.u32 x, %1, %2, x; "
        "mov.b32 %0, x;",
        [](u32 a, u32 b, u32 c) -> u32 {
            const u64 low = u64{a * b} + c;
            return u32((u64{a} * b >> 32) + u32(low) + (low >> 32));
        });
    for (const u32 table : {0x96U, 0xe8U, 0xcaU, 0x1dU, 0x78U}) {
        const std::string text = std::to_string(table);
        list.block("lop3.b32 %0, %1, %2, %3, " + text + ";", [table](u32 a, u32 b, u32 c) -> u32 {
            u32 result = 0;
            for (int i = 0; i < 32; ++i) {
                const u32 at = (a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1);
                result |= (table >> at & 1) << i;
            }
            return result;
        });
    }
}

/// Two or four integers in a word, element by element.
template <class Part, class Function>
u32 by_parts(u32 a, u32 b, Function function) {
    constexpr unsigned n = width<Part>;
    u32 result = 0;
    for (unsigned at = 0; at < 32; at += n) {
        const auto one = static_cast<Unsigned<Part>>(function(Part(a >> at), Part(b >> at)));
        result |= u32{one} << at;
    }
    return result;
}
template <class U>
void list_packed(OperationList& list, const std::string& n) {
    using S = std::make_signed_t<U>;
    const auto each = [&list, &n]<class Part>(const char* name, Part, auto function) {
        list.call(name + n,
                  [function](u32 a, u32 b) -> u32 { return by_parts<Part>(a, b, function); });
    };
    each("__vadd", U{}, [](int a, int b) { return a + b; });
    each("__vsub", U{}, [](int a, int b) { return a - b; });
    each("__vaddss", S{}, [](int a, int b) { return saturate<S>(a + b); });
    each("__vaddus", U{}, [](int a, int b) { return saturate<U>(a + b); });
    each("__vsubss", S{}, [](int a, int b) { return saturate<S>(a - b); });
    each("__vsubus", U{}, [](int a, int b) { return saturate<U>(a - b); });
    each("__vabsdiffu", U{}, [](int a, int b) { return a < b ? b - a : a - b; });
    each("__vabsdiffs", S{}, [](int a, int b) { return a < b ? b - a : a - b; });
    each("__vavgs", S{}, [](int a, int b) {
        // Halves are rounded away from zero.
        const int total = a + b;
        return (total + (total >= 0 ? 1 : 0)) >> 1;
    });
    each("__vavgu", U{}, [](int a, int b) { return (a + b + 1) >> 1; });
    each("__vhaddu", U{}, [](int a, int b) { return (a + b) >> 1; });
    each("__vmaxs", S{}, [](int a, int b) { return std::max(a, b); });
    each("__vmaxu", U{}, [](int a, int b) { return std::max(a, b); });
    each("__vmins", S{}, [](int a, int b) { return std::min(a, b); });
    each("__vminu", U{}, [](int a, int b) { return std::min(a, b); });
    each("__vcmpeq", U{}, [](int a, int b) { return a == b ? -1 : 0; });
    each("__vcmpgts", S{}, [](int a, int b) { return a > b ? -1 : 0; });
    each("__vcmpgeu", U{}, [](int a, int b) { return a >= b ? -1 : 0; });
    each("__vsetltu", U{}, [](int a, int b) { return a < b ? 1 : 0; });
    each("__vsetles", S{}, [](int a, int b) { return a <= b ? 1 : 0; });
}

/// Instructions that came with sm_90.
void list_sm90(OperationList& list) {
    const auto pairs = [&list]<class Part>(const std::string& opcode, Part, auto function) {
        list.instruction(opcode,
                         [function](u32 a, u32 b) -> u32 { return by_parts<Part>(a, b, function); })
            .needs_sm90 = true;
    };
    pairs("add.u16x2", u16{}, [](int a, int b) { return a + b; });
    pairs("add.s16x2", s16{}, [](int a, int b) { return a + b; });
    pairs("min.s16x2", s16{}, [](int a, int b) { return std::min(a, b); });
    pairs("max.u16x2", u16{}, [](int a, int b) { return std::max(a, b); });
    pairs("max.s16x2", s16{}, [](int a, int b) { return std::max(a, b); });
    pairs("min.relu.s16x2", s16{}, [](int a, int b) { return std::max(std::min(a, b), 0); });
    pairs("max.relu.s16x2", s16{}, [](int a, int b) { return std::max(std::max(a, b), 0); });
    list.instruction("max.relu.s32", [](s32 a, s32 b) { return std::max(std::max(a, b), 0); })
        .needs_sm90 = true;
    list.instruction("min.relu.s32", [](s32 a, s32 b) { return std::max(std::min(a, b), 0); })
        .needs_sm90 = true;
}
/// By way of DPX instructions, or what stands for them.
void list_dpx(OperationList& list) {
    list.call("__vimax3_s32", [](s32 a, s32 b, s32 c) { return std::max({a, b, c}); });
    list.call("__vimin3_u32", [](u32 a, u32 b, u32 c) { return std::min({a, b, c}); });
    list.call("__viaddmax_s32",
              [](s32 a, s32 b, s32 c) { return std::max(s32(u32(a) + u32(b)), c); });
    list.call("__viaddmin_u32", [](u32 a, u32 b, u32 c) { return std::min(a + b, c); });
    list.call("__vimax_s32_relu", [](s32 a, s32 b) { return std::max({a, b, 0}); });
    list.call("__vimin_s16x2_relu", [](u32 a, u32 b) -> u32 {
        return by_parts<s16>(a, b, [](int x, int y) { return std::max(std::min(x, y), 0); });
    });
}

void list_truths(OperationList& list) {
    list.add("($0 && $1)", [](bool a, bool b) { return a && b; });
    list.add("($0 || $1)", [](bool a, bool b) { return a || b; });
    list.add("($0 != $1)", [](bool a, bool b) { return a != b; });
    list.add("(!$0)", [](bool a) { return !a; });
    list.add("($0 ? $1 : $2)", [](bool p, bool a, bool b) { return p ? a : b; });
}

}  // namespace

void list_integer_operations(OperationList& list) {
    list_truths(list);
    const auto common = [&list]<class... T>(std::tuple<T...>) {
        (list_arithmetic<T>(list), ...);
        (list_comparisons<T>(list), ...);
        (list_casts<T, s8, u8, s16, u16, s32, u32, s64, u64>(list), ...);
    };
    common(std::tuple<s8, u8, s16, u16, s32, u32, s64, u64>{});
    list_words<s32>(list);
    list_words<u32>(list);
    list_words<s64>(list);
    list_words<u64>(list);
    list_bits<u32>(list);
    list_bits<u64>(list);
    list_wide_products<s32>(list);
    list_wide_products<u32>(list);
    list_saturated<s32, s8, u8, s16, u16, u32>(list);
    list_saturated<u32, s8, u8, s16, u16, s32>(list);
    list_saturated<s64, s8, u8, s16, u16, s32, u32, u64>(list);
    list_saturated<u64, s8, u8, s16, u16, s32, u32, s64>(list);
    list_saturated<s16, s8, u8, u16>(list);
    list_named(list);
    list_packed<u16>(list, "2");
    list_packed<u8>(list, "4");
    list_sm90(list);
    list_dpx(list);
}

}  // namespace kernelforge::fuzz
