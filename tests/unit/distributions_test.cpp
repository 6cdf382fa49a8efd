// SPDX-License-Identifier: Apache-2.0
#include "referee/distributions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::referee;

namespace {

using Shape = std::vector<std::int64_t>;

std::vector<double> drawn(const InitSpec& init, DType dtype, const Shape& shape,
                          Distribution distribution = Distribution::natural, std::uint64_t seed = 1,
                          std::uint32_t ordinal = 0) {
    const FillParameters p = fill_parameters(init, dtype, shape, distribution, seed, ordinal);
    const std::size_t size = element_bytes(dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.count) * size);
    fill_on_host(p, 0, bytes);
    std::vector<double> values;
    for (std::size_t i = 0; i < bytes.size(); i += size) {
        values.push_back(element_value(dtype, std::span(bytes).subspan(i, size)));
    }
    return values;
}

double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
}

double rms(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v * v;
    return std::sqrt(sum / static_cast<double>(values.size()));
}

double rounded(DType dtype, double value) {
    std::array<std::byte, 8> bytes{};
    store_element(dtype, value, bytes);
    return element_value(dtype, bytes);
}

std::uint64_t bits(DType dtype, double value) {
    std::uint64_t result = 0;
    store_element(dtype, value, std::as_writable_bytes(std::span(&result, 1)));
    return result;
}

}  // namespace

