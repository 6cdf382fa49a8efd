// SPDX-License-Identifier: Apache-2.0
#include "emulator/matrix_product.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/matrix_numbers.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#define KERNELFORGE_AVX2 [[gnu::target("avx2,fma")]]
#endif

namespace kernelforge::emulator {

namespace {

// Each format reads element `i` of a block whose rows follow each other.

template <class T>
T load_as(const std::byte* block, int i) {
    T value;
    std::memcpy(&value, block + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    return value;
}

template <MatrixFormat format>
struct Reader;
template <>
struct Reader<MatrixFormat::f16> {
    static float at(const std::byte* block, int i) {
        return f32_of_f16(load_as<std::uint16_t>(block, i));
    }
};
template <>
struct Reader<MatrixFormat::bf16> {
    static float at(const std::byte* block, int i) {
        return f32_of_bf16(load_as<std::uint16_t>(block, i));
    }
};
template <>
struct Reader<MatrixFormat::tf32> {
    static float at(const std::byte* block, int i) {
        return f32_of_tf32(load_as<std::uint32_t>(block, i));
    }
};
template <>
struct Reader<MatrixFormat::f64> {
    static double at(const std::byte* block, int i) { return load_as<double>(block, i); }
};
template <>
struct Reader<MatrixFormat::s8> {
    static float at(const std::byte* block, int i) { return load_as<std::int8_t>(block, i); }
};
template <>
struct Reader<MatrixFormat::u8> {
    static float at(const std::byte* block, int i) { return load_as<std::uint8_t>(block, i); }
};
template <>
struct Reader<MatrixFormat::u4> {
    static float at(const std::byte* block, int i) {
        return static_cast<float>(load_as<std::uint8_t>(block, i / 2) >> (i % 2 * 4) & 0xf);
    }
};
template <>
struct Reader<MatrixFormat::s4> {
    static float at(const std::byte* block, int i) {
        const int value = load_as<std::uint8_t>(block, i / 2) >> (i % 2 * 4) & 0xf;
        return static_cast<float>((value ^ 8) - 8);
    }
};
template <>
struct Reader<MatrixFormat::e4m3> {
    static float at(const std::byte* block, int i) {
        return f32_of_e4m3(load_as<std::uint8_t>(block, i));
    }
};
template <>
struct Reader<MatrixFormat::e5m2> {
    static float at(const std::byte* block, int i) {
        return f32_of_e5m2(load_as<std::uint8_t>(block, i));
    }
};

// The bodies are inlined into a portable and an AVX2 function each and made vector code there.

template <MatrixFormat format>
[[gnu::always_inline]] inline void rows_body(const std::byte* block, double* out, int stride) {
    constexpr int width = elements_per_row(format);
    decltype(Reader<format>::at(block, 0)) values[8 * width];
    for (int i = 0; i < 8 * width; ++i) values[i] = Reader<format>::at(block, i);
    for (int row = 0; row < 8; ++row) {
        for (int e = 0; e < width; ++e) out[row * stride + e] = values[row * width + e];
    }
}

template <MatrixFormat format>
[[gnu::always_inline]] inline void columns_body(const std::byte* block, double* out, int stride) {
    constexpr int width = elements_per_row(format);
    decltype(Reader<format>::at(block, 0)) values[8 * width];
    for (int i = 0; i < 8 * width; ++i) values[i] = Reader<format>::at(block, i);
    for (int e = 0; e < width; ++e) {
        for (int row = 0; row < 8; ++row) out[e * stride + row] = values[row * width + e];
    }
}

template <MatrixFormat format>
void rows_portable(const std::byte* block, double* out, int stride) {
    rows_body<format>(block, out, stride);
}
template <MatrixFormat format>
void columns_portable(const std::byte* block, double* out, int stride) {
    columns_body<format>(block, out, stride);
}

template <bool fused>
void multiply_portable(const double* a, const double* b, double* d, int rows, int depth) {
    for (int row = 0; row < rows; ++row) {
        double sums[8];
        for (int n = 0; n < 8; ++n) sums[n] = d[row * 8 + n];
        for (int k = 0; k < depth; ++k) {
            const double left = a[row * depth + k];
            for (int n = 0; n < 8; ++n) {
                // Unless it is fused, the product is exact, and so fusing would change nothing.
                sums[n] =
                    fused ? std::fma(left, b[k * 8 + n], sums[n]) : sums[n] + left * b[k * 8 + n];
            }
        }
        for (int n = 0; n < 8; ++n) d[row * 8 + n] = sums[n];
    }
}

template <Accumulator accumulator>
[[gnu::always_inline]] inline void load_body(const Rows& rows, const RowRef* registers,
                                             double* block) {
    if constexpr (accumulator == Accumulator::f16) {
        const auto* halves = rows.at<std::byte>(registers[0]);
        for (int i = 0; i < 64; ++i) block[i] = f32_of_f16(load_as<std::uint16_t>(halves, i));
    } else if constexpr (accumulator == Accumulator::f64) {
        for (int i = 0; i < 2; ++i) {
            const auto* values = rows.at<double>(registers[i]);
            for (int lane = 0; lane < warp_lanes; ++lane) block[2 * lane + i] = values[lane];
        }
    } else {
        for (int i = 0; i < 2; ++i) {
            const auto* words = rows.at<std::uint32_t>(registers[i]);
            for (int lane = 0; lane < warp_lanes; ++lane) {
                if constexpr (accumulator == Accumulator::f32) {
                    block[2 * lane + i] = std::bit_cast<float>(words[lane]);
                } else {
                    block[2 * lane + i] = static_cast<std::int32_t>(words[lane]);
                }
            }
        }
    }
}

[[gnu::always_inline]] inline std::uint32_t f32_bits(double sum) {
    const auto value = static_cast<float>(sum);
    return value != value ? canonical_nan_f32 : std::bit_cast<std::uint32_t>(value);
}

[[gnu::always_inline]] inline std::uint32_t s32_bits(double sum, bool saturate) {
    if (saturate) {
        const double low = sum < -2147483648.0 ? -2147483648.0 : sum;
        return static_cast<std::uint32_t>(
            static_cast<std::int32_t>(low > 2147483647.0 ? 2147483647.0 : low));
    }
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(sum));
}

template <class T>
[[gnu::always_inline]] inline void write_row(T* to, const T* values, std::uint32_t mask) {
    if (mask == all_lanes) {
        std::memcpy(to, values, sizeof(T) * warp_lanes);
        return;
    }
    for (int lane = 0; lane < warp_lanes; ++lane) {
        if ((mask >> lane & 1U) != 0) to[lane] = values[lane];
    }
}

template <Accumulator accumulator>
[[gnu::always_inline]] inline void store_body(const Rows& rows, const RowRef* registers,
                                              const double* block, std::uint32_t mask,
                                              bool saturate) {
    for (int i = 0; i < registers_per_block(accumulator); ++i) {
        if (registers[i] == no_row) continue;
        if constexpr (accumulator == Accumulator::f64) {
            double values[warp_lanes];
            for (int lane = 0; lane < warp_lanes; ++lane) values[lane] = block[2 * lane + i];
            write_row(rows.at<double>(registers[i]), values, mask);
            continue;
        }
        std::uint32_t values[warp_lanes];
        for (int lane = 0; lane < warp_lanes; ++lane) {
            if constexpr (accumulator == Accumulator::f16) {
                values[lane] = f16_of(block[2 * lane]) |
                               static_cast<std::uint32_t>(f16_of(block[2 * lane + 1])) << 16;
            } else if constexpr (accumulator == Accumulator::f32) {
                values[lane] = f32_bits(block[2 * lane + i]);
            } else {
                values[lane] = s32_bits(block[2 * lane + i], saturate);
            }
        }
        write_row(rows.at<std::uint32_t>(registers[i]), values, mask);
    }
}

template <Accumulator accumulator>
void load_portable(const Rows& rows, const RowRef* registers, double* block) {
    load_body<accumulator>(rows, registers, block);
}
template <Accumulator accumulator>
void store_portable(const Rows& rows, const RowRef* registers, const double* block,
                    std::uint32_t mask, bool saturate) {
    store_body<accumulator>(rows, registers, block, mask, saturate);
}

#if defined(__x86_64__)
template <MatrixFormat format>
KERNELFORGE_AVX2 void rows_avx2(const std::byte* block, double* out, int stride) {
    rows_body<format>(block, out, stride);
}
template <MatrixFormat format>
KERNELFORGE_AVX2 void columns_avx2(const std::byte* block, double* out, int stride) {
    columns_body<format>(block, out, stride);
}
template <Accumulator accumulator>
KERNELFORGE_AVX2 void load_avx2(const Rows& rows, const RowRef* registers, double* block) {
    load_body<accumulator>(rows, registers, block);
}
template <Accumulator accumulator>
KERNELFORGE_AVX2 void store_avx2(const Rows& rows, const RowRef* registers, const double* block,
                                 std::uint32_t mask, bool saturate) {
    store_body<accumulator>(rows, registers, block, mask, saturate);
}

// Four rows at a time: eight sums hide the latency of the fused multiply-adds.
KERNELFORGE_AVX2 void multiply_avx2(const double* a, const double* b, double* d, int rows,
                                    int depth) {
    for (int row = 0; row < rows; row += 4) {
        double* to = d + row * 8;
        const double* from = a + row * depth;
        __m256d sums[8];
        for (int i = 0; i < 8; ++i) sums[i] = _mm256_loadu_pd(to + 4 * i);
        for (int k = 0; k < depth; ++k) {
            const __m256d low = _mm256_loadu_pd(b + k * 8);
            const __m256d high = _mm256_loadu_pd(b + k * 8 + 4);
            for (int i = 0; i < 4; ++i) {
                const __m256d left = _mm256_broadcast_sd(from + i * depth + k);
                sums[2 * i] = _mm256_fmadd_pd(left, low, sums[2 * i]);
                sums[2 * i + 1] = _mm256_fmadd_pd(left, high, sums[2 * i + 1]);
            }
        }
        for (int i = 0; i < 8; ++i) _mm256_storeu_pd(to + 4 * i, sums[i]);
    }
}
#endif

template <MatrixFormat format>
ProductFunctions functions_of(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::avx2) return {rows_avx2<format>, columns_avx2<format>};
#endif
    static_cast<void>(isa);
    return {rows_portable<format>, columns_portable<format>};
}

template <Accumulator accumulator>
AccumulatorFunctions functions_of(Isa isa) {
#if defined(__x86_64__)
    if (isa == Isa::avx2) return {load_avx2<accumulator>, store_avx2<accumulator>};
#endif
    static_cast<void>(isa);
    return {load_portable<accumulator>, store_portable<accumulator>};
}

}  // namespace

