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

/// Whether a row holds one value, but for an impulse.
bool is_flat(const std::vector<double>& values, std::size_t row, std::size_t length) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * length);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    const auto others = [&](double value) { return (end - begin) - std::count(begin, end, value); };
    return std::min(others(begin[0]), others(begin[1])) <= 1;
}

/// A cache of pages of which a table names some, and ragged sequences.
Task paged_task(DType offsets = DType::int32, DType cache = DType::bfloat16) {
    Task task;
    const auto axis = [&](const char* name) {
        task.definition.axes.push_back({name, Axis::Kind::variable, 0, "", ""});
    };
    for (const char* name : {"starts", "tokens", "pages", "named", "d"}) axis(name);
    task.definition.inputs = {{"indptr", {"starts"}, false, offsets, ""},
                              {"cache", {"pages", "d"}, false, cache, ""},
                              {"table", {"named"}, false, DType::int64, ""}};
    task.init["indptr"].kind = InitSpec::Kind::offsets;
    task.init["indptr"].bound = "tokens";
    task.init["table"].kind = InitSpec::Kind::distinct;
    task.init["table"].bound = "pages";
    task.init["cache"].used_by = "table";
    if (cache == DType::int16) task.init["cache"].kind = InitSpec::Kind::integers;
    return task;
}

using Axes = std::map<std::string, std::int64_t>;

std::vector<double> drawn_of(const Task& task, const Axes& axes, std::size_t input,
                             Distribution distribution, std::uint64_t seed) {
    const TensorSpec& spec = task.definition.inputs[input];
    const FillParameters p =
        fill_parameters(task, axes, spec, static_cast<std::uint32_t>(input), distribution, seed);
    const std::size_t size = element_bytes(spec.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.count) * size);
    fill_on_host(p, 0, bytes);
    std::vector<double> values;
    for (std::size_t i = 0; i < bytes.size(); i += size) {
        values.push_back(element_value(spec.dtype, std::span(bytes).subspan(i, size)));
    }
    return values;
}

std::vector<double> lengths_of(const std::vector<double>& offsets) {
    std::vector<double> lengths;
    for (std::size_t i = 1; i < offsets.size(); ++i) lengths.push_back(offsets[i] - offsets[i - 1]);
    return lengths;
}

constexpr Distribution all_distributions[] = {Distribution::natural, Distribution::scaled,
                                              Distribution::heavy_tails, Distribution::structured};

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

TEST_CASE("an input that is not varied has its natural values in every distribution", "[referee]") {
    InitSpec init;
    const auto natural = drawn(init, DType::float32, {64, 64}, Distribution::natural, 5);
    init.varied = false;
    for (const Distribution distribution :
         {Distribution::scaled, Distribution::heavy_tails, Distribution::structured}) {
        CHECK(drawn(init, DType::float32, {64, 64}, distribution, 5) == natural);
    }
    init.varied = true;
    CHECK(drawn(init, DType::float32, {64, 64}, Distribution::structured, 5) != natural);
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
        int flat_rows = 0;
        for (std::size_t row = 0; row < 256; ++row)
            flat_rows += is_flat(structured, row, 512) ? 1 : 0;
        CHECK(flat_rows >= 3);  // 16 are expected
        CHECK(flat_rows <= 36);
        std::set<double> row_factors;
        std::set<double> late_factors;
        for (std::size_t i = 0; i < natural.size(); ++i) {
            if (std::abs(structured[i]) == 256.0) {
                ++impulses;
                (i % 512 >= 448 ? in_tail : elsewhere) = true;
                continue;
            }
            if (natural[i] == 0.0 || is_flat(structured, i / 512, 512)) continue;
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

TEST_CASE("offsets start at nothing, end at the bound and never fall", "[referee]") {
    for (const std::int64_t segments : {1, 2, 3, 7, 64, 1000}) {
        for (const std::int64_t total : {1, 5, 1000, 58966}) {
            for (const Distribution distribution : all_distributions) {
                const Axes axes = {{"starts", segments + 1}, {"tokens", total}};
                const auto offsets = drawn_of(paged_task(), axes, 0, distribution, 7);
                INFO(segments << " segments of " << total << ", " << to_string(distribution));
                REQUIRE(offsets.size() == static_cast<std::size_t>(segments) + 1);
                CHECK(offsets.front() == 0.0);
                CHECK(offsets.back() == static_cast<double>(total));
                CHECK(std::is_sorted(offsets.begin(), offsets.end()));
            }
        }
    }
}

TEST_CASE("the lengths of segments are uneven in the way of the distribution", "[referee]") {
    const Axes axes = {{"starts", 65}, {"tokens", 64000}};
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        INFO("seed " << seed);
        const auto lengths = [&](Distribution d) {
            auto result = lengths_of(drawn_of(paged_task(), axes, 0, d, seed));
            std::sort(result.begin(), result.end());
            return result;
        };
        const auto natural = lengths(Distribution::natural);
        CHECK(natural.front() < 500.0);
        CHECK(natural.back() > 1500.0);
        const auto even = lengths(Distribution::scaled);
        CHECK(even.front() > 500.0);
        CHECK(even.back() < 1500.0);
        const auto heavy = lengths(Distribution::heavy_tails);
        CHECK(heavy.back() > 2500.0);
        CHECK(heavy[8] < 250.0);
        const auto structured = lengths(Distribution::structured);
        CHECK(structured.front() == 0.0);
        CHECK(structured.back() >= 32000.0);
    }
    const Axes few = {{"starts", 4}, {"tokens", 30}};
    const auto structured = lengths_of(drawn_of(paged_task(), few, 0, Distribution::structured, 3));
    CHECK(std::count(structured.begin(), structured.end(), 0.0) >= 1);
    CHECK(drawn_of(paged_task(), axes, 0, Distribution::natural, 1) !=
          drawn_of(paged_task(), axes, 0, Distribution::natural, 2));
}

TEST_CASE("an offset depends only on seed and index", "[referee]") {
    const Axes axes = {{"starts", 1001}, {"tokens", 50000}};
    const Task task = paged_task();
    const FillParameters p =
        fill_parameters(task, axes, task.definition.inputs[0], 0, Distribution::structured, 11);
    std::vector<std::int32_t> whole(1001);
    fill_on_host(p, 0, std::as_writable_bytes(std::span(whole)));
    std::vector<std::int32_t> part(100);
    fill_on_host(p, 700, std::as_writable_bytes(std::span(part)));
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + 700));
}

