// SPDX-License-Identifier: Apache-2.0
#include "referee/digest.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernelforge/error.hpp"
#include "referee/comparison.hpp"
#include "referee/distributions.hpp"
#include "referee/limits.hpp"
#include "support/catch.hpp"

using namespace kernelforge;
using namespace kernelforge::referee;

namespace {

const std::vector<std::int64_t> shape = {512, 512};  // 16 tiles
constexpr std::size_t count = 512 * 512;

std::vector<float> drawn(std::uint64_t seed, Distribution distribution = Distribution::natural) {
    std::vector<float> values(count);
    const FillParameters fill = fill_parameters({}, DType::float32, shape, distribution, seed, 0);
    fill_on_host(fill, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

CompareSpec spec_of(PrecisionTier tier) {
    CompareSpec spec;
    spec.tier = tier;
    return spec;
}

/// Judges by signed sums alone unless there is room for samples.
OutputError judged(const std::vector<float>& found, const std::vector<float>& reference,
                   std::uint64_t seed, std::size_t sample_bytes = 0,
                   PrecisionTier tier = PrecisionTier::bfloat16) {
    const CompareSpec spec = spec_of(tier);
    DigestParameters p = digest_parameters(spec, DType::float32, shape, 0, sample_bytes);
    p.seed = seed;
    p.call = seed;
    const auto bytes = std::as_bytes(std::span(found));
    const DigestVerdict verdict =
        judge_on_host(p, digest_on_host(p, bytes), bytes, std::as_bytes(std::span(reference)));
    return judge_digest("y", spec, p, verdict, "timed call 3, natural");
}

/// Errors of this RMS relative to the values, everywhere.
std::vector<float> with_noise(std::vector<float> values, double share, std::uint64_t seed) {
    const std::vector<float> noise = drawn(seed + 1000);
    for (std::size_t i = 0; i < count; ++i) {
        values[i] += static_cast<float>(share * noise[i]) * std::max(1.0F, std::abs(values[i]));
    }
    return values;
}

/// Changes the elements of the tile in row `down`, column `across` of tiles.
template <class F>
void in_tile(std::vector<float>& values, std::size_t down, std::size_t across, F&& f) {
    for (std::size_t row = 0; row < 128; ++row) {
        for (std::size_t column = 0; column < 128; ++column) {
            float& value = values[(down * 128 + row) * 512 + across * 128 + column];
            value = f(value);
        }
    }
}

}  // namespace

TEST_CASE("digests accept the reference itself and honest rounding", "[referee][digest]") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const auto distribution = static_cast<Distribution>(seed % 4);
        const std::vector<float> reference = drawn(seed, distribution);
        CHECK(judged(reference, reference, seed, 1 << 20).ok);
        std::vector<float> rounded = reference;
        for (float& value : rounded) {
            std::byte bits[2];
            store_element(DType::bfloat16, value, bits);
            value = static_cast<float>(element_value(DType::bfloat16, bits));
        }
        CHECK(judged(rounded, reference, seed, 1 << 20).ok);
    }
}

TEST_CASE("the mean square of projections is that of the errors", "[referee][digest]") {
    const std::vector<float> reference = drawn(5);
    const std::vector<float> found = with_noise(reference, 1e-3, 5);
    double error2 = 0.0;
    double reference2 = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
        error2 += std::pow(double{found[i]} - double{reference[i]}, 2);
        reference2 += std::pow(double{reference[i]}, 2);
    }
    double sum2 = 0.0;
    constexpr int seeds = 100;
    for (int seed = 0; seed < seeds; ++seed) {
        sum2 += std::pow(
            judged(found, reference, 100 + static_cast<std::uint64_t>(seed)).normalised_rms, 2);
    }
    // 100 draws of 16 tiles: 2.5 percent of standard deviation for a mean of squares.
    CHECK(sum2 / seeds / (error2 / reference2) == Approx(1.0).margin(0.15));
}

TEST_CASE("digests refuse what is wrong everywhere, at any seed", "[referee][digest]") {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const std::vector<float> reference = drawn(seed);
        CHECK_FALSE(judged(std::vector<float>(count, 0.0F), reference, seed).ok);
        CHECK_FALSE(judged(drawn(seed + 77), reference, seed).ok);
        CHECK_FALSE(judged(with_noise(reference, 0.1, seed), reference, seed).ok);
    }
}

TEST_CASE("digests refuse one wrong tile in nearly every call", "[referee][digest]") {
    int refused = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        const std::vector<float> reference = drawn(seed);
        std::vector<float> found = reference;
        in_tile(found, seed % 4, seed / 4 % 4, [](float) { return 0.0F; });
        const OutputError error = judged(found, reference, seed);
        refused += error.ok ? 0 : 1;
    }
    // |N(0, 1)| > 8 * 2 * 6e-3 = 0.096 has probability 0.92 for the tile alone.
    CHECK(refused >= 40);
}