TEST_CASE("the generator gives the known answers of Philox4x32-10", "[referee]") {
    // From kat_vectors of the Random123 distribution.
    using W = std::array<std::uint32_t, 4>;
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == W{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) ==
          W{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          W{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("rounding to every type is to nearest even", "[referee]") {
    CHECK(bits(DType::float16, 1.0) == 0x3C00);
    CHECK(bits(DType::float16, 65504.0) == 0x7BFF);
    CHECK(bits(DType::float16, 65519.9) == 0x7BFF);
    CHECK(bits(DType::float16, 65520.0) == 0x7C00);
    CHECK(bits(DType::float16, -0x1p-24) == 0x8001);
    CHECK(bits(DType::float16, 0x1p-25) == 0);  // a tie, to even
    CHECK(bits(DType::float16, 0x1.8p-25) == 1);
    CHECK(bits(DType::float16, 1.0 + 0x1p-11) == 0x3C00);    // a tie, to even
    CHECK(bits(DType::float16, 1.0 + 0x1.8p-10) == 0x3C02);  // a tie, to even
    CHECK(bits(DType::bfloat16, 1.0 + 0x1p-8) == 0x3F80);
    CHECK(bits(DType::bfloat16, 1.0 + 0x1.8p-8) == 0x3F81);
    CHECK(bits(DType::bfloat16, -3.0e38) == 0xFF62);
    CHECK(bits(DType::bfloat16, 1e39) == 0x7F80);
    CHECK(bits(DType::float8_e4m3fn, 448.0) == 0x7E);
    CHECK(bits(DType::float8_e4m3fn, 1e9) == 0x7E);
    CHECK(bits(DType::float8_e4m3fn, -0x1p-9) == 0x81);
    CHECK(bits(DType::float8_e5m2, 57344.0) == 0x7B);
    CHECK(bits(DType::float8_e5m2, 1e9) == 0x7B);
    CHECK(rounded(DType::int8, 2.5) == 2.0);
    CHECK(rounded(DType::int8, -3.5) == -4.0);
    CHECK(rounded(DType::int8, 1000.0) == 127.0);
    CHECK(rounded(DType::uint8, -1.0) == 0.0);
    CHECK(rounded(DType::int64, 9.3e18) == Approx(9.223372036854775807e18));
    CHECK(std::isnan(rounded(DType::float16, std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::isnan(rounded(DType::float8_e4m3fn, std::numeric_limits<double>::quiet_NaN())));
    CHECK(std::isinf(rounded(DType::bfloat16, std::numeric_limits<double>::infinity())));
}

TEST_CASE("every code of the small types survives a round trip", "[referee]") {
    for (const DType dtype :
         {DType::float16, DType::bfloat16, DType::float8_e4m3fn, DType::float8_e5m2}) {
        const std::uint32_t codes = 1U << bits_of(dtype);
        int wrong = 0;
        for (std::uint32_t code = 0; code < codes; ++code) {
            const double value = element_value(dtype, std::as_bytes(std::span(&code, 1)));
            const bool finite = std::isfinite(value);
            // float8_e5m2 saturates, so its infinities do not come back.
            if (finite && bits(dtype, value) != code) ++wrong;
        }
        INFO(to_string(dtype));
        CHECK(wrong == 0);
    }
}

TEST_CASE("poisoned memory is NaN in every floating-point type", "[referee]") {
    const std::uint64_t poison = ~std::uint64_t{0};
    for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16,
                              DType::float8_e4m3fn, DType::float8_e5m2}) {
        CHECK(std::isnan(element_value(dtype, std::as_bytes(std::span(&poison, 1)))));
    }
}

TEST_CASE("normal inputs have the mean and deviation that they say", "[referee]") {
    const auto standard = drawn({}, DType::float32, {64, 1024});
    CHECK(std::abs(mean(standard)) < 0.016);  // four standard errors
    CHECK(rms(standard) == Approx(1.0).margin(0.012));
    CHECK(*std::max_element(standard.begin(), standard.end()) < 4.9);
    InitSpec shifted;
    shifted.mean = -3.0;
    shifted.stddev = 0.5;
    CHECK(mean(drawn(shifted, DType::bfloat16, {64, 1024})) == Approx(-3.0).margin(0.01));
}

TEST_CASE("an element depends only on seed, ordinal and index", "[referee]") {
    const FillParameters p =
        fill_parameters({}, DType::float32, Shape{32, 100}, Distribution::structured, 42, 3);
    std::vector<std::byte> whole(3200 * 4);
    fill_on_host(p, 0, whole);
    std::vector<std::byte> part(50 * 4);
    fill_on_host(p, 1234, part);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + 1234 * 4));
    CHECK(drawn({}, DType::float32, {100}, Distribution::natural, 1, 0) !=
          drawn({}, DType::float32, {100}, Distribution::natural, 2, 0));
    CHECK(drawn({}, DType::float32, {100}, Distribution::natural, 1, 0) !=
          drawn({}, DType::float32, {100}, Distribution::natural, 1, 1));
}

TEST_CASE("uniform, integer, constant and boolean inputs keep their bounds", "[referee]") {
    InitSpec uniform;
    uniform.kind = InitSpec::Kind::uniform;
    uniform.low = 2.0;
    uniform.high = 5.0;
    const auto u = drawn(uniform, DType::float64, {10000});
    CHECK(*std::min_element(u.begin(), u.end()) >= 2.0);
    CHECK(*std::max_element(u.begin(), u.end()) < 5.0);
    CHECK(mean(u) == Approx(3.5).margin(0.04));

    InitSpec integers;
    integers.kind = InitSpec::Kind::integers;
    integers.low = -2.0;
    integers.high = 3.0;
    std::map<double, int> counts;
    for (const double v : drawn(integers, DType::int32, {6000})) ++counts[v];
    REQUIRE(counts.size() == 6);
    for (const auto& [value, count] : counts) {
        CHECK((value >= -2.0 && value <= 3.0));
        CHECK(count > 850);
    }

    InitSpec constant;
    constant.kind = InitSpec::Kind::constant;
    constant.low = 1e-5;
    for (const Distribution d :
         {Distribution::scaled, Distribution::heavy_tails, Distribution::structured}) {
        for (const double v : drawn(constant, DType::float32, {100}, d)) CHECK(v == Approx(1e-5));
        CHECK(drawn(integers, DType::int32, {100}, d) == drawn(integers, DType::int32, {100}));
    }
    CHECK(mean(drawn({}, DType::boolean, {10000})) == Approx(0.5).margin(0.02));
}

TEST_CASE("a permutation holds every value once in each row", "[referee]") {
    InitSpec init;
    init.kind = InitSpec::Kind::permutation;
    for (const std::int64_t n : {1, 2, 7, 64, 1000}) {
        const auto values = drawn(init, DType::int32, {3, n});
        std::vector<std::vector<double>> rows;
        for (std::int64_t row = 0; row < 3; ++row) {
            rows.emplace_back(values.begin() + row * n, values.begin() + (row + 1) * n);
            const std::set<double> unique(rows.back().begin(), rows.back().end());
            CHECK(unique.size() == static_cast<std::size_t>(n));
            CHECK(*unique.begin() == 0.0);
            CHECK(*unique.rbegin() == static_cast<double>(n - 1));
        }
        if (n >= 64) CHECK(rows[0] != rows[1]);
    }
}

TEST_CASE("the scaled distribution is the natural one times a power of two", "[referee]") {
    std::set<double> factors;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const auto natural = drawn({}, DType::float32, {8}, Distribution::natural, seed);
        const auto scaled = drawn({}, DType::float32, {8}, Distribution::scaled, seed);
        const double factor = scaled[0] / natural[0];
        for (std::size_t i = 0; i < 8; ++i) CHECK(scaled[i] == natural[i] * factor);
        factors.insert(factor);
    }
    CHECK(factors.size() == 9);
    CHECK(*factors.begin() == 0x1p-4);
    CHECK(*factors.rbegin() == 0x1p4);
}

