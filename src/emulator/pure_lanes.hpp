// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "emulator/lanes.hpp"
#include "emulator/pure_registry.hpp"

// Makes a `PureFn` of a function of one lane's values. Included with KERNELFORGE_ISA defined as
// `portable` or `avx2`; everything is in that namespace, and nothing inline of the standard library
// is called, so that code for AVX2 never replaces the portable one at link time.

#if defined(__clang__)
#define KERNELFORGE_INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
// A destination row is a source row or apart from it, so that no lane depends on another.
#define KERNELFORGE_INDEPENDENT_LANES _Pragma("GCC ivdep")
#endif

namespace kernelforge::emulator::KERNELFORGE_ISA {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

/// Bits of 16-bit floats, so that a lane's function tells them from integers.
struct F16 {
    u16 bits;
};
struct Bf16 {
    u16 bits;
};
/// Two of them in 32 bits, `low` in the low half.
template <class T>
struct Two {
    T low, high;
};

/// Results of instructions with several destinations.
template <class A, class B>
struct Pair {
    A first;
    B second;
};
template <class T, int n>
struct Many {
    T values[n];
};

template <class To, class From>
[[gnu::always_inline]] inline To bit_cast(From from) {
    return __builtin_bit_cast(To, from);
}

inline constexpr u32 lane_bit[warp_lanes] = {
    1U << 0,  1U << 1,  1U << 2,  1U << 3,  1U << 4,  1U << 5,  1U << 6,  1U << 7,
    1U << 8,  1U << 9,  1U << 10, 1U << 11, 1U << 12, 1U << 13, 1U << 14, 1U << 15,
    1U << 16, 1U << 17, 1U << 18, 1U << 19, 1U << 20, 1U << 21, 1U << 22, 1U << 23,
    1U << 24, 1U << 25, 1U << 26, 1U << 27, 1U << 28, 1U << 29, 1U << 30, 1U << 31};

/// How a lane's value lies in its row.
template <class T>
struct Lane {
    static constexpr bool wide = sizeof(T) == 8;
    static constexpr Row row = wide ? Row::b64 : Row::b32;
    using Word = std::conditional_t<wide, u64, u32>;
    using Bits = std::conditional_t<
        wide, u64,
        std::conditional_t<sizeof(T) == 4, u32, std::conditional_t<sizeof(T) == 2, u16, u8>>>;
    [[gnu::always_inline]] static T load(Word word) { return bit_cast<T>(static_cast<Bits>(word)); }
    [[gnu::always_inline]] static Word store(T value) { return bit_cast<Bits>(value); }
};

/// Halves by shifts: going through the struct's memory would keep loops from being vectorised.
template <class T>
struct Lane<Two<T>> {
    static constexpr bool wide = false;
    static constexpr Row row = Row::b32;
    using Word = u32;
    using Bits = u32;
    [[gnu::always_inline]] static Two<T> load(u32 word) {
        return {Lane<T>::load(word & 0xffff), Lane<T>::load(word >> 16)};
    }
    [[gnu::always_inline]] static u32 store(Two<T> value) {
        return Lane<T>::store(value.low) | (Lane<T>::store(value.high) << 16);
    }
};

template <class T>
[[gnu::always_inline]] inline T* row_at(const Rows& rows, RowRef ref) {
    return reinterpret_cast<T*>(ref >= 0 ? rows.frame + ref : rows.fixed + ~ref);
}

template <class T>
struct Source {
    const typename Lane<T>::Word* words;
    Source(const Rows& rows, RowRef ref) : words(row_at<const typename Lane<T>::Word>(rows, ref)) {}
    [[gnu::always_inline]] T operator[](int lane) const { return Lane<T>::load(words[lane]); }
};
template <>
struct Source<bool> {
    u32 bits;
    Source(const Rows& rows, RowRef ref) : bits(*row_at<const u32>(rows, ref)) {}
    [[gnu::always_inline]] bool operator[](int lane) const { return (bits & lane_bit[lane]) != 0; }
};

/// Copies the lanes of `mask`. `to` may be no row.
template <class Word>
inline void put_row(const Rows& rows, RowRef ref, const Word* values, u32 mask) {
    if (ref == no_row) return;
    Word* to = row_at<Word>(rows, ref);
    for (int i = 0; i < warp_lanes; ++i) to[i] = (mask & lane_bit[i]) != 0 ? values[i] : to[i];
}
inline void put_bits(const Rows& rows, RowRef ref, u32 bits, u32 mask) {
    if (ref == no_row) return;
    u32* to = row_at<u32>(rows, ref);
    *to = (*to & ~mask) | (bits & mask);
}

/// A destination's values before they reach the row: other destinations, or sources of another
/// width, may share its memory.
template <class T>
struct Buffer {
    alignas(64) typename Lane<T>::Word words[warp_lanes];
    [[gnu::always_inline]] void set(int lane, T value) { words[lane] = Lane<T>::store(value); }
    void put(const Rows& rows, RowRef ref, u32 mask) const { put_row(rows, ref, words, mask); }
};
template <>
struct Buffer<bool> {
    alignas(64) u32 words[warp_lanes];
    [[gnu::always_inline]] void set(int lane, bool value) {
        words[lane] = value ? lane_bit[lane] : 0;
    }
    void put(const Rows& rows, RowRef ref, u32 mask) const {
        u32 bits = 0;
        for (int i = 0; i < warp_lanes; ++i) bits |= words[i];
        put_bits(rows, ref, bits, mask);
    }
};

enum class Rounding { rn, rz, rm, rp };

/// Rounds every operation inside as `mode` says, and gives the caller's mode back. The asm
/// statements bar loads and stores from crossing, and with them what is computed between.
template <Rounding mode>
class RoundingScope {
  public:
    RoundingScope() { switch_mode(); }
    ~RoundingScope() { restore(); }
    RoundingScope(const RoundingScope&) = delete;
    RoundingScope& operator=(const RoundingScope&) = delete;

