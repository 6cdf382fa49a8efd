// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "referee/device/parameters.hpp"

// Elements of tensors: the random generator, rounding to and reading from every type. One text for
// the host compiler and NVRTC, so that both give the same bits: integer operations, and double
// operations whose rounding is spelled out (no contraction, no transcendental functions).

#if defined(__CUDACC_RTC__)
#define KERNELFORGE_BOTH __device__ __forceinline__
#else
#include <cmath>
#include <cstring>
#define KERNELFORGE_BOTH inline
#endif

namespace kernelforge::referee {

#if defined(__CUDACC_RTC__)
KERNELFORGE_BOTH double multiply(double a, double b) {
    return __dmul_rn(a, b);
}
KERNELFORGE_BOTH double add(double a, double b) {
    return __dadd_rn(a, b);
}
KERNELFORGE_BOTH double divide(double a, double b) {
    return __ddiv_rn(a, b);
}
KERNELFORGE_BOTH double square_root(double a) {
    return __dsqrt_rn(a);
}
KERNELFORGE_BOTH u64 high_product(u64 a, u64 b) {
    return __umul64hi(a, b);
}
KERNELFORGE_BOTH u64 bits_of_double(double value) {
    return static_cast<u64>(__double_as_longlong(value));
}
KERNELFORGE_BOTH double double_of_bits(u64 bits) {
    return __longlong_as_double(static_cast<s64>(bits));
}
KERNELFORGE_BOTH u32 bits_of_float(float value) {
    return __float_as_uint(value);
}
KERNELFORGE_BOTH float float_of_bits(u32 bits) {
    return __uint_as_float(bits);
}
#else
// Built with -ffp-contract=off.
inline double multiply(double a, double b) {
    return a * b;
}
inline double add(double a, double b) {
    return a + b;
}
inline double divide(double a, double b) {
    return a / b;
}
inline double square_root(double a) {
    return std::sqrt(a);
}
inline u64 high_product(u64 a, u64 b) {
    __extension__ using u128 = unsigned __int128;
    return static_cast<u64>((static_cast<u128>(a) * b) >> 64);
}
inline u64 bits_of_double(double value) {
    u64 bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline double double_of_bits(u64 bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline u32 bits_of_float(float value) {
    u32 bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float float_of_bits(u32 bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
#endif

struct Words {
    u32 w[4];
};

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11).
KERNELFORGE_BOTH Words philox_words(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
    for (int round = 0; round < 10; ++round) {
        const u64 product0 = static_cast<u64>(0xD2511F53U) * c0;
        const u64 product1 = static_cast<u64>(0xCD9E8D57U) * c2;
        const u32 next0 = static_cast<u32>(product1 >> 32) ^ c1 ^ k0;
        const u32 next2 = static_cast<u32>(product0 >> 32) ^ c3 ^ k1;
        c0 = next0;
        c1 = static_cast<u32>(product1);
        c2 = next2;
        c3 = static_cast<u32>(product0);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return Words{{c0, c1, c2, c3}};
}

/// Fourth word of the counter: independent draws for one index.
enum Purpose : u32 {
    purpose_value,
    purpose_outlier,
    purpose_late_element,
    purpose_row,
    purpose_tensor,
    purpose_trial,
    purpose_permutation,
    purpose_split,
};

KERNELFORGE_BOTH Words draw(u64 seed, u32 stream, u64 index, u32 purpose) {
    return philox_words(static_cast<u32>(index), static_cast<u32>(index >> 32), stream, purpose,
                        static_cast<u32>(seed), static_cast<u32>(seed >> 32));
}

KERNELFORGE_BOTH u64 joined(u32 high, u32 low) {
    return (static_cast<u64>(high) << 32) | low;
}

/// Uniform in 0 … span-1 from 32 random bits (bias below span / 2^32).
KERNELFORGE_BOTH u32 pick(u32 word, u32 span) {
    return static_cast<u32>((static_cast<u64>(word) * span) >> 32);
}

/// 2^k for a normal result.
KERNELFORGE_BOTH double power_of_two(int k) {
    return double_of_bits(static_cast<u64>(k + 1023) << 52);
}

/// 53 random bits in [0, 1).
KERNELFORGE_BOTH double unit_uniform(u32 high, u32 low) {
    return multiply(static_cast<double>(joined(high, low) >> 11), power_of_two(-53));
}

/// Centred sum of eight uniform 16-bit integers over its standard deviation,
/// sqrt(8 (2^32 - 1) / 12) = 53509.92
KERNELFORGE_BOTH double unit_normal(const Words& words) {
    s64 sum = 0;
    for (int i = 0; i < 4; ++i) sum += (words.w[i] & 0xFFFFU) + (words.w[i] >> 16);
    return multiply(static_cast<double>(sum - 4 * 65535), 1.0 / 53509.91992145008);
}

constexpr u32 feistel_rounds = 6;

/// The function of one round of a Feistel network.
KERNELFORGE_BOTH u32 feistel_word(u64 seed, u32 stream, u64 row, u32 half, u32 round) {
    return philox_words(half, static_cast<u32>(row), static_cast<u32>(row >> 32),
                        purpose_permutation + 16U * round + 256U * stream, static_cast<u32>(seed),
                        static_cast<u32>(seed >> 32))
        .w[0];
}

/// Bits of one half of a Feistel network over at least n values.
KERNELFORGE_BOTH u32 feistel_half_bits(u64 n) {
    u32 half_bits = 1;
    while (half_bits < 32 && (1ULL << (2 * half_bits)) < n) ++half_bits;
    return half_bits;
}

/// One value of a permutation of 0 … n-1 that `row` selects: a Feistel network of six rounds over
/// the next even number of bits, walked until the value is inside.
KERNELFORGE_BOTH u64 permuted(u64 seed, u32 stream, u64 row, u64 column, u64 n) {
    if (n < 2) return 0;
    const u32 half_bits = feistel_half_bits(n);
    const u32 mask = half_bits == 32 ? ~0U : (1U << half_bits) - 1U;
    u64 value = column;
    do {
        u32 left = static_cast<u32>(value >> half_bits) & mask;
        u32 right = static_cast<u32>(value) & mask;
        for (u32 round = 0; round < feistel_rounds; ++round) {
            const u32 next = left ^ (feistel_word(seed, stream, row, right, round) & mask);
            left = right;
            right = next;
        }
        value = (static_cast<u64>(left) << half_bits) | right;
    } while (value >= n);
    return value;
}

/// The column at which `permuted` has `value`: the rounds backwards, walked the same way.
KERNELFORGE_BOTH u64 unpermuted(u64 seed, u32 stream, u64 row, u64 value, u64 n) {
    if (n < 2) return 0;
    const u32 half_bits = feistel_half_bits(n);
    const u32 mask = half_bits == 32 ? ~0U : (1U << half_bits) - 1U;
    u64 column = value;
    do {
        u32 left = static_cast<u32>(column >> half_bits) & mask;
        u32 right = static_cast<u32>(column) & mask;
        for (u32 round = feistel_rounds; round-- > 0;) {
            const u32 previous = right ^ (feistel_word(seed, stream, row, left, round) & mask);
            right = left;
            left = previous;
        }
        column = (static_cast<u64>(left) << half_bits) | right;
    } while (column >= n);
    return column;
}

// --- types --------------------------------------------------------------------------------------

KERNELFORGE_BOTH u32 bytes_of_type(u32 dtype) {
    switch (dtype) {
        case type_float64:
        case type_int64:
            return 8;
        case type_float32:
        case type_int32:
            return 4;
        case type_float16:
        case type_bfloat16:
        case type_int16:
            return 2;
        default:
            return 1;
    }
}

KERNELFORGE_BOTH bool is_floating(u32 dtype) {
    return dtype <= type_float4_e2m1;
}

/// A small floating-point format: sign, exponent and `significand` explicit bits.
struct SmallFormat {
    u32 significand;
    int least_exponent;  ///< of a normal number
    u32 largest;         ///< code of the largest finite value
    u32 overflow;        ///< code of what is larger
    u32 nan;
    u32 sign;
};

KERNELFORGE_BOTH SmallFormat format_of(u32 dtype) {
    switch (dtype) {
        case type_float16:
            return {10, -14, 0x7BFFU, 0x7C00U, 0x7FFFU, 0x8000U};
        case type_bfloat16:
            return {7, -126, 0x7F7FU, 0x7F80U, 0x7FFFU, 0x8000U};
        case type_float8_e5m2:
            return {2, -14, 0x7BU, 0x7BU, 0x7FU, 0x80U};
        default:
            return {3, -6, 0x7EU, 0x7EU, 0x7FU, 0x80U};  // float8_e4m3fn
    }
}

/// To nearest, ties to even.
KERNELFORGE_BOTH u32 encode_small(double value, const SmallFormat& format) {
    const u64 bits = bits_of_double(value);
    const u32 sign = (bits >> 63) != 0 ? format.sign : 0U;
    const int exponent = static_cast<int>((bits >> 52) & 0x7FFU) - 1023;
    const u64 fraction = bits & ((1ULL << 52) - 1);
    if (exponent == 1024 && fraction != 0) return format.nan | sign;
    if (exponent == -1023) return sign;  // zero, and doubles far below every format
    const bool normal = exponent >= format.least_exponent;
    const int below = normal ? 0 : format.least_exponent - exponent;
    const int shift = 52 - static_cast<int>(format.significand) + below;
    if (shift >= 55) return sign;
    const u64 whole = fraction | (1ULL << 52);
    u64 kept = whole >> shift;
    const u64 rest = whole & ((1ULL << shift) - 1);
    const u64 half = 1ULL << (shift - 1);
    if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
    const u64 steps = normal ? static_cast<u64>(exponent - format.least_exponent) : 0;
    const u64 code = (steps << format.significand) + kept;
    return (code > format.largest ? format.overflow : static_cast<u32>(code)) | sign;
}

KERNELFORGE_BOTH double decode_small(u32 code, u32 dtype) {
    const SmallFormat format = format_of(dtype);
    const u32 magnitude = code & (format.sign - 1U);
    const double sign = (code & format.sign) != 0 ? -1.0 : 1.0;
    const bool has_infinity = dtype != type_float8_e4m3fn;
    if (magnitude > format.largest) {
        const bool infinity = has_infinity && magnitude == format.largest + 1U;
        return multiply(sign,
                        double_of_bits(infinity ? 0x7FF0000000000000ULL : 0x7FF8000000000000ULL));
    }
    const u32 field = magnitude >> format.significand;
    const u32 fraction = magnitude & ((1U << format.significand) - 1U);
    const u32 whole = field == 0 ? fraction : fraction | (1U << format.significand);
    const int exponent = format.least_exponent - static_cast<int>(format.significand) +
                         (field == 0 ? 0 : static_cast<int>(field) - 1);
    return multiply(multiply(sign, static_cast<double>(whole)), power_of_two(exponent));
}

/// Nearest integer, ties to even, within [low, high]; NaN gives low.
KERNELFORGE_BOTH s64 saturated(double value, s64 low, s64 high) {
    if (!(value > static_cast<double>(low))) return low;
    if (value >= static_cast<double>(high)) return high;
    // Beyond 2^52 every double is an integer; below, adding 1.5 * 2^52 rounds.
    constexpr double magic = 6755399441055744.0;
    if (value > -4503599627370496.0 && value < 4503599627370496.0) {
        value = add(add(value, magic), -magic);
    }
    return static_cast<s64>(value);
}

/// Bits of an element. `boolean` takes value > 0.
KERNELFORGE_BOTH u64 encode(u32 dtype, double value) {
    switch (dtype) {
        case type_float64:
            return bits_of_double(value);
        case type_float32:
            return bits_of_float(static_cast<float>(value));
        case type_float16:
        case type_bfloat16:
        case type_float8_e4m3fn:
        case type_float8_e5m2:
            return encode_small(value, format_of(dtype));
        case type_int64:
            return static_cast<u64>(
                saturated(value, -0x7FFFFFFFFFFFFFFFLL - 1, 0x7FFFFFFFFFFFFFFFLL));
        case type_int32:
            return static_cast<u64>(saturated(value, -2147483648LL, 2147483647LL));
        case type_int16:
            return static_cast<u64>(saturated(value, -32768, 32767));
        case type_int8:
            return static_cast<u64>(saturated(value, -128, 127));
        case type_uint8:
            return static_cast<u64>(saturated(value, 0, 255));
        default:
            return value > 0.0 ? 1U : 0U;
    }
}

/// The same for a value that is an integer, exact for all of int64.
KERNELFORGE_BOTH u64 encode_integer(u32 dtype, s64 value) {
    return dtype == type_int64 ? static_cast<u64>(value)
                               : encode(dtype, static_cast<double>(value));
}

KERNELFORGE_BOTH double decode(u32 dtype, u64 bits) {
    switch (dtype) {
        case type_float64:
            return double_of_bits(bits);
        case type_float32:
            return static_cast<double>(float_of_bits(static_cast<u32>(bits)));
        case type_bfloat16:
            return static_cast<double>(float_of_bits(static_cast<u32>(bits) << 16));
        case type_float16:
        case type_float8_e4m3fn:
        case type_float8_e5m2:
            return decode_small(static_cast<u32>(bits), dtype);
        case type_int64:
            return static_cast<double>(static_cast<s64>(bits));
        case type_int32:
            return static_cast<double>(static_cast<int>(static_cast<u32>(bits)));
        case type_int16:
            return static_cast<double>(static_cast<short>(static_cast<unsigned short>(bits)));
        case type_int8:
            return static_cast<double>(static_cast<signed char>(static_cast<unsigned char>(bits)));
        default:
            return static_cast<double>(bits & 0xFFU);
    }
}

KERNELFORGE_BOTH u64 load_bits(const void* data, u64 index, u32 bytes) {
    switch (bytes) {
        case 8:
            return static_cast<const u64*>(data)[index];
        case 4:
            return static_cast<const u32*>(data)[index];
        case 2:
            return static_cast<const unsigned short*>(data)[index];
        default:
            return static_cast<const unsigned char*>(data)[index];
    }
}

// --- drawing ------------------------------------------------------------------------------------

/// Numbers of `InitSpec::Kind` and `Distribution`, checked in distributions.cpp.
enum FillKind : u32 {
    fill_normal,
    fill_uniform,
    fill_integers,
    fill_constant,
    fill_permutation,
    fill_heavy_tail,
    fill_offsets,
    fill_distinct
};
enum FillDistribution : u32 { fill_natural, fill_scaled, fill_heavy_tails, fill_structured };

/// True for one element in 1000.
KERNELFORGE_BOTH bool is_outlier(const Words& words) {
    return words.w[0] < 4294967U;
}

/// Segment starts: what is the same for all elements.
struct Segments {
    u64 seed = 0;
    u32 stream = 0;
    u32 distribution = fill_natural;
};

/// The share of `count` segments' total that the first `left` of them get. `mid` names the cut.
KERNELFORGE_BOTH double split_share(const Segments& s, u64 mid, u64 left, u64 count) {
    const double even = divide(static_cast<double>(left), static_cast<double>(count));
    const Words words = draw(s.seed, s.stream, mid, purpose_split);
    switch (s.distribution) {
        case fill_scaled: {  // nearly equal: off by at most an eighth of a mean segment
            const double shift = add(unit_uniform(words.w[0], words.w[1]), -0.5);
            return add(even, divide(multiply(0.25, shift), static_cast<double>(count)));
        }
        case fill_heavy_tails:  // at one cut in four a side gets a tenth of what is even
            if (pick(words.w[0], 4) != 0) break;
            if ((words.w[1] & 1U) != 0) return multiply(0.1, even);
            return add(1.0, multiply(-0.1, add(1.0, -even)));
        case fill_structured:  // of two segments one may be empty
            if (count == 2 && (words.w[0] & 1U) != 0) return (words.w[1] & 1U) != 0 ? 1.0 : 0.0;
            break;
        default:
            break;
    }
    // Lengths of random cuts: a Beta distribution, here by its mean and variance.
    const double variance =
        divide(multiply(even, add(1.0, -even)), add(static_cast<double>(count), 1.0));
    const Words normal = draw(s.seed, s.stream, mid | (1ULL << 63), purpose_split);
    const double share = add(even, multiply(square_root(variance), unit_normal(normal)));
    if (share < 0.0) return 0.0;
    return share > 1.0 ? 1.0 : share;
}

/// Where segment `i` of `count` starts in [0, total]: the halves of the segments share the total by
/// chance, then the quarters, and so on.
KERNELFORGE_BOTH u64 split_offset(const Segments& s, u64 i, u64 count, u64 total) {
    u64 low = 0;
    u64 high = count;
    u64 begin = 0;
    u64 end = total;
    while (i != low && i != high) {
        const u64 mid = low + (high - low) / 2;
        const double share = split_share(s, mid, mid - low, high - low);
        u64 part = static_cast<u64>(multiply(static_cast<double>(end - begin), share));
        if (part > end - begin) part = end - begin;
        if (i < mid) {
            high = mid;
            end = begin + part;
        } else {
            low = mid;
            begin += part;
        }
    }
    return i == low ? begin : end;
}

/// Element `i` of a tensor of kind offsets. Structured: one segment gets half of all, another one
/// is empty.
KERNELFORGE_BOTH u64 segment_offset(const FillParameters& p, u64 i) {
    const Segments segments{p.seed, p.stream, p.distribution};
    const u64 count = p.count - 1;
    if (i == 0 || count == 0) return 0;
    if (i >= count) return p.bound;
    if (p.distribution != fill_structured || count < 3) {
        return split_offset(segments, i, count, p.bound);
    }
    const Words words = draw(p.seed, p.stream, 0, purpose_tensor);
    const u64 longest = high_product(joined(words.w[0], words.w[1]), count);
    const u64 other = high_product(joined(words.w[2], words.w[3]), count - 1);
    const u64 empty = (longest + 1 + other) % count;
    const u64 extra = p.bound / 2;
    const u64 start = split_offset(segments, i > empty ? i - 1 : i, count - 1, p.bound - extra);
    return i > longest ? start + extra : start;
}

/// Whether another input names the slice of the first axis that holds this element.
KERNELFORGE_BOTH bool is_used(const FillParameters& p, u64 index) {
    if (p.slice == 0) return true;
    return unpermuted(p.seed, p.used_stream, 0, index / p.slice, p.slices) < p.used_slices;
}

/// Whether all elements of a row are equal in the structured distribution: one row in 16, of the
/// natural scale, so that what is left of a difference to the row's mean is not scaled up.
KERNELFORGE_BOTH bool is_constant_row(const FillParameters& p, u64 row) {
    return p.constant_rows != 0 && pick(draw(p.seed, p.stream, row, purpose_row).w[1], 16) == 0;
}

/// Factor of an element in the structured distribution.
KERNELFORGE_BOTH double structured_factor(const FillParameters& p, u64 index) {
    const u64 row = index / p.row_length;
    int exponent = static_cast<int>(pick(draw(p.seed, p.stream, row, purpose_row).w[0], 7)) - 3;
    if (row >= p.late_row) {
        const Words words = draw(p.seed, p.stream, index, purpose_late_element);
        exponent += 4 + static_cast<int>(pick(words.w[0], 9)) - 4;
    }
    return power_of_two(exponent);
}

/// The value of a floating-point draw before rounding to the type.
KERNELFORGE_BOTH double real_value(const FillParameters& p, u64 index) {
    if (p.kind == fill_constant) return p.base;
    const bool structured = p.distribution == fill_structured;
    const u64 row = index / p.row_length;
    const bool flat = structured && is_constant_row(p, row);
    const u64 drawn = flat ? row * p.row_length : index;
    const Words words = draw(p.seed, p.stream, drawn, purpose_value);
    double z = p.kind == fill_uniform ? unit_uniform(words.w[0], words.w[1]) : unit_normal(words);
    const bool tails = p.kind == fill_heavy_tail;
    if (tails || p.distribution == fill_heavy_tails) {
        const Words chance = draw(p.seed, p.stream, drawn, purpose_outlier);
        if (tails && is_outlier(chance)) {
            z = multiply(z, add(1.0, multiply(99.0, unit_uniform(chance.w[2], chance.w[3]))));
        }
        if (p.distribution == fill_heavy_tails && pick(chance.w[1], 1000) == 0) {
            return multiply(50.0, add(p.base, multiply(p.width, z)));
        }
    }
    const double natural = add(p.base, multiply(p.width, z));
    if (p.distribution == fill_scaled) return multiply(natural, p.scale);
    if (!structured) return natural;
    if (index == p.impulse_index) return natural < 0.0 ? -p.impulse : p.impulse;
    return flat ? natural : multiply(natural, structured_factor(p, index));
}

/// Bits of element `index`.
KERNELFORGE_BOTH u64 drawn_bits(const FillParameters& p, u64 index) {
    if (!is_used(p, index)) return ~0ULL;
    if (p.kind == fill_offsets) {
        return encode_integer(p.dtype, static_cast<s64>(segment_offset(p, index)));
    }
    if (p.kind == fill_distinct) {
        return encode_integer(p.dtype,
                              static_cast<s64>(permuted(p.seed, p.stream, 0, index, p.bound)));
    }
    if (p.kind == fill_permutation) {
        const u64 row = index / p.row_length;
        const u64 column = index - row * p.row_length;
        return encode_integer(
            p.dtype, static_cast<s64>(permuted(p.seed, p.stream, row, column, p.row_length)));
    }
    if (p.kind == fill_integers) {
        const Words words = draw(p.seed, p.stream, index, purpose_value);
        const u64 random = joined(words.w[0], words.w[1]);
        const u64 offset = p.integer_span == 0 ? random : high_product(random, p.integer_span);
        return encode_integer(p.dtype, static_cast<s64>(static_cast<u64>(p.integer_low) + offset));
    }
    double value = real_value(p, index);
    if (p.dtype == type_boolean) {
        // A fair coin: above the centre of what would be drawn.
        if (p.kind == fill_uniform) value = add(value, -add(p.base, multiply(0.5, p.width)));
        if (p.kind == fill_normal || p.kind == fill_heavy_tail) value = add(value, -p.base);
    }
    return encode(p.dtype, value);
}

// --- comparing ----------------------------------------------------------------------------------

KERNELFORGE_BOTH bool is_finite(double value) {
    return ((bits_of_double(value) >> 52) & 0x7FFU) != 0x7FFU;
}

/// Error of an element in the measure of the mode, and what it is relative to.
struct ElementError {
    double error;
    double reference;
};

KERNELFORGE_BOTH ElementError error_of_element(u32 mode, double found, double expected) {
    const double error = found > expected ? found - expected : expected - found;
    if (mode != compare_logarithm) return {error, expected};
    const int exponent = static_cast<int>((bits_of_double(expected) >> 52) & 0x7FFU) - 1023;
    return {exponent > 0 ? multiply(error, power_of_two(-exponent)) : error, 1.0};
}

/// Whether an element counts as bad without looking at its size: a NaN on either side, an infinity
/// that does not match; in exact mode, anything unequal (bits for integers and bools, values else).
KERNELFORGE_BOTH bool is_bad(u32 dtype, u32 mode, u64 found_bits, u64 expected_bits, double found,
                             double expected) {
    if (!is_floating(dtype)) return mode == compare_exact && found_bits != expected_bits;
    if (found == expected) return false;
    return mode == compare_exact || !is_finite(found) || !is_finite(expected);
}

/// First row or column of tile `tile` of `tiles`, of `size` each; the last one ends at `extent`.
KERNELFORGE_BOTH u64 tile_begin(u64 tile, u64 size) {
    return tile * size;
}
KERNELFORGE_BOTH u64 tile_end(u64 tile, u64 tiles, u64 size, u64 extent) {
    return tile + 1 == tiles ? extent : (tile + 1) * size;
}

KERNELFORGE_BOTH void add_element(TilePartial& partial, u32 dtype, u32 mode, u64 index,
                                  u64 found_bits, u64 expected_bits) {
    const double found = decode(dtype, found_bits);
    const double expected = decode(dtype, expected_bits);
    if (is_bad(dtype, mode, found_bits, expected_bits, found, expected)) {
        ++partial.bad;
        if (index < partial.first_bad) partial.first_bad = index;
    }
    if (!is_finite(found) || !is_finite(expected)) return;
    const auto [error, reference] = error_of_element(mode, found, expected);
    partial.error2 += error * error;
    partial.reference2 += reference * reference;
    if (error > partial.max_error || (error == partial.max_error && index < partial.max_index)) {
        partial.max_error = error;
        partial.max_index = index;
    }
}

KERNELFORGE_BOTH void merge(TilePartial& into, const TilePartial& other) {
    into.error2 += other.error2;
    into.reference2 += other.reference2;
    if (other.max_error > into.max_error ||
        (other.max_error == into.max_error && other.max_index < into.max_index)) {
        into.max_error = other.max_error;
        into.max_index = other.max_index;
    }
    into.bad += other.bad;
    if (other.first_bad < into.first_bad) into.first_bad = other.first_bad;
}

/// Tiles of a comparison.
KERNELFORGE_BOTH u64 tiles_of(const CompareParameters& p) {
    return p.starts != 0 ? p.tiles : p.tiling.tiles_down * p.tiling.tiles_across;
}

/// Elements that are compared.
KERNELFORGE_BOTH u64 elements_of(const CompareParameters& p) {
    if (p.starts == 0) return p.tiling.rows * p.tiling.columns;
    return reinterpret_cast<const u64*>(p.starts)[p.tiles];
}

/// Elements of a tile.
KERNELFORGE_BOTH u64 tile_elements(const Tiling& t, u64 tile) {
    const u64 down = tile / t.tiles_across;
    const u64 across = tile - down * t.tiles_across;
    return (tile_end(down, t.tiles_down, t.tile_rows, t.rows) - tile_begin(down, t.tile_rows)) *
           (tile_end(across, t.tiles_across, t.tile_columns, t.columns) -
            tile_begin(across, t.tile_columns));
}
KERNELFORGE_BOTH u64 tile_elements(const CompareParameters& p, u64 tile) {
    if (p.starts == 0) return tile_elements(p.tiling, tile);
    const u64* starts = reinterpret_cast<const u64*>(p.starts);
    return starts[tile + 1] - starts[tile];
}

/// A tile of fewer elements has no scale of its own. Only segments are that small, unless the tile
/// is the whole output.
constexpr u64 least_tile = 64;

/// Mean square of a tile's expected values, not below the floor's share of the whole output's; that
/// of small tiles not below the whole's.
KERNELFORGE_BOTH double tile_mean_square(double tile_reference2, u64 elements, double reference2,
                                         u64 count, double floor) {
    const double own = tile_reference2 / static_cast<double>(elements);
    if (elements < least_tile) floor = 1.0;
    const double least = floor * floor * (reference2 / static_cast<double>(count));
    return own > least ? own : least;
}

/// Squared normalised error of a tile; 0 when there is no error at all, infinite when all that is
/// expected is zero and something else was found.
KERNELFORGE_BOTH double tile_error_square(double tile_error2, u64 elements, double mean_square) {
    if (tile_error2 == 0.0) return 0.0;
    if (mean_square == 0.0) return double_of_bits(0x7FF0000000000000ULL);
    return tile_error2 / static_cast<double>(elements) / mean_square;
}

/// Whether a finite element is too far from what is expected. `tile_rms` includes the floor.
KERNELFORGE_BOTH bool is_far(u32 mode, double found, double expected, double tile_rms,
                             double limit) {
    if (!is_finite(found) || !is_finite(expected)) return false;
    const auto [error, reference] = error_of_element(mode, found, expected);
    if (mode == compare_logarithm) return !(error <= limit);
    const double magnitude = reference < 0.0 ? -reference : reference;
    return !(error <= limit * (magnitude + tile_rms));
}

}  // namespace kernelforge::referee