TEST_CASE("heavy tails make one element in a thousand fifty times larger", "[referee]") {
    const auto natural = drawn({}, DType::float64, {100000}, Distribution::natural);
    const auto heavy = drawn({}, DType::float64, {100000}, Distribution::heavy_tails);
    int larger = 0;
    for (std::size_t i = 0; i < natural.size(); ++i) {
        if (heavy[i] == natural[i]) continue;
        CHECK(heavy[i] == Approx(50.0 * natural[i]));
        ++larger;
    }
    CHECK(larger > 60);
    CHECK(larger < 140);
}

TEST_CASE("the structured distribution scales rows, widens the last ones and holds one impulse",
          "[referee]") {
    const Shape shape = {256, 512};
    bool in_tail = false;
    bool elsewhere = false;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
        const auto natural = drawn({}, DType::float64, shape, Distribution::natural, seed);
        const auto structured = drawn({}, DType::float64, shape, Distribution::structured, seed);
        int impulses = 0;
        std::set<double> row_factors;
        std::set<double> late_factors;
        for (std::size_t i = 0; i < natural.size(); ++i) {
            if (std::abs(structured[i]) == 256.0) {
                ++impulses;
                (i % 512 >= 448 ? in_tail : elsewhere) = true;
                continue;
            }
            if (natural[i] == 0.0) continue;
            (i / 512 < 224 ? row_factors : late_factors).insert(structured[i] / natural[i]);
        }
        CHECK(impulses == 1);
        CHECK(row_factors.size() == 7);
        CHECK(late_factors.size() > 9);
        CHECK(*late_factors.rbegin() > *row_factors.rbegin());
    }
    CHECK(in_tail);
    CHECK(elsewhere);
}

TEST_CASE("every four trials see every distribution, in an order that the seed decides",
          "[referee]") {
    std::set<std::string> orders;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        std::set<Distribution> seen;
        std::string order;
        for (std::uint64_t trial = 4; trial < 8; ++trial) {
            seen.insert(distribution_of_trial(seed, trial));
            order += to_string(distribution_of_trial(seed, trial));
        }
        CHECK(seen.size() == 4);
        orders.insert(order);
    }
    CHECK(orders.size() > 10);
    CHECK(seed_of_trial(1, 0) != seed_of_trial(1, 1));
    CHECK(seed_of_trial(1, 0) != seed_of_trial(2, 0));
}

TEST_CASE("fills that make no sense are refused", "[referee]") {
    const auto error = [](InitSpec init, DType dtype, Shape shape) {
        return test::error_of(
            [&] { (void)fill_parameters(init, dtype, shape, Distribution::natural, 0, 0); });
    };
    InitSpec backwards;
    backwards.kind = InitSpec::Kind::uniform;
    backwards.low = 2.0;
    CHECK_THAT(*error(backwards, DType::float32, {4}), ContainsSubstring("low <= high"));
    InitSpec nan;
    nan.mean = std::numeric_limits<double>::quiet_NaN();
    CHECK_THAT(*error(nan, DType::float32, {4}), ContainsSubstring("finite"));
    CHECK_THAT(*error({}, DType::float4_e2m1, {4}), ContainsSubstring("float4_e2m1"));
    CHECK_THAT(*error({}, DType::float32, {-1}), ContainsSubstring("extents >= 0"));
    CHECK_THAT(*error({}, DType::float32, {1LL << 40, 1LL << 40}), ContainsSubstring("2^64"));
    CHECK_FALSE(error({}, DType::float32, {0, 4}));
    CHECK_FALSE(error({}, DType::float32, {}));
}