  private:
#if defined(__x86_64__)
    void switch_mode() {
        static constexpr u32 controls[] = {0, 3U << 13, 1U << 13, 2U << 13};
        asm volatile("stmxcsr %0" : "=m"(before_)::"memory");
        const u32 now = (before_ & ~(3U << 13)) | controls[static_cast<int>(mode)];
        asm volatile("ldmxcsr %0" ::"m"(now) : "memory");
    }
    void restore() {
        asm volatile("ldmxcsr %0" ::"m"(before_) : "memory");
    }
    u32 before_ = 0;
#elif defined(__aarch64__)
    void switch_mode() {
        static constexpr u64 controls[] = {0, 3U << 22, 2U << 22, 1U << 22};
        asm volatile("mrs %0, fpcr" : "=r"(before_)::"memory");
        const u64 now = (before_ & ~u64{3U << 22}) | controls[static_cast<int>(mode)];
        asm volatile("msr fpcr, %0" ::"r"(now) : "memory");
    }
    void restore() {
        asm volatile("msr fpcr, %0" ::"r"(before_) : "memory");
    }
    u64 before_ = 0;
#else
#error "directed rounding is not written for this processor"
#endif
};
template <>
class RoundingScope<Rounding::rn> {
  public:
    RoundingScope() {}  // user-provided, so that an unused scope is no unused variable
};

/// How the lanes are walked: all of them in vectors, or only those of the mask, one by one, where
/// the lane's function is long and not vectorised.
enum class Walk { vectors, lanes };

template <class F, Walk walk, Rounding mode, class R, class... A>
struct Runner {
    static constexpr int sources = sizeof...(A);
    /// One destination: writes the row at once when that can hurt no source.
    static constexpr bool same_width =
        ((std::is_same_v<A, bool> || Lane<A>::wide == Lane<R>::wide) && ...);

