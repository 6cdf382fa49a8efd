// SPDX-License-Identifier: Apache-2.0
#include "referee/comparison.hpp"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "referee/distributions.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::referee;

namespace {

using Shape = std::vector<std::int64_t>;
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinity = std::numeric_limits<double>::infinity();

CompareSpec rms(PrecisionTier tier) {
    CompareSpec spec;
    spec.tier = tier;
    return spec;
}

std::vector<std::byte> stored(DType dtype, const std::vector<double>& values) {
    const std::size_t size = element_bytes(dtype);
    std::vector<std::byte> bytes(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        store_element(dtype, values[i], std::span(bytes).subspan(i * size, size));
    }
    return bytes;
}

OutputError compared(const CompareSpec& spec, DType dtype, const Shape& shape,
                     const std::vector<double>& found, const std::vector<double>& expected) {
    const CompareParameters p = compare_parameters(spec, dtype, shape);
    return judge("y", spec, compare_on_host(p, stored(dtype, found), stored(dtype, expected)),
                 "natural");
}

std::vector<double> normals(const Shape& shape, Distribution distribution = Distribution::natural,
                            std::uint64_t seed = 1, std::uint32_t ordinal = 0) {
    const FillParameters p =
        fill_parameters({}, DType::float32, shape, distribution, seed, ordinal);
    std::vector<float> values(p.count);
    fill_on_host(p, 0, std::as_writable_bytes(std::span(values)));
    return {values.begin(), values.end()};
}

double to_type(DType dtype, double value) {
    std::array<std::byte, 8> bytes{};
    store_element(dtype, value, bytes);
    return element_value(dtype, bytes);
}

/// TF32 keeps ten bits of the significand.
double truncated_tf32(double value) {
    const auto single = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    bits &= 0xFFFFE000U;
    float result = 0;
    std::memcpy(&result, &bits, sizeof bits);
    return result;
}
double rounded_tf32(double value) {
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 11)), exponent - 11);
}

using Rounding = std::function<double(double)>;
double keep(double value) {
    return value;
}
Rounding to(DType dtype) {
    return [dtype](double value) { return to_type(dtype, value); };
}
/// As a careful quantised kernel does: scaled by tensor so that the type's range fits.
Rounding scaled_to(DType dtype, double scale) {
    return [=](double value) { return to_type(dtype, value * scale) / scale; };
}

/// c = a b for a [m, k] and b [k, n] with rounded operands; fp32 sums in order when `single`.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, int m,
                            int n, int k, const Rounding& operand, bool single) {
    std::vector<double> ra(a), rb(b), c(static_cast<std::size_t>(m) * n);
    for (double& v : ra) v = operand(v);
    for (double& v : rb) v = operand(v);
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            double sum = 0;
            float sum32 = 0;
            for (int l = 0; l < k; ++l) {
                const double term = ra[i * k + l] * rb[l * n + j];
                sum += term;
                if (single) sum32 = static_cast<float>(sum32 + term);
            }
            c[static_cast<std::size_t>(i) * n + j] = single ? sum32 : sum;
        }
    }
    return c;
}

}  // namespace

TEST_CASE("limits accept an honest kernel of a tier and refuse the next coarser one", "[referee]") {
    // A product of 48 x 48 with K = 256, all four distributions. Which roundings of the operands
    // pass at which tier; the output is rounded to `output`.
    struct Method {
        const char* name;
        Rounding operand;
        DType output;
        PrecisionTier tier;
        bool passes;
    };
    const std::vector<Method> methods = {
        {"fp32 in order", keep, DType::float32, PrecisionTier::float32, true},
        {"tf32 rounded as fp32", rounded_tf32, DType::float32, PrecisionTier::float32, false},
        {"fp16 operands as fp32", to(DType::float16), DType::float32, PrecisionTier::float32,
         false},
        {"bf16 as fp32", to(DType::bfloat16), DType::float32, PrecisionTier::float32, false},
        {"tf32 rounded", rounded_tf32, DType::float32, PrecisionTier::tensor_float32, true},
        {"tf32 truncated", truncated_tf32, DType::float32, PrecisionTier::tensor_float32, true},
        {"bf16 as tf32", to(DType::bfloat16), DType::float32, PrecisionTier::tensor_float32, false},
        {"fp16 operands and output", rounded_tf32, DType::float16, PrecisionTier::float16, true},
        {"bf16 as fp16", to(DType::bfloat16), DType::float16, PrecisionTier::float16, false},
        {"bf16 operands and output", to(DType::bfloat16), DType::bfloat16, PrecisionTier::bfloat16,
         true},
        {"fp8 as bf16", scaled_to(DType::float8_e4m3fn, 0.02), DType::bfloat16,
         PrecisionTier::bfloat16, false},
        {"e4m3 operands, bf16 output", scaled_to(DType::float8_e4m3fn, 0.02), DType::bfloat16,
         PrecisionTier::float8, true},
        {"fp32 at the fp64 tier", keep, DType::float32, PrecisionTier::float64, false},
    };
    constexpr int m = 48, n = 48, k = 256;
    for (const Distribution d : {Distribution::natural, Distribution::scaled,
                                 Distribution::heavy_tails, Distribution::structured}) {
        const auto a = normals({m, k}, d, 11, 0);
        const auto b = normals({k, n}, Distribution::natural, 11, 1);
        const auto truth = product(a, b, m, n, k, keep, false);
        for (const Method& method : methods) {
            const auto result = compared(rms(method.tier), method.output, {m, n},
                                         product(a, b, m, n, k, method.operand, true), truth);
            INFO(to_string(d) << ", " << method.name << ": " << result.normalised_rms << " of "
                              << result.rms_limit << ", tile " << result.max_tile_rms << ", far "
                              << result.mismatches);
            CHECK(result.ok == method.passes);
        }
    }
}