std::optional<MatrixFormat> parse_matrix_format(std::string_view word) noexcept {
    constexpr std::array<std::string_view, 11> names{"f16", "bf16", "tf32", "f64",  "s8", "u8",
                                                     "s4",  "u4",   "e4m3", "e5m2", "b1"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == word) return static_cast<MatrixFormat>(i);
    }
    return std::nullopt;
}

std::optional<MatrixFormat> matrix_format(Type type) noexcept {
    switch (type) {
        case Type::f16:
            return MatrixFormat::f16;
        case Type::bf16:
            return MatrixFormat::bf16;
        case Type::tf32:
            return MatrixFormat::tf32;
        case Type::f64:
            return MatrixFormat::f64;
        case Type::s8:
            return MatrixFormat::s8;
        case Type::u8:
            return MatrixFormat::u8;
        case Type::e4m3:
            return MatrixFormat::e4m3;
        case Type::e5m2:
            return MatrixFormat::e5m2;
        default:
            return std::nullopt;
    }
}

ProductFunctions product_functions(MatrixFormat format, Isa isa) noexcept {
    switch (format) {
        case MatrixFormat::f16:
            return functions_of<MatrixFormat::f16>(isa);
        case MatrixFormat::bf16:
            return functions_of<MatrixFormat::bf16>(isa);
        case MatrixFormat::tf32:
            return functions_of<MatrixFormat::tf32>(isa);
        case MatrixFormat::f64:
            return functions_of<MatrixFormat::f64>(isa);
        case MatrixFormat::s8:
            return functions_of<MatrixFormat::s8>(isa);
        case MatrixFormat::u8:
            return functions_of<MatrixFormat::u8>(isa);
        case MatrixFormat::s4:
            return functions_of<MatrixFormat::s4>(isa);
        case MatrixFormat::u4:
            return functions_of<MatrixFormat::u4>(isa);
        case MatrixFormat::e4m3:
            return functions_of<MatrixFormat::e4m3>(isa);
        case MatrixFormat::e5m2:
            return functions_of<MatrixFormat::e5m2>(isa);
        case MatrixFormat::b1:
            break;
    }
    return {};
}

MultiplyFn find_multiply(Accumulator accumulator, Isa isa) noexcept {
#if defined(__x86_64__)
    if (isa == Isa::avx2) return multiply_avx2;
#endif
    static_cast<void>(isa);
    return accumulator == Accumulator::f64 ? multiply_portable<true> : multiply_portable<false>;
}

AccumulatorFunctions accumulator_functions(Accumulator accumulator, Isa isa) noexcept {
    switch (accumulator) {
        case Accumulator::f32:
            return functions_of<Accumulator::f32>(isa);
        case Accumulator::f16:
            return functions_of<Accumulator::f16>(isa);
        case Accumulator::s32:
            return functions_of<Accumulator::s32>(isa);
        case Accumulator::f64:
            return functions_of<Accumulator::f64>(isa);
    }
    return {};
}

}  // namespace kernelforge::emulator