TEST_CASE("distinct values are different and below their bound", "[referee]") {
    for (const std::int64_t bound : {1, 2, 100, 4097}) {
        const Axes axes = {{"named", std::min<std::int64_t>(bound, 90)}, {"pages", bound}};
        const auto values = drawn_of(paged_task(), axes, 2, Distribution::natural, 5);
        const std::set<double> unique(values.begin(), values.end());
        CHECK(unique.size() == values.size());
        CHECK(*unique.begin() >= 0.0);
        CHECK(*unique.rbegin() < static_cast<double>(bound));
    }
    const Axes axes = {{"named", 90}, {"pages", 4097}};
    CHECK(drawn_of(paged_task(), axes, 2, Distribution::natural, 5) !=
          drawn_of(paged_task(), axes, 2, Distribution::natural, 6));
}

TEST_CASE("slices that a table does not name are poison, all others are drawn", "[referee]") {
    for (const DType dtype : {DType::bfloat16, DType::float32, DType::int16}) {
        for (const Distribution distribution : all_distributions) {
            const Task task = paged_task(DType::int32, dtype);
            const Axes axes = {{"named", 200}, {"pages", 300}, {"d", 16}};
            const auto table = drawn_of(task, axes, 2, distribution, 9);
            const auto cache = drawn_of(task, axes, 1, distribution, 9);
            Task full = task;
            full.init["cache"].used_by.clear();
            const auto natural = drawn_of(full, axes, 1, distribution, 9);
            const std::set<double> named(table.begin(), table.end());
            int wrong = 0;
            for (std::size_t i = 0; i < cache.size(); ++i) {
                const bool used = named.contains(static_cast<double>(i / 16));
                const bool poison = dtype == DType::int16 ? cache[i] == -1.0 : std::isnan(cache[i]);
                wrong += used ? cache[i] != natural[i] : !poison;
            }
            INFO(to_string(dtype) << ", " << to_string(distribution));
            CHECK(named.size() == 200);
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("a task that chooses among values has no constant rows", "[referee]") {
    Task task;
    task.definition.axes = {{"rows", Axis::Kind::variable, 0, "", ""},
                            {"n", Axis::Kind::variable, 0, "", ""}};
    task.definition.inputs = {{"x", {"rows", "n"}, false, DType::float32, ""}};
    task.definition.outputs = {{"i", {"rows"}, false, DType::int64, ""}};
    const Axes axes = {{"rows", 400}, {"n", 32}};
    const auto flat = [&] {
        const auto values = drawn_of(task, axes, 0, Distribution::structured, 1);
        int rows = 0;
        for (std::size_t row = 0; row < 400; ++row) rows += is_flat(values, row, 32) ? 1 : 0;
        return rows;
    };
    CHECK(flat() > 5);
    task.compare["i"].kind = CompareSpec::Kind::set;
    CHECK(flat() == 0);
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
    InitSpec bound;
    bound.kind = InitSpec::Kind::offsets;
    CHECK_THAT(*error(bound, DType::int32, {4}), ContainsSubstring("need the task"));
    const Task task = paged_task();
    const auto of_task = [&](std::size_t input, const Axes& axes) {
        return test::error_of([&] {
                   (void)fill_parameters(task, axes, task.definition.inputs[input],
                                         static_cast<std::uint32_t>(input), Distribution::natural,
                                         0);
               })
            .value_or("accepted");
    };
    CHECK_THAT(of_task(2, {{"named", 5}, {"pages", 4}}),
               ContainsSubstring("input table: 5 distinct values do not exist below the bound 4"));
    CHECK_THAT(of_task(0, {{"starts", 5}}), ContainsSubstring("axis \"tokens\""));
    CHECK_FALSE(error({}, DType::float32, {0, 4}));
    CHECK_FALSE(error({}, DType::float32, {}));
}