TEST_CASE("one rounding too coarse is refused, also without a reduction", "[referee]") {
    const auto x = normals({256, 256});
    const auto rounded = [&](DType dtype) {
        auto y = x;
        for (double& v : y) v = to_type(dtype, v);
        return y;
    };
    const auto passes = [&](PrecisionTier tier, DType dtype) {
        return compared(rms(tier), DType::float32, {256, 256}, rounded(dtype), x).ok;
    };
    CHECK(passes(PrecisionTier::float16, DType::float16));
    CHECK_FALSE(passes(PrecisionTier::float16, DType::bfloat16));
    CHECK_FALSE(passes(PrecisionTier::float32, DType::float16));
    CHECK(passes(PrecisionTier::bfloat16, DType::bfloat16));
    CHECK_FALSE(passes(PrecisionTier::bfloat16, DType::float8_e4m3fn));
    CHECK(passes(PrecisionTier::float8, DType::float8_e4m3fn));
    CHECK(passes(PrecisionTier::float8, DType::float8_e5m2));
}

TEST_CASE("null results fail: zeros, the mean, a neighbour's values, unwritten memory",
          "[referee]") {
    const auto truth = normals({300, 200});
    const std::vector<double> zeros(truth.size(), 0.0);
    auto shifted = truth;
    std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
    for (const PrecisionTier tier :
         {PrecisionTier::float32, PrecisionTier::bfloat16, PrecisionTier::float8}) {
        CHECK_FALSE(compared(rms(tier), DType::float32, {300, 200}, zeros, truth).ok);
        CHECK_FALSE(compared(rms(tier), DType::float32, {300, 200}, shifted, truth).ok);
        CHECK(compared(rms(tier), DType::float32, {300, 200}, truth, truth).ok);
    }
    const CompareParameters p =
        compare_parameters(rms(PrecisionTier::float8), DType::float32, Shape{300, 200});
    const std::vector<std::byte> poison(truth.size() * 4, std::byte{0xFF});
    const auto error = judge("y", rms(PrecisionTier::float8),
                             compare_on_host(p, poison, stored(DType::float32, truth)), "natural");
    CHECK_FALSE(error.ok);
    CHECK(error.mismatches == 60000);
    CHECK(error.first_index == 0);
}

TEST_CASE("a single wrong element is found in a large output", "[referee]") {
    // Its share of the RMS is 0.2 %: only the element limit can see it at the bfloat16 tier.
    const auto truth = normals({512, 512});
    auto wrong = truth;
    std::size_t at = 200 * 512 + 17;
    while (std::abs(truth[at]) < 1.0) ++at;
    wrong[at] = 0.0;
    const auto error =
        compared(rms(PrecisionTier::bfloat16), DType::bfloat16, {512, 512}, wrong, truth);
    CHECK(error.normalised_rms < error.rms_limit);
    CHECK_FALSE(error.ok);
    CHECK(error.mismatches == 1);
    CHECK(error.first_index == static_cast<std::int64_t>(at));
    CHECK(error.found == 0.0);
    CHECK(error.expected == Approx(truth[at]).epsilon(0.01));
}

TEST_CASE("an error confined to one tile is found though the whole is within its limit",
          "[referee]") {
    const auto truth = normals({1024, 1024});
    auto wrong = truth;
    for (int i = 0; i < 128; ++i) {
        for (int j = 128; j < 256; ++j) wrong[i * 1024 + j] *= 1.0 + (j % 2 == 0 ? 0.02 : -0.02);
    }
    const auto error =
        compared(rms(PrecisionTier::bfloat16), DType::float32, {1024, 1024}, wrong, truth);
    CHECK(error.normalised_rms < error.rms_limit);
    CHECK(error.max_tile_rms == Approx(0.02).epsilon(0.01));
    CHECK(error.mismatches == 0);
    CHECK_FALSE(error.ok);
    CHECK_THAT(describe(error), ContainsSubstring("worst tile 2.00e-02 exceeds 1.2e-02"));
}

