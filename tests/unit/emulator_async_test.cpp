// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "emulator/async_barrier.hpp"
#include "emulator/async_bulk.hpp"
#include "emulator/async_combine.hpp"
#include "emulator/matrix_numbers.hpp"
#include "support/catch.hpp"

using namespace kernelforge::emulator;
using Combine = MemoryOp::Combine;

namespace {

std::uint32_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

std::uint64_t combined(Combine combine, Type type, std::uint64_t old, std::uint64_t operand,
                       std::uint64_t second = 0) {
    const CombineFn function = find_combine(combine, type);
    REQUIRE(function != nullptr);
    return function(old, operand, second);
}

// Value of a format with `mantissa` bits and exponent bias `bias`, from the definition.
double slow_value(std::uint32_t word, int mantissa, int exponent_bits, int bias) {
    const int exponent = static_cast<int>(word >> mantissa & ((1U << exponent_bits) - 1U));
    const double fraction =
        static_cast<double>(word & ((1U << mantissa) - 1U)) / std::exp2(mantissa);
    const double magnitude = exponent == 0 ? fraction * std::exp2(1 - bias)
                                           : (1.0 + fraction) * std::exp2(exponent - bias);
    return (word >> (mantissa + exponent_bits) & 1U) != 0 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("narrow formats have the values of their definition", "[emulator]") {
    for (std::uint32_t word = 0; word < 65536; ++word) {
        const auto half = static_cast<std::uint16_t>(word);
        const bool special = (word & 0x7c00U) == 0x7c00U;
        if (!special) {
            if (double{f32_of_f16(half)} != slow_value(word, 10, 5, 15)) FAIL(word);
            if (f16_of(double{f32_of_f16(half)}) != half) FAIL(word);
        } else if ((word & 0x3ffU) == 0) {
            if (!std::isinf(f32_of_f16(half)) || f16_of(f32_of_f16(half)) != half) FAIL(word);
        } else if (!std::isnan(f32_of_f16(half)) || f16_of(f32_of_f16(half)) != canonical_nan_16) {
            FAIL(word);
        }
    }
    for (std::uint32_t word = 0; word < 256; ++word) {
        const auto byte = static_cast<std::uint8_t>(word);
        CAPTURE(word);
        if ((word & 0x7fU) == 0x7fU) {
            CHECK(std::isnan(f32_of_e4m3(byte)));
        } else {
            CHECK(double{f32_of_e4m3(byte)} == slow_value(word, 3, 4, 7));
        }
        if ((word & 0x7cU) != 0x7cU) {
            CHECK(double{f32_of_e5m2(byte)} == slow_value(word, 2, 5, 15));
        }
    }
    CHECK(f32_of_e4m3(0x7e) == 448.0F);
    CHECK(f32_of_e5m2(0x7b) == 57344.0F);
    CHECK(std::isinf(f32_of_e5m2(0x7c)));
    CHECK(f32_of_tf32(bits(1.0F) + 0x1fffU) == 1.0F);
}

TEST_CASE("values between two f16 round to the nearer, ties to the even one", "[emulator]") {
    for (std::uint16_t half = 0; half < 0x7bff; ++half) {
        const double low = f32_of_f16(half);
        const double high = f32_of_f16(static_cast<std::uint16_t>(half + 1));
        const double middle = (low + high) / 2;
        const auto even = static_cast<std::uint16_t>(half % 2 == 0 ? half : half + 1);
        if (f16_of(middle) != even) FAIL(half);
        if (f16_of(std::nextafter(middle, low)) != half) FAIL(half);
        if (f16_of(-std::nextafter(middle, high)) != ((half + 1) | 0x8000)) FAIL(half);
    }
    CHECK(f16_of(65519.9) == 0x7bff);
    CHECK(f16_of(65520.0) == 0x7c00);
    CHECK(f16_of(-1e300) == 0xfc00);
    CHECK(f16_of(1e-300) == 0);
    CHECK(bf16_of(std::bit_cast<float>(0x3f80'8000U)) == 0x3f80);
    CHECK(bf16_of(std::bit_cast<float>(0x3f81'8000U)) == 0x3f82);
    CHECK(bf16_of(std::numeric_limits<float>::quiet_NaN()) == canonical_nan_16);
}

TEST_CASE("a barrier's phase ends with its last arrival", "[emulator]") {
    BarrierUpdate step = barrier_init(3);
    REQUIRE(step.error == nullptr);
    const std::uint64_t fresh = step.word;
    CHECK_FALSE(barrier_test_parity(fresh, 0).completed);
    CHECK(barrier_test_parity(fresh, 1).completed);  // the phase before the first counts as over
    step = barrier_arrive(fresh, 2);
    CHECK_FALSE(step.completed);
    CHECK(barrier_pending_count(step.state) == 3);
    const std::uint64_t state = step.state;
    CHECK_FALSE(barrier_test(step.word, state).completed);
    step = barrier_arrive(step.word, 1);
    CHECK(step.completed);
    CHECK(barrier_pending_count(step.state) == 1);
    CHECK(barrier_test(step.word, state).completed);
    CHECK(barrier_test_parity(step.word, 0).completed);
    CHECK_FALSE(barrier_test_parity(step.word, 1).completed);
    CHECK(view_barrier(step.word).pending == 3);
    step = barrier_arrive(step.word, 3);
    CHECK(step.completed);
    CHECK_FALSE(barrier_test_parity(step.word, 0).completed);
    CHECK(barrier_test_parity(step.word, 1).completed);
}

TEST_CASE("a barrier's phase waits for its transactions, in whichever order", "[emulator]") {
    BarrierUpdate step = barrier_init(1);
    step = barrier_arrive_expect_tx(step.word, 4096);
    CHECK_FALSE(step.completed);
    CHECK(view_barrier(step.word).transactions == 4096);
    step = barrier_complete_tx(step.word, 4000);
    CHECK_FALSE(step.completed);
    step = barrier_complete_tx(step.word, 96);
    CHECK(step.completed);

    step = barrier_complete_tx(step.word, 64);  // before they were expected
    CHECK_FALSE(step.completed);
    CHECK(view_barrier(step.word).transactions == -64);
    step = barrier_expect_tx(step.word, 64);
    CHECK_FALSE(step.completed);
    step = barrier_arrive(step.word, 1);
    CHECK(step.completed);
    CHECK(view_barrier(step.word).phase_parity == 0);
}

TEST_CASE("a dropped arrival is missing from the next phase on", "[emulator]") {
    BarrierUpdate step = barrier_init(2);
    step = barrier_arrive_drop(step.word, 1);
    CHECK_FALSE(step.completed);
    step = barrier_arrive(step.word, 1);
    CHECK(step.completed);
    CHECK(view_barrier(step.word).pending == 1);
    step = barrier_add_pending(step.word);
    step = barrier_arrive(step.word, 1);
    CHECK_FALSE(step.completed);
    step = barrier_arrive(step.word, 1);
    CHECK(step.completed);
}

TEST_CASE("misuse of a barrier is told and leaves it as it was", "[emulator]") {
    CHECK(barrier_init(0).error != nullptr);
    CHECK(barrier_init(1U << 20).error != nullptr);
    CHECK(barrier_init((1U << 20) - 1).error == nullptr);
    const std::uint64_t word = barrier_init(2).word;
    for (const BarrierUpdate& step :
         {barrier_arrive(word, 3), barrier_arrive(word, 0), barrier_arrive_drop(word, 3),
          barrier_expect_tx(word, 1U << 20), barrier_complete_tx(word, 1U << 20),
          barrier_arrive_expect_tx(word, 1U << 20)}) {
        CHECK(step.error != nullptr);
        CHECK(step.word == word);
    }
    for (const std::uint64_t poison :
         {std::uint64_t{0}, std::uint64_t{0xffff'ffff'ffff'ffffULL},
          std::uint64_t{0xcdcd'cdcd'cdcd'cdcdULL}, barrier_inval(word).word}) {
        CHECK(barrier_arrive(poison, 1).error != nullptr);
        CHECK(barrier_test_parity(poison, 0).error != nullptr);
        CHECK(barrier_expect_tx(poison, 1).error != nullptr);
        CHECK(barrier_inval(poison).error != nullptr);
    }
    CHECK(barrier_test(word, 0).error != nullptr);
}

TEST_CASE("arrivals of several threads all count", "[emulator]") {
    alignas(8) std::array<std::byte, 8> memory{};
    const std::uint64_t word = barrier_init(4000).word;
    std::memcpy(memory.data(), &word, 8);
    std::atomic<int> completed = 0;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                for (int i = 0; i < 2000; ++i) {
                    const BarrierUpdate step = update_barrier(
                        memory.data(), [](std::uint64_t old) { return barrier_arrive(old, 1); });
                    completed += step.completed ? 1 : 0;
                }
            });
        }
    }
    CHECK(completed == 2);
}

TEST_CASE("integer atomics wrap, compare and count as PTX says", "[emulator]") {
    CHECK(combined(Combine::add, Type::u32, 0xffff'ffffU, 2) == 1);
    CHECK(combined(Combine::add, Type::u64, ~0ULL, 2) == 1);
    CHECK(combined(Combine::min, Type::s32, 0xffff'fffbU, 3) == 0xffff'fffbU);
    CHECK(combined(Combine::max, Type::s32, 0xffff'fffbU, 3) == 3);
    CHECK(combined(Combine::min, Type::u32, 0xffff'fffbU, 3) == 3);
    CHECK(combined(Combine::max, Type::s64, ~0ULL, 3) == 3);
    CHECK(combined(Combine::inc, Type::u32, 4, 5) == 5);
    CHECK(combined(Combine::inc, Type::u32, 5, 5) == 0);
    CHECK(combined(Combine::dec, Type::u32, 0, 5) == 5);
    CHECK(combined(Combine::dec, Type::u32, 6, 5) == 5);
    CHECK(combined(Combine::dec, Type::u32, 5, 5) == 4);
    CHECK(combined(Combine::exchange, Type::b32, 1, 7) == 7);
    CHECK(combined(Combine::compare_exchange, Type::b16, 1, 1, 9) == 9);
    CHECK(combined(Combine::compare_exchange, Type::b64, 1, 2, 9) == 1);
    CHECK(combined(Combine::bit_and, Type::b32, 12, 10) == 8);
    CHECK(combined(Combine::bit_or, Type::b64, 12, 10) == 14);
    CHECK(combined(Combine::bit_xor, Type::b32, 12, 10) == 6);
    CHECK(find_combine(Combine::inc, Type::s32) == nullptr);
    CHECK(find_combine(Combine::min, Type::f64) == nullptr);
    CHECK(find_combine(Combine::bit_and, Type::f32) == nullptr);
    CHECK(find_combine(Combine::add, Type::tf32) == nullptr);
}

TEST_CASE("floating-point atomics round once, and flush only where asked", "[emulator]") {
    CHECK(combined(Combine::add, Type::f32, bits(1.5F), bits(2.25F)) == bits(3.75F));
    CHECK(combined(Combine::add, Type::f32, 1, 1) == 2);
    const CombineFn flushing = find_combine(Combine::add, Type::f32, Subnormals::flush);
    CHECK(flushing(1, 1, 0) == 0);
    CHECK(flushing(bits(0x1p-126F), bits(-0x1.8p-126F), 0) == 0x8000'0000U);
    CHECK(flushing(bits(1.0F), bits(2.0F), 0) == bits(3.0F));
    CHECK(combined(Combine::add, Type::f32, bits(INFINITY), bits(-INFINITY)) == 0x7fff'ffffU);
    CHECK(std::bit_cast<double>(combined(Combine::add, Type::f64, std::bit_cast<std::uint64_t>(0.1),
                                         std::bit_cast<std::uint64_t>(0.2))) == 0.1 + 0.2);
    // 1 + 2^-11 is a tie in f16 and goes to the even 1; two elements do not touch each other.
    const std::uint64_t one = f16_of(1.0), tiny = f16_of(0x1p-11);
    CHECK(combined(Combine::add, Type::f16, one, tiny) == one);
    CHECK(combined(Combine::add, Type::f16x2, one << 16 | 0xffff, one << 16 | one) ==
          (std::uint64_t{f16_of(2.0)} << 16 | canonical_nan_16));
    CHECK(combined(Combine::add, Type::bf16x2, 0x3f80'4000U, 0x3f80'3f80U) == 0x4000'4040U);
    CHECK(combined(Combine::min, Type::f16, 0x0000, 0x8000) == 0x8000);
    CHECK(combined(Combine::max, Type::f16, 0x8000, 0x0000) == 0x0000);
    CHECK(combined(Combine::max, Type::bf16, 0x7fff, 0xbf80) == 0xbf80);
    CHECK(combined(Combine::min, Type::bf16x2, 0x7fff'3f80U, 0x7fff'4000U) == 0x7fff'3f80U);
}

TEST_CASE("reductions in memory touch each element once", "[emulator]") {
    alignas(8) std::array<std::uint16_t, 8> to{};
    std::array<std::uint16_t, 8> from{};
    for (std::size_t i = 0; i < 8; ++i) {
        to[i] = f16_of(static_cast<double>(i));
        from[i] = f16_of(10.0);
    }
    reduce_in_memory(reinterpret_cast<std::byte*>(to.data()),
                     reinterpret_cast<const std::byte*>(from.data()), 16, 2,
                     find_combine(Combine::add, Type::f16));
    for (std::size_t i = 0; i < 8; ++i) {
        CHECK(f32_of_f16(to[i]) == 10.0F + static_cast<float>(i));
    }
    alignas(8) std::uint64_t word = 40;
    CHECK(combine_in_memory(reinterpret_cast<std::byte*>(&word), 8,
                            find_combine(Combine::add, Type::u64), 2) == 40);
    CHECK(word == 42);
}

TEST_CASE("copies state the alignment that they miss", "[emulator]") {
    CHECK_FALSE(copy_fault(0x100, 0x7f0000000010, 16, 16).has_value());
    CHECK_FALSE(copy_fault(0x100, 0x7f0000000001, 16, 0).has_value());
    CHECK(copy_fault(0x108, 0x7f0000000010, 16, 16).has_value());
    CHECK(copy_fault(0x108, 0x7f0000000014, 8, 8).has_value());
    CHECK(copy_fault(0x100, 0x7f0000000010, 4, 8).has_value());
    CHECK_FALSE(bulk_fault(16, 32, 48, BulkCompletion::group).has_value());
    CHECK_THAT(*bulk_fault(16, 32, 20, BulkCompletion::group), ContainsSubstring("20 bytes"));
    CHECK(bulk_fault(8, 32, 16, BulkCompletion::group).has_value());
    CHECK(bulk_fault(16, 40, 16, BulkCompletion::group).has_value());
    CHECK_FALSE(bulk_fault(0, 0, 1U << 20, BulkCompletion::group).has_value());
    CHECK(bulk_fault(0, 0, 1U << 20, BulkCompletion::transactions).has_value());
}
