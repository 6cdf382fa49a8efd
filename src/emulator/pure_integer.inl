// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_lanes.hpp"

// Integers, bits, moves.

namespace kernelforge::emulator::KERNELFORGE_ISA {
namespace {

template <class T>
constexpr bool is_signed_v = std::is_signed_v<T>;
template <class T>
constexpr int bits_v = static_cast<int>(sizeof(T) * 8);
/// Type in which sums and products wrap without the surprises of promotion.
template <class T>
using Wrap = std::conditional_t<sizeof(T) == 8, u64, u32>;
/// Twice as wide, same sign.
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T>
T wrapped_add(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
}
template <class T>
T wrapped_sub(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
}
template <class T>
T mul_lo(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
}
template <class T>
T mul_hi(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> bits_v<T>);
}
template <class T>
Wide<T> mul_wide(T a, T b) {
    return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <class T>
T least(T a, T b) {
    return a < b ? a : b;
}
template <class T>
T greatest(T a, T b) {
    return a < b ? b : a;
}
s32 saturated(s64 value) {
    return static_cast<s32>(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}
template <class T>
Two<T> both(Two<T> a, Two<T> b, T (*f)(T, T)) {
    return {f(a.low, b.low), f(a.high, b.high)};
}

/// Quotient; by zero all ones, as NVIDIA's code for it gives.
template <class T>
T quotient(T a, T b) {
    if (b == 0) return static_cast<T>(~Wrap<T>{0});
    if constexpr (is_signed_v<T>) {
        if (b == -1) return wrapped_sub(T{0}, a);
    }
    return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
    if (b == 0) return static_cast<T>(~Wrap<T>{0});
    if constexpr (is_signed_v<T>) {
        if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
}

void list_sums(PureRegistry& r) {
    for_types(Integers{}, [&]<class T>(const char* type) {
        add(r, {{"add", type}}, [](T a, T b) -> T { return wrapped_add(a, b); });
        add(r, {{"sub", type}}, [](T a, T b) -> T { return wrapped_sub(a, b); });
        add(r, {{"mul", "lo", type}}, [](T a, T b) -> T { return mul_lo(a, b); });
        add(r, {{"mul", "hi", type}}, [](T a, T b) -> T { return mul_hi(a, b); });
        add(r, {{"mad", "lo", type}},
            [](T a, T b, T c) -> T { return wrapped_add(mul_lo(a, b), c); });
        add(r, {{"mad", "hi", type}},
            [](T a, T b, T c) -> T { return wrapped_add(mul_hi(a, b), c); });
        add(r, {{"min", type}}, [](T a, T b) -> T { return least(a, b); });
        add(r, {{"max", type}}, [](T a, T b) -> T { return greatest(a, b); });
        add(r, {{"sad", type}}, [](T a, T b, T c) -> T {
            return wrapped_add(c, a < b ? wrapped_sub(b, a) : wrapped_sub(a, b));
        });
        add_by_lane(r, {{"div", type}}, [](T a, T b) -> T { return quotient(a, b); });
        add_by_lane(r, {{"rem", type}}, [](T a, T b) -> T { return remainder(a, b); });
    });
    for_types(types<u16, s16, u32, s32>, [&]<class T>(const char* type) {
        add(r, {{"mul", "wide", type}}, [](T a, T b) -> Wide<T> { return mul_wide(a, b); });
        add(r, {{"mad", "wide", type}},
            [](T a, T b, Wide<T> c) -> Wide<T> { return wrapped_add(mul_wide(a, b), c); });
    });
    for_types(Signed{}, [&]<class T>(const char* type) {
        add(r, {{"abs", type}}, [](T a) -> T { return a < 0 ? wrapped_sub(T{0}, a) : a; });
        add(r, {{"neg", type}}, [](T a) -> T { return wrapped_sub(T{0}, a); });
    });
    add(r, {{"add", "sat", "s32"}}, [](s32 a, s32 b) -> s32 { return saturated(s64{a} + b); });
    add(r, {{"sub", "sat", "s32"}}, [](s32 a, s32 b) -> s32 { return saturated(s64{a} - b); });
    add(r, {{"mad", "hi", "sat", "s32"}},
        [](s32 a, s32 b, s32 c) -> s32 { return saturated(s64{mul_hi(a, b)} + c); });
    add(r, {{"min", "relu", "s32"}}, [](s32 a, s32 b) -> s32 { return greatest(0, least(a, b)); });
    add(r, {{"max", "relu", "s32"}},
        [](s32 a, s32 b) -> s32 { return greatest(0, greatest(a, b)); });
}

template <class T>
void list_two_sums(PureRegistry& r, const char* type) {
    add(r, {{"add", type}},
        [](Two<T> a, Two<T> b) -> Two<T> { return both<T>(a, b, wrapped_add<T>); });
    add(r, {{"min", type}}, [](Two<T> a, Two<T> b) -> Two<T> { return both<T>(a, b, least<T>); });
    add(r, {{"max", type}},
        [](Two<T> a, Two<T> b) -> Two<T> { return both<T>(a, b, greatest<T>); });
    if constexpr (is_signed_v<T>) {
        add(r, {{"min", "relu", type}}, [](Two<T> a, Two<T> b) -> Two<T> {
            return both<T>(both<T>(a, b, least<T>), {0, 0}, greatest<T>);
        });
        add(r, {{"max", "relu", type}}, [](Two<T> a, Two<T> b) -> Two<T> {
            return both<T>(both<T>(a, b, greatest<T>), {0, 0}, greatest<T>);
        });
    }
}

/// Low 24 bits, extended.
template <class T>
s64 low24(T a) {
    const u32 shifted = static_cast<u32>(a) << 8;
    return is_signed_v<T> ? s64{static_cast<s32>(shifted) >> 8} : s64{shifted >> 8};
}
template <class T>
T mul24_lo(T a, T b) {
    return static_cast<T>(low24(a) * low24(b));
}
template <class T>
T mul24_hi(T a, T b) {
    return static_cast<T>((low24(a) * low24(b)) >> 16);
}

void list_24_bits(PureRegistry& r) {
    for_types(types<u32, s32>, [&]<class T>(const char* type) {
        add(r, {{"mul24", "lo", type}}, [](T a, T b) -> T { return mul24_lo(a, b); });
        add(r, {{"mul24", "hi", type}}, [](T a, T b) -> T { return mul24_hi(a, b); });
        add(r, {{"mad24", "lo", type}},
            [](T a, T b, T c) -> T { return wrapped_add(mul24_lo(a, b), c); });
        add(r, {{"mad24", "hi", type}},
            [](T a, T b, T c) -> T { return wrapped_add(mul24_hi(a, b), c); });
    });
    add(r, {{"mad24", "hi", "sat", "s32"}},
        [](s32 a, s32 b, s32 c) -> s32 { return saturated(s64{mul24_hi(a, b)} + c); });
}

template <class T>
Pair<T, bool> sum_with_carry(T a, T b, bool carry) {
    using U = Wrap<T>;
    const U sum = static_cast<U>(a) + static_cast<U>(b);
    const U all = sum + (carry ? 1U : 0U);
    return {static_cast<T>(all), sum < static_cast<U>(a) || all < sum};
}
/// The flag of subtractions is a borrow.
template <class T>
Pair<T, bool> difference_with_borrow(T a, T b, bool borrow) {
    using U = Wrap<T>;
    const U difference = static_cast<U>(a) - static_cast<U>(b);
    const U all = difference - (borrow ? 1U : 0U);
    return {static_cast<T>(all),
            static_cast<U>(a) < static_cast<U>(b) || (borrow && difference == 0)};
}

void add_carry(PureRegistry& r, const PureName& name, PureEntry entry) {
    // The flag's row is the last destination or the last source.
    entry.writes_carry = entry.destinations == 2;
    entry.reads_carry = entry.rows[entry.count - 1] == Row::predicate;
    r.add(name, entry);
}

/// mad.lo.cc, madc.hi, …: `product` is one half of the product.
template <class T, class Product>
void list_carried_products(PureRegistry& r, const char* half, const char* type, Product) {
    add_carry(r, {{"mad", half, "cc", type}}, entry_of([](T a, T b, T c) -> Pair<T, bool> {
                  return sum_with_carry(Product{}(a, b), c, false);
              }));
    add_carry(r, {{"madc", half, type}}, entry_of([](T a, T b, T c, bool carry) -> T {
                  return sum_with_carry(Product{}(a, b), c, carry).first;
              }));
    add_carry(r, {{"madc", half, "cc", type}},
              entry_of([](T a, T b, T c, bool carry) -> Pair<T, bool> {
                  return sum_with_carry(Product{}(a, b), c, carry);
              }));
}

void list_carries(PureRegistry& r) {
    for_types(types<u32, s32, u64, s64>, [&]<class T>(const char* type) {
        add_carry(r, {{"add", "cc", type}},
                  entry_of([](T a, T b) -> Pair<T, bool> { return sum_with_carry(a, b, false); }));
        add_carry(r, {{"addc", type}}, entry_of([](T a, T b, bool carry) -> T {
                      return sum_with_carry(a, b, carry).first;
                  }));
        add_carry(r, {{"addc", "cc", type}}, entry_of([](T a, T b, bool carry) -> Pair<T, bool> {
                      return sum_with_carry(a, b, carry);
                  }));
        add_carry(r, {{"sub", "cc", type}}, entry_of([](T a, T b) -> Pair<T, bool> {
                      return difference_with_borrow(a, b, false);
                  }));
        add_carry(r, {{"subc", type}}, entry_of([](T a, T b, bool borrow) -> T {
                      return difference_with_borrow(a, b, borrow).first;
                  }));
        add_carry(r, {{"subc", "cc", type}}, entry_of([](T a, T b, bool borrow) -> Pair<T, bool> {
                      return difference_with_borrow(a, b, borrow);
                  }));
        list_carried_products<T>(r, "lo", type, [](T a, T b) -> T { return mul_lo(a, b); });
        list_carried_products<T>(r, "hi", type, [](T a, T b) -> T { return mul_hi(a, b); });
    });
}

/// Byte or half word `index`, extended as T says.
template <class T>
s32 byte_of(u32 word, int index) {
    return static_cast<std::conditional_t<is_signed_v<T>, s8, u8>>(word >> (8 * index));
}
template <class T>
s32 half_of(u32 word, int index) {
    return static_cast<std::conditional_t<is_signed_v<T>, s16, u16>>(word >> (16 * index));
}
template <class A, class B>
u32 dot4(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; ++i) c += static_cast<u32>(byte_of<A>(a, i) * byte_of<B>(b, i));
    return c;
}
template <class A, class B>
u32 dot2(u32 a, u32 b, u32 c, int first_byte) {
    for (int i = 0; i < 2; ++i) {
        c += static_cast<u32>(half_of<A>(a, i)) * static_cast<u32>(byte_of<B>(b, first_byte + i));
    }
    return c;
}

/// Of the SIMD video instructions the one that has hardware and that the headers use.
u32 difference_of_bytes(u32 a, u32 b, int index) {
    const s32 difference = byte_of<u32>(a, index) - byte_of<u32>(b, index);
    return static_cast<u32>(difference < 0 ? -difference : difference);
}
u32 differences4(u32 a, u32 b) {
    u32 result = 0;
    for (int i = 0; i < 4; ++i) result |= difference_of_bytes(a, b, i) << (8 * i);
    return result;
}
u32 sum_of_differences4(u32 a, u32 b, u32 c) {
    for (int i = 0; i < 4; ++i) c += difference_of_bytes(a, b, i);
    return c;
}

void list_dots(PureRegistry& r) {
    add(r, {{"vabsdiff4", "u32", "u32", "u32"}},
        [](u32 a, u32 b, u32) -> u32 { return differences4(a, b); });
    add(r, {{"vabsdiff4", "u32", "u32", "u32", "add"}},
        [](u32 a, u32 b, u32 c) -> u32 { return sum_of_differences4(a, b, c); });
    for_types(types<u32, s32>, [&]<class A>(const char* a_type) {
        for_types(types<u32, s32>, [&]<class B>(const char* b_type) {
            add(r, {{"dp4a", a_type, b_type}},
                [](u32 a, u32 b, u32 c) -> u32 { return dot4<A, B>(a, b, c); });
            add(r, {{"dp2a", "lo", a_type, b_type}},
                [](u32 a, u32 b, u32 c) -> u32 { return dot2<A, B>(a, b, c, 0); });
            add(r, {{"dp2a", "hi", a_type, b_type}},
                [](u32 a, u32 b, u32 c) -> u32 { return dot2<A, B>(a, b, c, 2); });
        });
    });
}

template <class T>
T shift_left(T a, u32 by) {
    return by >= bits_v<T> ? T{0} : static_cast<T>(static_cast<Wrap<T>>(a) << by);
}
template <class T>
T shift_right(T a, u32 by) {
    const u32 last = bits_v<T> - 1;
    if constexpr (is_signed_v<T>) return static_cast<T>(a >> (by > last ? last : by));
    return by > last ? T{0} : static_cast<T>(static_cast<Wrap<T>>(a) >> (by & last));
}
/// Bits [32, 64) of `high:low << by`, and bits [0, 32) of `high:low >> by`; `by` up to 32.
u32 funnel_left(u32 low, u32 high, u32 by) {
    return static_cast<u32>((((u64{high} << 32) | low) << by) >> 32);
}
u32 funnel_right(u32 low, u32 high, u32 by) {
    return static_cast<u32>(((u64{high} << 32) | low) >> by);
}

void list_shifts(PureRegistry& r) {
    for_types(Unsigned{}, [&]<class T>(const char* type) {
        const char* bits = sizeof(T) == 2 ? "b16" : sizeof(T) == 4 ? "b32" : "b64";
        add(r, {{"shl", bits}}, [](T a, u32 by) -> T { return shift_left(a, by); });
        add(r, {{"shr", bits}}, [](T a, u32 by) -> T { return shift_right(a, by); });
        add(r, {{"shr", type}}, [](T a, u32 by) -> T { return shift_right(a, by); });
    });
    for_types(Signed{}, [&]<class T>(const char* type) {
        add(r, {{"shr", type}}, [](T a, u32 by) -> T { return shift_right(a, by); });
    });
    add(r, {{"shf", "l", "clamp", "b32"}},
        [](u32 a, u32 b, u32 c) -> u32 { return funnel_left(a, b, least(c, 32U)); });
    add(r, {{"shf", "l", "wrap", "b32"}},
        [](u32 a, u32 b, u32 c) -> u32 { return funnel_left(a, b, c & 31U); });
    add(r, {{"shf", "r", "clamp", "b32"}},
        [](u32 a, u32 b, u32 c) -> u32 { return funnel_right(a, b, least(c, 32U)); });
    add(r, {{"shf", "r", "wrap", "b32"}},
        [](u32 a, u32 b, u32 c) -> u32 { return funnel_right(a, b, c & 31U); });
}

/// Bit by bit `table[a b c]`, as lop3 numbers it: a weighs 4.
u32 look_up3(u32 a, u32 b, u32 c, u32 table) {
    const auto entry = [table](int index) { return 0U - ((table >> index) & 1U); };
    const u32 a0 =
        (b & ((c & entry(3)) | (~c & entry(2)))) | (~b & ((c & entry(1)) | (~c & entry(0))));
    const u32 a1 =
        (b & ((c & entry(7)) | (~c & entry(6)))) | (~b & ((c & entry(5)) | (~c & entry(4))));
    return (a & a1) | (~a & a0);
}

void list_logic(PureRegistry& r) {
    for_types(Unsigned{}, [&]<class T>(const char*) {
        const char* type = sizeof(T) == 2 ? "b16" : sizeof(T) == 4 ? "b32" : "b64";
        add(r, {{"and", type}}, [](T a, T b) -> T { return static_cast<T>(a & b); });
        add(r, {{"or", type}}, [](T a, T b) -> T { return static_cast<T>(a | b); });
        add(r, {{"xor", type}}, [](T a, T b) -> T { return static_cast<T>(a ^ b); });
        add(r, {{"not", type}}, [](T a) -> T { return static_cast<T>(~a); });
        add(r, {{"cnot", type}}, [](T a) -> T { return a == 0 ? 1 : 0; });
    });
    add(r, {{"and", "pred"}}, [](bool a, bool b) -> bool { return a && b; });
    add(r, {{"or", "pred"}}, [](bool a, bool b) -> bool { return a || b; });
    add(r, {{"xor", "pred"}}, [](bool a, bool b) -> bool { return a != b; });
    add(r, {{"not", "pred"}}, [](bool a) -> bool { return !a; });
    add(r, {{"lop3", "b32"}},
        [](u32 a, u32 b, u32 c, u32 table) -> u32 { return look_up3(a, b, c, table); });
    add(r, {{"lop3", "or", "b32", "|"}},
        [](u32 a, u32 b, u32 c, u32 table, bool q) -> Pair<u32, bool> {
            const u32 d = look_up3(a, b, c, table);
            return {d, d != 0 || q};
        });
    add(r, {{"lop3", "and", "b32", "|"}},
        [](u32 a, u32 b, u32 c, u32 table, bool q) -> Pair<u32, bool> {
            const u32 d = look_up3(a, b, c, table);
            return {d, d != 0 && q};
        });
}

template <class T>
u32 population(T a) {
    if constexpr (sizeof(T) == 8) return static_cast<u32>(__builtin_popcountll(a));
    a = a - ((a >> 1) & 0x5555'5555U);
    a = (a & 0x3333'3333U) + ((a >> 2) & 0x3333'3333U);
    return static_cast<u32>((((a + (a >> 4)) & 0x0f0f'0f0fU) * 0x0101'0101U) >> 24);
}
template <class T>
u32 leading_zeros(T a) {
    if constexpr (sizeof(T) == 8) return a == 0 ? 64U : static_cast<u32>(__builtin_clzll(a));
    return a == 0 ? 32U : static_cast<u32>(__builtin_clz(a));
}
template <class T>
T reversed(T a) {
    constexpr T pairs = static_cast<T>(0x5555'5555'5555'5555U);
    constexpr T fours = static_cast<T>(0x3333'3333'3333'3333U);
    constexpr T bytes = static_cast<T>(0x0f0f'0f0f'0f0f'0f0fU);
    a = ((a >> 1) & pairs) | ((a & pairs) << 1);
    a = ((a >> 2) & fours) | ((a & fours) << 2);
    a = ((a >> 4) & bytes) | ((a & bytes) << 4);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(a);
    return __builtin_bswap32(static_cast<u32>(a));
}
/// Position of the highest bit that differs from the sign; all ones where there is none.
template <class T>
u32 highest_bit(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = static_cast<U>(is_signed_v<T> && a < T{0} ? ~a : a);
    return bits == 0 ? ~0U : bits_v<T> - 1 - leading_zeros(bits);
}
template <class T>
u32 highest_bit_shift(T a) {
    const u32 found = highest_bit(a);
    return found == ~0U ? found : bits_v<T> - 1 - found;
}

/// `length` bits from `position` on, extended by the field's sign bit or zero; both at most 255.
template <class T>
T extract_field(T a, u32 position, u32 length) {
    using U = std::make_unsigned_t<T>;
    position &= 0xff;
    length &= 0xff;
    if (length == 0) return 0;
    constexpr u32 last = bits_v<T> - 1;
    const U moved = static_cast<U>(shift_right(a, position));  // signed: the sign bit follows on
    if (length > last) return static_cast<T>(moved);
    const u32 unused = bits_v<T> - length;
    return static_cast<T>(static_cast<T>(moved << unused) >> unused);
}
template <class T>
T insert_field(T from, T into, u32 position, u32 length) {
    position &= 0xff;
    length &= 0xff;
    const T ones =
        length >= bits_v<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T field = shift_left(ones, position);
    return (into & ~field) | (shift_left(from, position) & field);
}
/// Position of the `offset`-th set bit from `base` on, downward if negative; the ISA's definition.
u32 find_nth_set(u32 mask, u32 base, s32 offset) {
    if (offset == 0) return base < 32 && ((mask >> base) & 1U) != 0 ? base : ~0U;
    s64 left = (offset < 0 ? -s64{offset} : s64{offset}) - 1;
    const s64 step = offset < 0 ? -1 : 1;
    for (s64 at = base; at >= 0 && at < 32; at += step) {
        if (((mask >> at) & 1U) == 0) continue;
        if (left-- == 0) return static_cast<u32>(at);
    }
    return ~0U;
}
u32 ones_below(u32 count) {
    return count >= 32 ? ~0U : (1U << count) - 1;
}
template <class T>
T extend_from(T a, u32 width, bool clamp) {
    if (clamp && width > 31) return a;
    width &= 31;
    return extract_field(a, 0, width);
}

void list_bits(PureRegistry& r) {
    for_types(types<u32, u64>, [&]<class T>(const char*) {
        const char* type = sizeof(T) == 4 ? "b32" : "b64";
        add(r, {{"popc", type}}, [](T a) -> u32 { return population(a); });
        add(r, {{"clz", type}}, [](T a) -> u32 { return leading_zeros(a); });
        add(r, {{"brev", type}}, [](T a) -> T { return reversed(a); });
        add(r, {{"bfi", type}}, [](T a, T b, u32 position, u32 length) -> T {
            return insert_field(a, b, position, length);
        });
    });
    for_types(types<u32, s32, u64, s64>, [&]<class T>(const char* type) {
        add(r, {{"bfind", type}}, [](T a) -> u32 { return highest_bit(a); });
        add(r, {{"bfind", "shiftamt", type}}, [](T a) -> u32 { return highest_bit_shift(a); });
        add(r, {{"bfe", type}},
            [](T a, u32 position, u32 length) -> T { return extract_field(a, position, length); });
    });
    add_by_lane(r, {{"fns", "b32"}},
                [](u32 a, u32 base, s32 n) -> u32 { return find_nth_set(a, base, n); });
    add(r, {{"bmsk", "clamp", "b32"}}, [](u32 a, u32 b) -> u32 {
        return ones_below(least(a, 32U) + least(b, 32U)) & ~ones_below(a);
    });
    add(r, {{"bmsk", "wrap", "b32"}},
        [](u32 a, u32 b) -> u32 { return ones_below((a & 31) + (b & 31)) & ~ones_below(a & 31); });
    for_types(types<u32, s32>, [&]<class T>(const char* type) {
        add(r, {{"szext", "clamp", type}},
            [](T a, u32 width) -> T { return extend_from(a, width, true); });
        add(r, {{"szext", "wrap", type}},
            [](T a, u32 width) -> T { return extend_from(a, width, false); });
    });
}

/// Bytes of b:a that the selectors' low nibbles name; a nibble's top bit spreads the byte's sign.
u32 permute(u32 a, u32 b, u32 selectors) {
    const u64 bytes = (u64{b} << 32) | a;
    u32 result = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 selector = selectors >> (4 * i);
        u32 byte = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xff;
        if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}

/// The modes of prmt choose by the low two bits of the selector.
template <u32 s0, u32 s1, u32 s2, u32 s3>
void add_permutation(PureRegistry& r, const char* mode) {
    add(r, {{"prmt", "b32", mode}}, [](u32 a, u32 b, u32 c) -> u32 {
        constexpr u32 chosen[] = {s0, s1, s2, s3};
        return permute(a, b, chosen[c & 3]);
    });
}

void list_permutations(PureRegistry& r) {
    add(r, {{"prmt", "b32"}}, [](u32 a, u32 b, u32 c) -> u32 { return permute(a, b, c); });
    add_permutation<0x3210, 0x4321, 0x5432, 0x6543>(r, "f4e");
    add_permutation<0x5670, 0x6701, 0x7012, 0x0123>(r, "b4e");
    add_permutation<0x0000, 0x1111, 0x2222, 0x3333>(r, "rc8");
    add_permutation<0x3210, 0x3211, 0x3222, 0x3333>(r, "ecl");
    add_permutation<0x0000, 0x1110, 0x2210, 0x3210>(r, "ecr");
    add_permutation<0x1010, 0x3232, 0x1010, 0x3232>(r, "rc16");
}

template <class Whole, class Part, int n>
Many<Part, n> unpacked(Whole whole) {
    Many<Part, n> parts{};
    for (int k = 0; k < n; ++k) parts.values[k] = static_cast<Part>(whole >> (k * bits_v<Part>));
    return parts;
}

void list_moves(PureRegistry& r) {
    for (const char* type : {"b16", "u16", "s16", "f16", "bf16"}) {
        add(r, {{"mov", type}}, [](u16 a) -> u16 { return a; });
    }
    for (const char* type : {"b32", "u32", "s32", "f32", "f16x2", "bf16x2"}) {
        add(r, {{"mov", type}}, [](u32 a) -> u32 { return a; });
    }
    for (const char* type : {"b64", "u64", "s64", "f64"}) {
        add(r, {{"mov", type}}, [](u64 a) -> u64 { return a; });
    }
    add(r, {{"mov", "pred"}}, [](bool a) -> bool { return a; });
    add(r, {{"mov", "pred", "!"}}, [](bool a) -> bool { return !a; });
    add(r, {{"mov", "b16", "pack2"}},
        [](u8 a, u8 b) -> u16 { return static_cast<u16>(a | (b << 8)); });
    add(r, {{"mov", "b32", "pack2"}}, [](u16 a, u16 b) -> u32 { return a | (u32{b} << 16); });
    add(r, {{"mov", "b32", "pack4"}}, [](u8 a, u8 b, u8 c, u8 d) -> u32 {
        return a | (u32{b} << 8) | (u32{c} << 16) | (u32{d} << 24);
    });
    add(r, {{"mov", "b64", "pack2"}}, [](u32 a, u32 b) -> u64 { return a | (u64{b} << 32); });
    add(r, {{"mov", "b64", "pack4"}}, [](u16 a, u16 b, u16 c, u16 d) -> u64 {
        return a | (u64{b} << 16) | (u64{c} << 32) | (u64{d} << 48);
    });
    add(r, {{"mov", "b16", "unpack2"}},
        [](u16 a) -> Many<u8, 2> { return unpacked<u16, u8, 2>(a); });
    add(r, {{"mov", "b32", "unpack2"}},
        [](u32 a) -> Many<u16, 2> { return unpacked<u32, u16, 2>(a); });
    add(r, {{"mov", "b32", "unpack4"}},
        [](u32 a) -> Many<u8, 4> { return unpacked<u32, u8, 4>(a); });
    add(r, {{"mov", "b64", "unpack2"}},
        [](u64 a) -> Many<u32, 2> { return unpacked<u64, u32, 2>(a); });
    add(r, {{"mov", "b64", "unpack4"}},
        [](u64 a) -> Many<u16, 4> { return unpacked<u64, u16, 4>(a); });
}

}  // namespace

void list_integer(PureRegistry& registry) {
    list_sums(registry);
    list_two_sums<u16>(registry, "u16x2");
    list_two_sums<s16>(registry, "s16x2");
    list_24_bits(registry);
    list_carries(registry);
    list_dots(registry);
    list_shifts(registry);
    list_logic(registry);
    list_bits(registry);
    list_permutations(registry);
    list_moves(registry);
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