TEST_CASE("NaN never matches and infinities must be the same", "[referee]") {
    const std::vector<double> truth = {1.0, not_a_number, infinity, -infinity, 2.0};
    const auto one = [&](std::size_t at, double value) {
        auto found = truth;
        found[1] = 5.0;
        found[at] = value;
        auto expected = truth;
        expected[1] = 5.0;
        return compared(rms(PrecisionTier::float32), DType::float32, {5}, found, expected);
    };
    CHECK(one(0, 1.0).ok);
    CHECK_FALSE(one(0, not_a_number).ok);
    CHECK_FALSE(one(0, infinity).ok);
    CHECK_FALSE(one(2, -infinity).ok);
    CHECK_FALSE(one(2, 3e38).ok);
    CHECK(one(2, 3e38).first_index == 2);
    CHECK_FALSE(compared(rms(PrecisionTier::float32), DType::float32, {5}, truth, truth).ok);
}

TEST_CASE("a tile of zeros accepts noise far below the rest, and nothing larger", "[referee]") {
    auto truth = normals({256, 256});
    for (int i = 0; i < 128; ++i) {
        for (int j = 0; j < 128; ++j) truth[i * 256 + j] = 0.0;
    }
    auto found = truth;
    found[5] = 1e-9;
    CHECK(compared(rms(PrecisionTier::bfloat16), DType::float32, {256, 256}, found, truth).ok);
    found[5] = 1e-3;
    CHECK_FALSE(
        compared(rms(PrecisionTier::bfloat16), DType::float32, {256, 256}, found, truth).ok);
    const std::vector<double> zeros(100, 0.0);
    auto one = zeros;
    CHECK(compared(rms(PrecisionTier::float8), DType::float32, {100}, zeros, zeros).ok);
    one[3] = 1e-30;
    CHECK_FALSE(compared(rms(PrecisionTier::float8), DType::float32, {100}, one, zeros).ok);
}

TEST_CASE("exact comparison wants equal integers and true booleans", "[referee]") {
    const CompareSpec exact = default_compare(DType::int64);
    CHECK(exact.kind == CompareSpec::Kind::exact);
    // Differ only beyond the precision of a double.
    const std::vector<std::int64_t> a = {1, (std::int64_t{1} << 60) + 1};
    const std::vector<std::int64_t> b = {1, std::int64_t{1} << 60};
    const CompareParameters p = compare_parameters(exact, DType::int64, Shape{2});
    const auto error = judge(
        "index", exact,
        compare_on_host(p, std::as_bytes(std::span(a)), std::as_bytes(std::span(b))), "natural");
    CHECK_FALSE(error.ok);
    CHECK(error.mismatches == 1);
    CHECK(error.first_index == 1);
    CHECK_THAT(describe(error), ContainsSubstring("output index: 1 element is not equal"));

    const std::vector<std::uint8_t> poison = {0xFF, 0};
    const std::vector<std::uint8_t> truth = {1, 0};
    const CompareParameters q = compare_parameters(exact, DType::boolean, Shape{2});
    CHECK_FALSE(
        judge("mask", exact,
              compare_on_host(q, std::as_bytes(std::span(poison)), std::as_bytes(std::span(truth))),
              "natural")
            .ok);
    CHECK(compared(exact, DType::float32, {2}, {0.0, 1.5}, {-0.0, 1.5}).ok);
    CHECK_FALSE(compared(exact, DType::float32, {2}, {not_a_number, 1.5}, {not_a_number, 1.5}).ok);
}

TEST_CASE("tiles cover every element once and none is small", "[referee]") {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{16383}, Shape{16384}, Shape{40000},
                               Shape{128, 128}, Shape{127, 4000}, Shape{3, 50, 300},
                               Shape{255, 255}, Shape{1000, 257}, Shape{0, 5}, Shape{7, 0}}) {
        const CompareParameters p =
            compare_parameters(rms(PrecisionTier::float32), DType::float32, shape);
        const Tiling& t = p.tiling;
        std::uint64_t count = 1;
        for (const auto extent : shape) count *= static_cast<std::uint64_t>(extent);
        CHECK(t.rows * t.columns == count);
        if (count == 0) {
            CHECK(tile_count(p) == 0);
            CHECK(judge("y", rms(PrecisionTier::float32), compare_on_host(p, {}, {}), "").ok);
            continue;
        }
        CHECK(tile_count(p) >= 1);
        CHECK(t.tile_rows * t.tile_columns == 16384);
        CHECK(tile_count(p) * 16384 <= std::max<std::uint64_t>(count, 16384));
    }
    // The last element of each odd size is looked at.
    for (const Shape& shape : {Shape{40001}, Shape{3, 50, 300}, Shape{1000, 257}}) {
        const auto truth = normals(shape);
        auto wrong = truth;
        wrong.back() = not_a_number;
        CHECK(
            compared(rms(PrecisionTier::float8), DType::float32, shape, wrong, truth).mismatches ==
            1);
    }
}

