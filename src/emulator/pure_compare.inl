// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_numbers.hpp"

// Comparisons and selections.

namespace kernelforge::emulator::KERNELFORGE_ISA {
namespace {

enum class Compare { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class Combine { none, conjunction, disjunction, exclusive };

template <class T>
constexpr bool is_float_v = std::is_floating_point_v<T>;

/// The comparisons that are computed; all others are these with sources swapped or outcomes
/// negated.
enum class Basic { equal, different, less, less_or_equal, ordered };

/// Of values in the type that they are compared in; false with a NaN.
template <Basic basic, class T>
[[gnu::always_inline]] inline bool holds(T a, T b) {
    switch (basic) {
        case Basic::equal:
            return a == b;
        case Basic::different:
            return a < b || a > b;
        case Basic::less:
            return a < b;
        case Basic::less_or_equal:
            return a <= b;
        case Basic::ordered:
            return a == a && b == b;
    }
    return false;
}

/// One lane's comparison of T: 16-bit floats are compared as f32.
template <Basic basic, class T, bool ftz>
[[gnu::always_inline]] inline bool compare_lane(T a, T b) {
    if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
        return holds<basic>(to_float(flushed<ftz>(a)), to_float(flushed<ftz>(b)));
    } else if constexpr (std::is_same_v<T, float>) {
        return holds<basic>(flushed<ftz>(a), flushed<ftz>(b));
    } else {
        return holds<basic>(a, b);
    }
}

template <class T>
constexpr bool is_two = false;
template <class T>
constexpr bool is_two<Two<T>> = true;

/// Outcomes of all lanes; of two halves `first` is the low one's, else `second` is the negation.
struct Outcomes {
    u32 first, second;
};

template <Basic basic, class T, bool ftz>
[[gnu::noinline]] Outcomes compare_rows(const Rows& rows, RowRef a_row, RowRef b_row) {
    const Source<T> a(rows, a_row);
    const Source<T> b(rows, b_row);
    Outcomes all{0, 0};
    for (int i = 0; i < warp_lanes; ++i) {
        if constexpr (is_two<T>) {
            using Half = decltype(T::low);
            const bool low = compare_lane<basic, Half, ftz>(a[i].low, b[i].low);
            const bool high = compare_lane<basic, Half, ftz>(a[i].high, b[i].high);
            all.first |= low ? lane_bit[i] : 0;
            all.second |= high ? lane_bit[i] : 0;
        } else {
            all.first |= compare_lane<basic, T, ftz>(a[i], b[i]) ? lane_bit[i] : 0;
        }
    }
    if constexpr (!is_two<T>) all.second = ~all.first;
    return all;
}

/// The sign says nothing about equality: signed types share the unsigned one's function.
template <class T, bool integral = std::is_integral_v<T>>
struct BitsOf {
    using Type = T;
};
template <class T>
struct BitsOf<T, true> {
    using Type = std::make_unsigned_t<T>;
};

template <Compare compare, class T, bool ftz>
Outcomes outcomes_of(const Rows& rows, RowRef a, RowRef b) {
    using U = typename BitsOf<T>::Type;
    constexpr bool integral = std::is_integral_v<T>;
    const auto negated = [](Outcomes all) { return Outcomes{~all.first, ~all.second}; };
    switch (compare) {
        case Compare::eq:
            return compare_rows<Basic::equal, U, ftz>(rows, a, b);
        case Compare::ne:
            if constexpr (integral)
                return negated(compare_rows<Basic::equal, U, ftz>(rows, a, b));
            else
                return compare_rows<Basic::different, T, ftz>(rows, a, b);
        case Compare::lt:
            return compare_rows<Basic::less, T, ftz>(rows, a, b);
        case Compare::gt:
            return compare_rows<Basic::less, T, ftz>(rows, b, a);
        case Compare::le:
            if constexpr (integral)
                return negated(compare_rows<Basic::less, T, ftz>(rows, b, a));
            else
                return compare_rows<Basic::less_or_equal, T, ftz>(rows, a, b);
        case Compare::ge:
            if constexpr (integral)
                return negated(compare_rows<Basic::less, T, ftz>(rows, a, b));
            else
                return compare_rows<Basic::less_or_equal, T, ftz>(rows, b, a);
        default:
            break;
    }
    if constexpr (integral)
        return {0, 0};
    else
        switch (compare) {  // true with a NaN: the negation of the opposite ordered comparison
            case Compare::equ:
                return negated(compare_rows<Basic::different, T, ftz>(rows, a, b));
            case Compare::neu:
                return negated(compare_rows<Basic::equal, T, ftz>(rows, a, b));
            case Compare::ltu:
                return negated(compare_rows<Basic::less_or_equal, T, ftz>(rows, b, a));
            case Compare::leu:
                return negated(compare_rows<Basic::less, T, ftz>(rows, b, a));
            case Compare::gtu:
                return negated(compare_rows<Basic::less_or_equal, T, ftz>(rows, a, b));
            case Compare::geu:
                return negated(compare_rows<Basic::less, T, ftz>(rows, a, b));
            case Compare::num:
                return compare_rows<Basic::ordered, T, ftz>(rows, a, b);
            default:
                return negated(compare_rows<Basic::ordered, T, ftz>(rows, a, b));
        }
}

/// What becomes of the outcomes; one of its values a function of setp and set.
struct After {
    Combine combine;
    bool negated;  ///< the predicate source
    int destinations;
    u32 low_truth, high_truth;  ///< of set: the result where the first or second outcome is true
};

u32 combined(const After& after, u32 outcomes, u32 other) {
    if (after.negated) other = ~other;
    switch (after.combine) {
        case Combine::none:
            return outcomes;
        case Combine::conjunction:
            return outcomes & other;
        case Combine::disjunction:
            return outcomes | other;
        case Combine::exclusive:
            return outcomes ^ other;
    }
    return outcomes;
}
[[gnu::noinline]] void put_predicates(const Rows& rows, const RowRef* operands, u32 mask,
                                      const After& after, Outcomes all) {
    u32 other = 0;
    if (after.combine != Combine::none) {
        other = *row_at<const u32>(rows, operands[after.destinations + 2]);
    }
    put_bits(rows, operands[0], combined(after, all.first, other), mask);
    if (after.destinations == 2) {
        put_bits(rows, operands[1], combined(after, all.second, other), mask);
    }
}
[[gnu::noinline]] void put_values(const Rows& rows, const RowRef* operands, u32 mask,
                                  const After& after, Outcomes all) {
    u32 other = 0;
    if (after.combine != Combine::none) other = *row_at<const u32>(rows, operands[3]);
    const u32 low = combined(after, all.first, other);
    const u32 high = combined(after, all.second, other);
    u32 values[warp_lanes];
    for (int i = 0; i < warp_lanes; ++i) {
        values[i] = ((low & lane_bit[i]) != 0 ? after.low_truth : 0) |
                    ((high & lane_bit[i]) != 0 ? after.high_truth : 0);
    }
    put_row(rows, operands[0], values, mask);
}

template <Compare compare, class T, bool ftz, After after>
void set_predicates(const Rows& rows, const RowRef* operands, u32 mask) {
    static constexpr After constant = after;
    const RowRef* sources = operands + after.destinations;
    put_predicates(rows, operands, mask, constant,
                   outcomes_of<compare, T, ftz>(rows, sources[0], sources[1]));
}
template <Compare compare, class T, bool ftz, After after>
void set_values(const Rows& rows, const RowRef* operands, u32 mask) {
    static constexpr After constant = after;
    put_values(rows, operands, mask, constant,
               outcomes_of<compare, T, ftz>(rows, operands[1], operands[2]));
}

PureEntry compare_entry(PureFn run, const After& after, Row destination, Row source) {
    PureEntry made{run, static_cast<u8>(after.destinations), 0, {}};
    for (int i = 0; i < after.destinations; ++i) made.rows[made.count++] = destination;
    made.rows[made.count++] = source;
    made.rows[made.count++] = source;
    if (after.combine != Combine::none) made.rows[made.count++] = Row::predicate;
    return made;
}

/// Calls `f.operator()<compare>(name)` for what T has.
template <class T, class F>
void for_compares(F f) {
    f.template operator()<Compare::eq>("eq");
    f.template operator()<Compare::ne>("ne");
    f.template operator()<Compare::lt>("lt");
    f.template operator()<Compare::le>("le");
    f.template operator()<Compare::gt>("gt");
    f.template operator()<Compare::ge>("ge");
    if constexpr (std::is_unsigned_v<T>) {
        f.template operator()<Compare::lt>("lo");
        f.template operator()<Compare::le>("ls");
        f.template operator()<Compare::gt>("hi");
        f.template operator()<Compare::ge>("hs");
    }
    if constexpr (!std::is_integral_v<T>) {
        f.template operator()<Compare::equ>("equ");
        f.template operator()<Compare::neu>("neu");
        f.template operator()<Compare::ltu>("ltu");
        f.template operator()<Compare::leu>("leu");
        f.template operator()<Compare::gtu>("gtu");
        f.template operator()<Compare::geu>("geu");
        f.template operator()<Compare::num>("num");
        f.template operator()<Compare::nan>("nan");
    }
}
/// Calls `f.operator()<combine, negated>(word, mark)`.
template <class F>
void for_combines(F f) {
    f.template operator()<Combine::none, false>("", "");
    f.template operator()<Combine::conjunction, false>("and", "");
    f.template operator()<Combine::conjunction, true>("and", "!");
    f.template operator()<Combine::disjunction, false>("or", "");
    f.template operator()<Combine::disjunction, true>("or", "!");
    f.template operator()<Combine::exclusive, false>("xor", "");
    f.template operator()<Combine::exclusive, true>("xor", "!");
}

template <Compare compare, class T, bool ftz>
void list_setp_of(PureRegistry& r, const char* name, const char* type) {
    const char* flush = ftz ? "ftz" : "";
    for_combines([&]<Combine combine, bool negated>(const char* word, const char* mark) {
        constexpr After one{combine, negated, 1, 0, 0};
        constexpr After two{combine, negated, 2, 0, 0};
        r.add(
            {{"setp", name, word, flush, type, mark}},
            compare_entry(set_predicates<compare, T, ftz, one>, one, Row::predicate, Lane<T>::row));
        r.add(
            {{"setp", name, word, flush, type, "|", mark}},
            compare_entry(set_predicates<compare, T, ftz, two>, two, Row::predicate, Lane<T>::row));
    });
}
template <class T, bool ftz>
void list_setp(PureRegistry& r, const char* type) {
    for_compares<T>(
        [&]<Compare compare>(const char* name) { list_setp_of<compare, T, ftz>(r, name, type); });
}
template <class T>
void list_setp_bits(PureRegistry& r, const char* type) {
    list_setp_of<Compare::eq, T, false>(r, "eq", type);
    list_setp_of<Compare::ne, T, false>(r, "ne", type);
}

template <class T, bool ftz, u32 truth>
void list_set(PureRegistry& r, const char* to, const char* type) {
    for_compares<T>([&]<Compare compare>(const char* name) {
        for_combines([&]<Combine combine, bool negated>(const char* word, const char* mark) {
            constexpr u32 low = is_two<T> ? truth & 0xffff : truth;
            constexpr u32 high = is_two<T> ? truth & 0xffff'0000 : 0;
            constexpr After after{combine, negated, 1, low, high};
            r.add({{"set", name, word, ftz ? "ftz" : "", to, type, mark}},
                  compare_entry(set_values<compare, T, ftz, after>, after, Row::b32, Lane<T>::row));
        });
    });
}
template <class T, bool ftz = false>
void list_set_words(PureRegistry& r, const char* type) {
    list_set<T, ftz, 0xffff'ffff>(r, "u32", type);
    list_set<T, ftz, 0xffff'ffff>(r, "s32", type);
    list_set<T, ftz, 0x3f80'0000>(r, "f32", type);
}
/// set on 16-bit floats has 16-bit results too.
template <bool ftz>
void list_f16_sets(PureRegistry& r) {
    list_setp<F16, ftz>(r, "f16");
    list_setp<Two<F16>, ftz>(r, "f16x2");
    list_set_words<F16, ftz>(r, "f16");
    list_set<F16, ftz, 0xffff>(r, "u16", "f16");
    list_set<F16, ftz, 0xffff>(r, "s16", "f16");
    list_set<F16, ftz, 0x3c00>(r, "f16", "f16");
    list_set<Two<F16>, ftz, 0x3c00'3c00>(r, "f16x2", "f16x2");
    list_set<Two<F16>, ftz, 0xffff'ffff>(r, "u32", "f16x2");
    list_set<Two<F16>, ftz, 0xffff'ffff>(r, "s32", "f16x2");
}
void list_bf16_sets(PureRegistry& r) {
    list_setp<Bf16, false>(r, "bf16");
    list_setp<Two<Bf16>, false>(r, "bf16x2");
    list_set_words<Bf16>(r, "bf16");
    list_set<Bf16, false, 0xffff>(r, "u16", "bf16");
    list_set<Bf16, false, 0xffff>(r, "s16", "bf16");
    list_set<Bf16, false, 0x3f80>(r, "bf16", "bf16");
    list_set<Two<Bf16>, false, 0x3f80'3f80>(r, "bf16x2", "bf16x2");
    list_set<Two<Bf16>, false, 0xffff'ffff>(r, "u32", "bf16x2");
    list_set<Two<Bf16>, false, 0xffff'ffff>(r, "s32", "bf16x2");
}

template <class T>
void list_selections(PureRegistry& r, const char* type) {
    add(r, {{"selp", type}}, [](T a, T b, bool p) -> T { return p ? a : b; });
    add(r, {{"selp", type, "!"}}, [](T a, T b, bool p) -> T { return p ? b : a; });
    add(r, {{"slct", type, "s32"}}, [](T a, T b, s32 c) -> T { return c >= 0 ? a : b; });
    add(r, {{"slct", type, "f32"}}, [](T a, T b, float c) -> T { return c >= 0 ? a : b; });
    add(r, {{"slct", "ftz", type, "f32"}},
        [](T a, T b, float c) -> T { return flushed<true>(c) >= 0 ? a : b; });
}

}  // namespace

void list_compare(PureRegistry& registry) {
    for_types(Integers{}, [&]<class T>(const char* type) {
        list_setp<T, false>(registry, type);
        list_set_words<T>(registry, type);
    });
    list_setp_bits<u16>(registry, "b16");
    list_setp_bits<u32>(registry, "b32");
    list_setp_bits<u64>(registry, "b64");
    list_setp<float, false>(registry, "f32");
    list_setp<float, true>(registry, "f32");
    list_setp<double, false>(registry, "f64");
    list_set_words<float>(registry, "f32");
    list_set_words<float, true>(registry, "f32");
    list_set_words<double>(registry, "f64");
    list_f16_sets<false>(registry);
    list_f16_sets<true>(registry);
    list_bf16_sets(registry);
    for (const char* type : {"b16", "u16", "s16"}) list_selections<u16>(registry, type);
    for (const char* type : {"b32", "u32", "s32", "f32"}) list_selections<u32>(registry, type);
    for (const char* type : {"b64", "u64", "s64", "f64"}) list_selections<u64>(registry, type);
}

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