    template <std::size_t... I>
    [[gnu::always_inline]] static void compute(typename Lane<R>::Word* out, const Rows& rows,
                                               const RowRef* operands, u32 mask,
                                               std::index_sequence<I...>) {
        all(out, mask, Source<A>(rows, operands[1 + I])...);
    }
    [[gnu::always_inline]] static void all(typename Lane<R>::Word* out, u32 mask, Source<A>... a) {
        if constexpr (walk == Walk::vectors) {
            KERNELFORGE_INDEPENDENT_LANES
            for (int i = 0; i < warp_lanes; ++i) out[i] = Lane<R>::store(F{}(a[i]...));
        } else {
            for (u32 left = mask; left != 0; left &= left - 1) {
                const int i = __builtin_ctz(left);
                out[i] = Lane<R>::store(F{}(a[i]...));
            }
        }
    }
    static void run(const Rows& rows, const RowRef* operands, u32 mask) {
        const RoundingScope<mode> scope;
        const std::index_sequence_for<A...> each;
        if (operands[0] == no_row) return;
        auto* out = row_at<typename Lane<R>::Word>(rows, operands[0]);
        if (same_width && (mask == all_lanes || walk == Walk::lanes)) {
            compute(out, rows, operands, mask, each);
            return;
        }
        Buffer<R> buffer;
        compute(buffer.words, rows, operands, mask, each);
        buffer.put(rows, operands[0], mask);
    }
    static PureEntry entry() { return {&run, 1, 1 + sources, {Lane<R>::row, row_of<A>()...}}; }
    template <class T>
    static constexpr Row row_of() {
        return std::is_same_v<T, bool> ? Row::predicate : Lane<T>::row;
    }
};

template <class F, Walk walk, Rounding mode, class... A>
struct Runner<F, walk, mode, bool, A...> {
    template <std::size_t... I>
    [[gnu::always_inline]] static u32 compute(const Rows& rows, const RowRef* operands,
                                              std::index_sequence<I...>) {
        return all(Source<A>(rows, operands[1 + I])...);
    }
    [[gnu::always_inline]] static u32 all(Source<A>... a) {
        u32 bits = 0;
        for (int i = 0; i < warp_lanes; ++i) bits |= F{}(a[i]...) ? lane_bit[i] : 0;
        return bits;
    }
    static void run(const Rows& rows, const RowRef* operands, u32 mask) {
        put_bits(rows, operands[0], compute(rows, operands, std::index_sequence_for<A...>{}), mask);
    }
    static PureEntry entry() {
        return {&run,
                1,
                1 + sizeof...(A),
                {Row::predicate, (std::is_same_v<A, bool> ? Row::predicate : Lane<A>::row)...}};
    }
};

template <class F, Walk walk, Rounding mode, class B, class C, class... A>
struct Runner<F, walk, mode, Pair<B, C>, A...> {
    template <std::size_t... I>
    [[gnu::always_inline]] static void compute(Buffer<B>& first, Buffer<C>& second,
                                               const Rows& rows, const RowRef* operands,
                                               std::index_sequence<I...>) {
        all(first, second, Source<A>(rows, operands[2 + I])...);
    }
    [[gnu::always_inline]] static void all(Buffer<B>& first, Buffer<C>& second, Source<A>... a) {
        for (int i = 0; i < warp_lanes; ++i) {
            const Pair<B, C> result = F{}(a[i]...);
            first.set(i, result.first);
            second.set(i, result.second);
        }
    }
    static void run(const Rows& rows, const RowRef* operands, u32 mask) {
        Buffer<B> first;
        Buffer<C> second;
        compute(first, second, rows, operands, std::index_sequence_for<A...>{});
        first.put(rows, operands[0], mask);
        second.put(rows, operands[1], mask);
    }
    template <class T>
    static constexpr Row row_of() {
        return std::is_same_v<T, bool> ? Row::predicate : Lane<T>::row;
    }
    static PureEntry entry() {
        return {&run, 2, 2 + sizeof...(A), {row_of<B>(), row_of<C>(), row_of<A>()...}};
    }
};

template <class F, Walk walk, Rounding mode, class T, int n, class A>
struct Runner<F, walk, mode, Many<T, n>, A> {
    static void run(const Rows& rows, const RowRef* operands, u32 mask) {
        const Source<A> source(rows, operands[n]);
        Buffer<T> buffers[n];
        for (int i = 0; i < warp_lanes; ++i) {
            const Many<T, n> result = F{}(source[i]);
            for (int k = 0; k < n; ++k) buffers[k].set(i, result.values[k]);
        }
        for (int k = 0; k < n; ++k) buffers[k].put(rows, operands[k], mask);
    }
    static PureEntry entry() {
        PureEntry made{&run, n, n + 1, {}};
        for (int k = 0; k < n; ++k) made.rows[k] = Lane<T>::row;
        made.rows[n] = Lane<A>::row;
        return made;
    }
};

/// The runner for a lambda, by the types of its parameters and its result.
template <class F, Walk walk, Rounding mode, class Call>
struct RunnerOf;
template <class F, Walk walk, Rounding mode, class L, class R, class... A>
struct RunnerOf<F, walk, mode, R (L::*)(A...) const> : Runner<F, walk, mode, R, A...> {};

template <Rounding mode = Rounding::rn, Walk walk = Walk::vectors, class F>
PureEntry entry_of(F) {
    return RunnerOf<F, walk, mode, decltype(&F::operator())>::entry();
}
/// Lists `function`, a lambda of one lane's values without captures.
template <class F>
void add(PureRegistry& registry, const PureName& name, F function) {
    registry.add(name, entry_of(function));
}
template <Rounding mode, class F>
void add_rounded(PureRegistry& registry, const PureName& name, F function) {
    registry.add(name, entry_of<mode>(function));
}
/// For functions that call libm: only the lanes of the mask are computed.
template <Rounding mode = Rounding::rn, class F>
void add_by_lane(PureRegistry& registry, const PureName& name, F function) {
    registry.add(name, entry_of<mode, Walk::lanes>(function));
}

/// Calls `function.template operator()<T>(name)` for every type of the list.
template <class... T>
struct TypeList {};
template <class T>
constexpr const char* type_name() {
    if constexpr (std::is_same_v<T, u8>) return "u8";
    if constexpr (std::is_same_v<T, u16>) return "u16";
    if constexpr (std::is_same_v<T, u32>) return "u32";
    if constexpr (std::is_same_v<T, u64>) return "u64";
    if constexpr (std::is_same_v<T, s8>) return "s8";
    if constexpr (std::is_same_v<T, s16>) return "s16";
    if constexpr (std::is_same_v<T, s32>) return "s32";
    if constexpr (std::is_same_v<T, s64>) return "s64";
    if constexpr (std::is_same_v<T, float>) return "f32";
    if constexpr (std::is_same_v<T, double>) return "f64";
    if constexpr (std::is_same_v<T, F16>) return "f16";
    if constexpr (std::is_same_v<T, Bf16>) return "bf16";
    if constexpr (std::is_same_v<T, Two<F16>>) return "f16x2";
    if constexpr (std::is_same_v<T, Two<Bf16>>) return "bf16x2";
}
template <class... T, class F>
void for_types(TypeList<T...>, F function) {
    (function.template operator()<T>(type_name<T>()), ...);
}
template <class... T>
constexpr TypeList<T...> types;

using Unsigned = TypeList<u16, u32, u64>;
using Signed = TypeList<s16, s32, s64>;
using Integers = TypeList<u16, u32, u64, s16, s32, s64>;

}  // namespace kernelforge::emulator::KERNELFORGE_ISA