TEST_CASE("an incomplete result never passes", "[referee]") {
    const CompareSpec spec = rms(PrecisionTier::float32);
    CHECK_FALSE(judge("y", spec, CompareResult{}, "natural").ok);
}

TEST_CASE("the worse of two verdicts is kept", "[referee]") {
    OutputError kept;
    kept.rms_limit = 1e-2;
    kept.tile_limit = 2e-2;
    kept.normalised_rms = 1e-3;
    OutputError larger = kept;
    larger.normalised_rms = 5e-3;
    larger.distribution = "scaled";
    keep_worse(kept, larger);
    CHECK(kept.distribution == "scaled");
    OutputError wrong = kept;
    wrong.ok = false;
    wrong.normalised_rms = not_a_number;
    wrong.distribution = "structured";
    keep_worse(kept, wrong);
    CHECK(kept.distribution == "structured");
    keep_worse(kept, larger);
    CHECK(kept.distribution == "structured");
}

TEST_CASE("a sentence says which output is wrong, where and how much", "[referee]") {
    auto truth = normals({10, 20});
    auto wrong = truth;
    wrong[3 * 20 + 17] = 1e3;
    const auto error =
        compared(rms(PrecisionTier::float32), DType::float32, {10, 20}, wrong, truth);
    const std::string text = describe(error, Shape{10, 20});
    CHECK_THAT(text,
               ContainsSubstring("output y: 1 element is NaN, infinite, unwritten or far off, "
                                 "the first at [3, 17]: expected "));
    CHECK_THAT(text, ContainsSubstring("found 1000; normalised RMS error "));
    CHECK_THAT(text, ContainsSubstring("(natural inputs)"));
    CHECK_THAT(describe(error), ContainsSubstring("flat index 77"));
    CHECK(describe(compared(rms(PrecisionTier::float32), DType::float32, {10, 20}, truth, truth))
              .empty());
}

TEST_CASE("comparisons that are no sums over elements are refused", "[referee]") {
    CompareSpec spec;
    for (const auto kind : {CompareSpec::Kind::set, CompareSpec::Kind::by_index,
                            CompareSpec::Kind::samples, CompareSpec::Kind::custom}) {
        spec.kind = kind;
        CHECK_THAT(*test::error_of([&] { (void)compare_parameters(spec, DType::int32, Shape{4}); }),
                   ContainsSubstring("only rms, exact, lse and ragged"));
    }
    CHECK_THAT(*test::error_of([&] { (void)default_compare(DType::float4_e2m1); }),
               ContainsSubstring("float4_e2m1"));
    CHECK_THAT(*test::error_of([] { (void)limits_of(PrecisionTier::float32, 0.0, 10); }),
               ContainsSubstring("slack"));
    const CompareParameters p =
        compare_parameters(rms(PrecisionTier::float32), DType::float32, Shape{4});
    CHECK_THAT(*test::error_of([&] { (void)compare_on_host(p, {}, {}); }),
               ContainsSubstring("two buffers of 16 bytes"));
}

TEST_CASE("the default comparison follows the output's type, and slack loosens it", "[referee]") {
    CHECK(default_compare(DType::float64).tier == PrecisionTier::float64);
    CHECK(default_compare(DType::float32).tier == PrecisionTier::float32);
    CHECK(default_compare(DType::float16).tier == PrecisionTier::float16);
    CHECK(default_compare(DType::bfloat16).tier == PrecisionTier::bfloat16);
    CHECK(default_compare(DType::float8_e5m2).tier == PrecisionTier::float8);
    CHECK(default_compare(DType::boolean).kind == CompareSpec::Kind::exact);
    CHECK(limits_of(PrecisionTier::bfloat16, 2.0, 1000).rms == Approx(1.2e-2));
    CHECK(limits_of(PrecisionTier::float32, 1.0, 1).rms == Approx(8e-5));
    Task task;
    task.compare["y"] = rms(PrecisionTier::tensor_float32);
    TensorSpec y;
    y.name = "y";
    CHECK(compare_of(task, y).tier == PrecisionTier::tensor_float32);
    y.name = "z";
    CHECK(compare_of(task, y).tier == PrecisionTier::float32);
}