TEST_CASE("a wrong element of a sampled tile is found with its place", "[referee][digest]") {
    const std::vector<float> reference = drawn(9);
    std::vector<float> found = reference;
    found[511 * 512 + 511] += 3.0F;  // the last tile is always sampled
    const OutputError error = judged(found, reference, 9, 1 << 17);
    CHECK_FALSE(error.ok);
    CHECK(error.first_index == std::int64_t{511 * 512 + 511});
    CHECK_THAT(describe(error, shape), ContainsSubstring("[511, 511]"));
    CHECK_THAT(describe(error, shape), ContainsSubstring("timed call 3, natural"));
    // Where all tiles are sampled no element escapes.
    found = reference;
    found[777] += 3.0F;
    CHECK_FALSE(judged(found, reference, 9, 1 << 20).ok);
    CHECK(judged(found, reference, 9).ok);  // by signed sums alone: 3 of a norm of 128
}

TEST_CASE("NaNs and infinities never pass a digest", "[referee][digest]") {
    const std::vector<float> reference = drawn(11);
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> found = reference;
        found[12345] = odd;
        CHECK_FALSE(judged(found, reference, 11).ok);
    }
    std::vector<float> infinite = reference;
    infinite[12345] = std::numeric_limits<float>::infinity();
    CHECK(judged(infinite, infinite, 11).ok);
    std::vector<float> negative = infinite;
    negative[12345] = -negative[12345];
    CHECK_FALSE(judged(negative, infinite, 11).ok);
    std::vector<float> missing = reference;
    std::memset(missing.data(), 0xFF, 256);
    CHECK_FALSE(judged(missing, reference, 11).ok);
}

TEST_CASE("a zero reference accepts only zeros", "[referee][digest]") {
    const std::vector<float> zeros(count, 0.0F);
    CHECK(judged(zeros, zeros, 3).ok);
    std::vector<float> found = zeros;
    found[5] = 1e-20F;
    CHECK_FALSE(judged(found, zeros, 3).ok);
}

TEST_CASE("exact outputs are judged by keyed hashes of every element", "[referee][digest]") {
    CompareSpec spec;
    spec.kind = CompareSpec::Kind::exact;
    DigestParameters p = digest_parameters(spec, DType::int32, shape, 0, 0);
    p.seed = 42;
    std::vector<std::int32_t> reference(count);
    for (std::size_t i = 0; i < count; ++i) reference[i] = static_cast<std::int32_t>(i % 97);
    const auto ok = [&](const std::vector<std::int32_t>& found) {
        const auto bytes = std::as_bytes(std::span(found));
        return judge_digest("y", spec, p,
                            judge_on_host(p, digest_on_host(p, bytes), bytes,
                                          std::as_bytes(std::span(reference))),
                            "")
            .ok;
    };
    CHECK(ok(reference));
    std::vector<std::int32_t> found = reference;
    found[count - 1] ^= 1;
    CHECK_FALSE(ok(found));
    found = reference;
    std::swap(found[3], found[4]);  // the sum of the values stays
    CHECK_FALSE(ok(found));
}

TEST_CASE("what passes the full comparison passes by projection", "[referee][digest]") {
    // Errors as large as the limits allow, all in one tile of a tall output with little else.
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        std::vector<float> reference = drawn(seed);
        for (float& value : reference) value *= 1e-3F;
        in_tile(reference, 1, 2, [](float value) { return value * 1e3F; });
        std::vector<float> found = reference;
        const double limit = limits_of(PrecisionTier::bfloat16, 1.0, count).rms;
        in_tile(found, 1, 2,
                [&](float value) { return value * static_cast<float>(1.0 + 0.99 * limit); });
        CHECK(judged(found, reference, seed).ok);
    }
}

TEST_CASE("the limit on the whole is twice the RMS limit for many tiles and wider for few",
          "[referee][digest]") {
    CHECK(whole_projection_limit(1e-2, 1.0, 1e-6) == 2e-2);
    CHECK(whole_projection_limit(1e-2, 1.0, 1.0) > 0.16);
    CHECK(whole_projection_limit(1e-2, 1.0, 1.0) < 0.17);
    CHECK(whole_projection_limit(1e-2, 0.0, 0.0) == 0.0);
}

TEST_CASE("digest parameters size their slots and refuse other kinds", "[referee][digest]") {
    const CompareSpec spec = spec_of(PrecisionTier::float32);
    const DigestParameters none = digest_parameters(spec, DType::float32, shape, 0, 0);
    CHECK(none.samples == 0);
    CHECK(digest_slot_bytes(none) % 256 == 0);
    CHECK(digest_slot_bytes(none) >= 16 * sizeof(DigestTile));
    const DigestParameters some = digest_parameters(spec, DType::float32, shape, 0, 1 << 18);
    CHECK(some.samples == 4);
    CHECK(digest_slot_bytes(some) >= digest_slot_bytes(none) + (1 << 18));
    const std::vector<std::int64_t> empty = {0, 128};
    const DigestParameters nothing = digest_parameters(spec, DType::float32, empty, 0, 1 << 20);
    CHECK(nothing.samples == 0);
    CHECK(judge_digest("y", spec, nothing, {}, "").ok);
    CompareSpec set;
    set.kind = CompareSpec::Kind::set;
    CHECK_FALSE(has_digest(set));
    CHECK_THROWS_AS(digest_parameters(set, DType::int32, shape, 0, 0), Error);
    CHECK_THROWS_AS(digest_on_host(none, {}), Error);
}
