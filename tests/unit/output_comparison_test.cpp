// SPDX-License-Identifier: Apache-2.0
#include "referee/output_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "referee/distributions.hpp"
#include "support/catch.hpp"
#include "support/support.hpp"

using namespace kernelforge;
using namespace kernelforge::referee;

namespace {

using Axes = std::map<std::string, std::int64_t>;
constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Outputs o [rows, d], i and w [rows, k], l [rows], s [rows]; segments of rows in `starts`.
Task every_kind() {
    Task task;
    for (const char* name : {"rows", "d", "k", "starts"}) {
        task.definition.axes.push_back({name, Axis::Kind::variable, 0, "", ""});
    }
    task.definition.inputs = {{"indptr", {"starts"}, false, DType::int32, ""}};
    task.init["indptr"].kind = InitSpec::Kind::offsets;
    task.init["indptr"].bound = "rows";
    task.definition.outputs = {{"o", {"rows", "d"}, false, DType::bfloat16, ""},
                               {"i", {"rows", "k"}, false, DType::int64, ""},
                               {"w", {"rows", "k"}, false, DType::float32, ""},
                               {"l", {"rows"}, false, DType::float32, ""},
                               {"s", {"rows"}, false, DType::int32, ""},
                               {"c", {"rows"}, false, DType::float32, ""}};
    task.compare["o"] = {
        .kind = CompareSpec::Kind::ragged, .tier = PrecisionTier::bfloat16, .offsets = "indptr"};
    task.compare["i"] = {.kind = CompareSpec::Kind::set, .ties = "near"};
    task.compare["w"] = {.kind = CompareSpec::Kind::by_index, .index = "i"};
    task.compare["l"] = {.kind = CompareSpec::Kind::lse};
    task.compare["s"] = {.kind = CompareSpec::Kind::samples, .probabilities = "p"};
    task.compare["c"] = {.kind = CompareSpec::Kind::custom, .custom = "mine"};
    return task;
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

OutputComparison comparison(const Task& task, std::size_t output, const Axes& axes) {
    return {task, task.definition.outputs[output], axes};
}

std::vector<float> normals(std::size_t count, std::uint64_t seed) {
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count)};
    const FillParameters p =
        fill_parameters({}, DType::float32, shape, Distribution::natural, seed, 0);
    std::vector<float> values(count);
    fill_on_host(p, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

double uniform(std::uint32_t i, std::uint32_t stream) {
    const auto words = philox({i, stream, 0, 0}, {77, 78});
    return (words[0] + 0.5) / 4294967296.0;
}

}  // namespace

TEST_CASE("a set may come in any order and holds each value once", "[referee]") {
    const Task task = every_kind();
    const OutputComparison made = comparison(task, 1, {{"rows", 3}, {"k", 4}});
    const std::vector<std::int64_t> expected = {1, 2, 3, 4, 9, 8, 7, 6, 0, 5, 2, 1};
    std::vector<std::uint8_t> ties(3 * 10, 0);
    const auto verdict = [&](const std::vector<std::int64_t>& found) {
        OutputComparison compare = made;
        return compare.compare(
            {.found = bytes_of(found), .expected = bytes_of(expected), .workspace = bytes_of(ties)},
            "natural");
    };
    CHECK(verdict(expected).ok);
    CHECK(verdict({4, 3, 2, 1, 6, 7, 8, 9, 1, 2, 5, 0}).ok);

    const OutputError wrong = verdict({4, 3, 2, 1, 6, 7, 8, 3, 1, 2, 5, 9});
    CHECK_FALSE(wrong.ok);
    CHECK(wrong.mismatches == 2);
    CHECK(wrong.first_index == 7);
    CHECK(wrong.found == 3.0);
    CHECK_THAT(made.describe(wrong), ContainsSubstring("2 of 3 runs of 4 do not hold") &&
                                         ContainsSubstring("run 1, holds 3") &&
                                         ContainsSubstring("natural"));
    CHECK_FALSE(verdict({1, 2, 3, 3, 9, 8, 7, 6, 0, 5, 2, 1}).ok);   // one value twice
    CHECK_FALSE(verdict({1, 2, 3, -1, 9, 8, 7, 6, 0, 5, 2, 1}).ok);  // one not written
    CHECK_FALSE(verdict({9, 8, 7, 6, 1, 2, 3, 4, 0, 5, 2, 1}).ok);   // rows swapped
}

TEST_CASE("a near tie excuses the values it names, in their row and once", "[referee]") {
    const Task task = every_kind();
    const Axes axes = {{"rows", 2}, {"k", 3}};
    const std::vector<std::int64_t> expected = {0, 1, 2, 0, 1, 2};
    std::vector<std::uint8_t> ties(2 * 8, 0);
    for (const int value : {1, 5, 6}) ties[static_cast<std::size_t>(value)] = 1;
    const auto ok = [&](const std::vector<std::int64_t>& found) {
        return comparison(task, 1, axes)
            .compare({.found = bytes_of(found),
                      .expected = bytes_of(expected),
                      .workspace = bytes_of(ties)},
                     "")
            .ok;
    };
    CHECK(ok({0, 5, 2, 0, 1, 2}));
    CHECK(ok({2, 0, 6, 2, 1, 0}));
    CHECK_FALSE(ok({0, 1, 5, 0, 1, 2}));   // 2 is no tie
    CHECK_FALSE(ok({0, 1, 2, 0, 5, 2}));   // no tie in this row
    CHECK_FALSE(ok({0, 2, 2, 0, 1, 2}));   // 2 twice for 1
    CHECK_FALSE(ok({0, 1, 1, 0, 1, 2}));   // a tie is no licence to repeat
    CHECK_FALSE(ok({0, 5, 5, 0, 1, 2}));   // nor for one that is not expected
    CHECK_FALSE(ok({0, 2, 99, 0, 1, 2}));  // beyond the marks
    CHECK_FALSE(ok({0, 2, -3, 0, 1, 2}));
    ties.assign(16, 0xFF);  // marks that the reference did not write are none
    CHECK_FALSE(ok({0, 5, 2, 0, 1, 2}));
}

TEST_CASE("values that belong to indices are compared with their partners", "[referee]") {
    const Task task = every_kind();
    const Axes axes = {{"rows", 300}, {"k", 8}};
    std::vector<std::int64_t> expected_index;
    for (int row = 0; row < 300; ++row) {
        for (int j = 0; j < 8; ++j) expected_index.push_back((row * 7 + j * 13) % 256);
    }
    const std::vector<float> expected = normals(2400, 1);
    // The candidate gives each run backwards.
    std::vector<std::int64_t> index = expected_index;
    std::vector<float> values = expected;
    for (std::ptrdiff_t row = 0; row < 300; ++row) {
        std::reverse(index.begin() + row * 8, index.begin() + row * 8 + 8);
        std::reverse(values.begin() + row * 8, values.begin() + row * 8 + 8);
    }
    const auto verdict = [&] {
        return comparison(task, 2, axes)
            .compare({.found = bytes_of(values),
                      .expected = bytes_of(expected),
                      .found_index = bytes_of(index),
                      .expected_index = bytes_of(expected_index)},
                     "natural");
    };
    CHECK(verdict().ok);
    const std::vector<float> right = values;
    const std::vector<std::int64_t> right_index = index;

    std::swap(values[17], values[18]);  // weights in the wrong places
    OutputError error = verdict();
    CHECK_FALSE(error.ok);
    CHECK(error.first_index == 17);
    values = expected;  // in the reference's order, not in that of its own indices
    CHECK_FALSE(verdict().ok);
    values = right;
    values[2399] = std::numeric_limits<float>::quiet_NaN();
    error = verdict();
    CHECK_FALSE(error.ok);
    CHECK(error.first_index == 2399);
    values = right;
    for (float& v : values) v *= 1.001F;
    CHECK_FALSE(verdict().ok);
    values = right;

    // Rows with other sets are left out, up to one in a hundred.
    for (const std::size_t row : {5, 100, 299}) index[row * 8] = 999;
    CHECK(verdict().ok);
    index[200 * 8] = 999;
    error = verdict();
    CHECK_FALSE(error.ok);
    CHECK(error.mismatches == 4 * 8);
    CHECK_THAT(comparison(task, 2, axes).describe(error), ContainsSubstring("matched by output i"));
    index = right_index;
    index[1] = index[0];  // one index twice has no two partners: its row is left out
    values[0] = values[1] = 0.0F;
    CHECK(verdict().ok);
    std::fill(index.begin(), index.end(), 3);
    CHECK_FALSE(verdict().ok);
}

TEST_CASE("logarithms of sums are compared by their absolute error", "[referee]") {
    const Task task = every_kind();
    std::vector<float> expected = normals(256, 3);
    for (float& v : expected) v = 6.0F + v;
    expected[7] = -std::numeric_limits<float>::infinity();
    expected[8] = 0.0F;
    std::vector<float> found = expected;
    const auto verdict = [&] {
        return comparison(task, 3, {{"rows", 256}})
            .compare({.found = bytes_of(found), .expected = bytes_of(expected)}, "natural");
    };
    CHECK(verdict().ok);
    for (float& v : found) v = std::nextafter(v, 100.0F);
    found[7] = expected[7];
    found[8] = 1e-6F;
    CHECK(verdict().ok);

    found = expected;
    found[7] = std::numeric_limits<float>::infinity();
    CHECK_FALSE(verdict().ok);
    CHECK(verdict().first_index == 7);
    found[7] = -3e38F;  // a large number is no infinity
    CHECK_FALSE(verdict().ok);
    found = expected;
    found[9] = -std::numeric_limits<float>::infinity();
    CHECK_FALSE(verdict().ok);
    found = expected;
    found[8] = 3e-3F;  // 0.2 % of the sum
    CHECK_FALSE(verdict().ok);
    found = expected;
    for (float& v : found) v += 1e-3F;
    CHECK_FALSE(verdict().ok);
    found = expected;
    for (float& v : found) v *= 0.6931472F;  // the other base
    CHECK_FALSE(verdict().ok);
    found = expected;
    found[100] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(verdict().ok);
    // Large logarithms have the rounding of their size.
    expected.assign(256, 9000.0F);
    found.assign(256, 9000.004F);
    CHECK(verdict().ok);
    found.assign(256, 9001.0F);
    CHECK_FALSE(verdict().ok);
}

TEST_CASE("each segment of a ragged output is judged by its own scale", "[referee]") {
    const Task task = every_kind();
    const Axes axes = {{"rows", 1000}, {"d", 64}, {"starts", 6}};
    const std::vector<std::int32_t> offsets = {0, 1, 1, 400, 410, 900};
    const std::vector<float> drawn = normals(64000, 4);
    std::vector<double> expected(drawn.begin(), drawn.end());
    // One short segment is small; what lies behind the last one is arbitrary.
    for (std::size_t i = 400 * 64; i < 410 * 64; ++i) expected[i] *= 1e-3;
    const auto rounded = [](const std::vector<double>& values) {
        std::vector<std::byte> bytes(values.size() * 2);
        for (std::size_t i = 0; i < values.size(); ++i) {
            store_element(DType::bfloat16, values[i], std::span(bytes).subspan(2 * i, 2));
        }
        return bytes;
    };
    std::vector<double> found = expected;
    const auto verdict = [&] {
        return comparison(task, 0, axes)
            .compare({.found = rounded(found),
                      .expected = rounded(expected),
                      .offsets = bytes_of(offsets)},
                     "natural");
    };
    CHECK(verdict().ok);
    for (std::size_t i = 900 * 64; i < found.size(); ++i) found[i] = not_a_number;
    CHECK(verdict().ok);
    found[900 * 64 - 1] = not_a_number;
    CHECK_FALSE(verdict().ok);
    found = expected;
    found[0] = not_a_number;
    CHECK_FALSE(verdict().ok);
    found = expected;
    for (std::size_t i = 400 * 64; i < 410 * 64; ++i) found[i] *= 1.05;  // 5e-6 of the whole
    const OutputError error = verdict();
    CHECK_FALSE(error.ok);
    CHECK(error.normalised_rms < 1e-4);
    CHECK(error.max_tile_rms > 0.04);

    // Long segments are cut into tiles of at least 16384 elements; no tile spans two segments.
    const auto starts = comparison(task, 0, axes).tile_starts(bytes_of(offsets));
    CHECK(starts == std::vector<std::uint64_t>{0, 64, 25600, 26240, 57600});
    const std::vector<std::int32_t> longer = {0, 1, 1, 400, 410, 1000};
    CHECK(comparison(task, 0, axes).tile_starts(bytes_of(longer)) ==
          std::vector<std::uint64_t>{0, 64, 25600, 26240, 42624, 64000});
    CHECK(comparison(task, 0, axes).parameters().tiles >= starts.size() - 1);
    const auto fails = [&](std::vector<std::int32_t> changed) {
        return test::error_of(
                   [&] { (void)comparison(task, 0, axes).tile_starts(bytes_of(changed)); })
            .value_or("accepted");
    };
    CHECK_THAT(fails({0, 1, 0, 400, 410, 900}), ContainsSubstring("segment 1 from row 1 to 0"));
    CHECK_THAT(fails({0, 1, 1, 400, 410, 1001}), ContainsSubstring("is not one of 1000 rows"));
    CHECK_THAT(fails({3, 4, 5, 400, 410, 900}), ContainsSubstring("segment 0 from row 3"));
    CHECK_THAT(fails({0, 1}), ContainsSubstring("expected 6 offsets"));
}

namespace {

/// Rows of probabilities exp(2 z), some of them zero, and samplers of them.
struct Distributions {
    std::size_t rows;
    std::size_t n;
    std::vector<float> p;

    Distributions(std::size_t row_count, std::size_t values, std::uint64_t seed)
        : rows(row_count), n(values), p(normals(row_count * values, seed)) {
        for (std::size_t i = 0; i < p.size(); ++i) {
            p[i] = i % 7 == 3 ? 0.0F : std::exp(2.0F * p[i]);
        }
    }
    [[nodiscard]] std::int32_t drawn(std::size_t row, double u,
                                     const std::function<double(double)>& change) const {
        const auto weight = [&](std::size_t i) { return change(p[row * n + i]); };
        double total = 0;
        for (std::size_t i = 0; i < n; ++i) total += weight(i);
        double left = u * total;
        for (std::size_t i = 0; i < n; ++i) {
            left -= weight(i);
            if (left < 0) return static_cast<std::int32_t>(i);
        }
        return static_cast<std::int32_t>(n - 1);
    }
};

using Sampler =
    std::function<std::int32_t(const Distributions&, std::size_t row, std::uint32_t trial)>;

/// Verdicts of `trials` calls, the last one.
OutputError judged(const Sampler& sampler, std::size_t rows, int trials) {
    const Task task = every_kind();
    OutputComparison compare = comparison(task, 4, {{"rows", static_cast<std::int64_t>(rows)}});
    OutputError last;
    for (int trial = 0; trial < trials; ++trial) {
        const Distributions d(rows, 100, static_cast<std::uint64_t>(trial) + 1);
        std::vector<std::int32_t> found;
        for (std::size_t row = 0; row < rows; ++row) {
            found.push_back(sampler(d, row, static_cast<std::uint32_t>(trial)));
        }
        const std::vector<std::int32_t> expected(rows, 0);
        last = compare.compare(
            {.found = bytes_of(found), .expected = bytes_of(expected), .workspace = bytes_of(d.p)},
            "natural");
        if (!last.ok) {
            CHECK_THAT(compare.describe(last), ContainsSubstring("output s: "));
            return last;
        }
    }
    return last;
}

double same(double p) {
    return p;
}

}  // namespace

TEST_CASE("an honest sampler passes and biased, constant and greedy ones do not", "[referee]") {
    const auto honest = [](const Distributions& d, std::size_t row, std::uint32_t trial) {
        return d.drawn(row, uniform(static_cast<std::uint32_t>(row), trial), same);
    };
    CHECK(judged(honest, 512, 12).ok);
    CHECK(judged(honest, 1, 12).ok);
    const auto greedy = [](const Distributions& d, std::size_t row, std::uint32_t) {
        const auto begin = d.p.begin() + static_cast<std::ptrdiff_t>(row * d.n);
        return static_cast<std::int32_t>(std::max_element(begin, begin + 100) - begin);
    };
    CHECK_FALSE(judged(greedy, 64, 1).ok);
    const auto constant = [](const Distributions&, std::size_t, std::uint32_t) { return 4; };
    CHECK_FALSE(judged(constant, 64, 1).ok);
    const auto indifferent = [](const Distributions& d, std::size_t row, std::uint32_t trial) {
        return d.drawn(row, uniform(static_cast<std::uint32_t>(row), trial),
                       [](double p) { return p > 0 ? 1.0 : 0.0; });
    };
    CHECK_FALSE(judged(indifferent, 64, 1).ok);
    const auto sharpened = [](const Distributions& d, std::size_t row, std::uint32_t trial) {
        return d.drawn(row, uniform(static_cast<std::uint32_t>(row), trial),
                       [](double p) { return p * p; });
    };
    CHECK_FALSE(judged(sharpened, 512, 1).ok);
    const auto one_word = [](const Distributions& d, std::size_t row, std::uint32_t) {
        return d.drawn(row, 0.4, same);  // the same random number in every row
    };
    CHECK_FALSE(judged(one_word, 512, 1).ok);
    const auto first_half = [](const Distributions& d, std::size_t row, std::uint32_t trial) {
        return d.drawn(row, 0.5 * uniform(static_cast<std::uint32_t>(row), trial), same);
    };
    CHECK_FALSE(judged(first_half, 64, 1).ok);
}

TEST_CASE("a bias too small for one call shows in all of them together", "[referee]") {
    const auto slightly = [](const Distributions& d, std::size_t row, std::uint32_t trial) {
        return d.drawn(row, 0.86 * uniform(static_cast<std::uint32_t>(row), trial), same);
    };
    CHECK(judged(slightly, 256, 1).ok);
    const OutputError error = judged(slightly, 256, 12);
    CHECK_FALSE(error.ok);
    CHECK(error.normalised_rms <= error.rms_limit);
    CHECK(error.max_tile_rms > error.tile_limit);
}

TEST_CASE("the same samples on the same inputs count once", "[referee]") {
    // One call whose distance is more than half its limit would exceed that of ten such calls.
    const Task task = every_kind();
    OutputComparison compare = comparison(task, 4, {{"rows", 64}});
    const Distributions d(64, 100, 1);
    std::vector<std::int32_t> found;
    for (std::size_t row = 0; row < 64; ++row) {
        found.push_back(d.drawn(row, 0.8 * uniform(static_cast<std::uint32_t>(row), 0), same));
    }
    for (int call = 0; call < 10; ++call) {
        const OutputError error = compare.compare(
            {.found = bytes_of(found), .expected = bytes_of(found), .workspace = bytes_of(d.p)},
            "");
        CHECK(error.ok);
        CHECK(error.tile_limit == uniform_distance_limit(64));
        CHECK(error.max_tile_rms > uniform_distance_limit(640));
    }
}

TEST_CASE("a sample without probability or outside the values fails at once", "[referee]") {
    for (const std::int32_t sample : {3, -1, 100, 2000000000}) {
        const auto wrong = [&](const Distributions& d, std::size_t row, std::uint32_t trial) {
            if (row == 70) return sample;
            return d.drawn(row, uniform(static_cast<std::uint32_t>(row), trial), same);
        };
        const OutputError error = judged(wrong, 512, 1);
        CHECK_FALSE(error.ok);
        CHECK(error.mismatches == 1);
        CHECK(error.first_index == 70);
    }
}

TEST_CASE("the limit on uniformity is kept by uniform values of any number", "[referee]") {
    CHECK(uniform_distance_limit(64) == Approx(std::sqrt(std::log(2e6) / 128.0)));
    int beyond = 0;
    for (std::uint32_t run = 0; run < 300; ++run) {
        std::vector<double> values;
        for (std::uint32_t i = 0; i <= run; ++i) values.push_back(uniform(i, 1000 + run));
        beyond += distance_from_uniform(values) > uniform_distance_limit(values.size()) ? 1 : 0;
    }
    CHECK(beyond == 0);
    CHECK(distance_from_uniform({}) == 0.0);
    CHECK(distance_from_uniform({0.5}) == Approx(0.5));
    CHECK(distance_from_uniform(std::vector<double>(100, 0.25)) == Approx(0.75));
}

TEST_CASE("buffers of a wrong size and references that make no sense are errors", "[referee]") {
    const Task task = every_kind();
    const std::vector<std::int32_t> two = {0, 0};
    const auto fails = [&](std::size_t output, const Axes& axes, const ComparisonBuffers& buffers) {
        return test::error_of([&] { (void)comparison(task, output, axes).compare(buffers, ""); })
            .value_or("accepted");
    };
    const std::vector<float> p = {0.5F, 0.5F, 0.0F, 0.0F};
    const std::vector<float> nan = {0.5F, std::numeric_limits<float>::quiet_NaN(), 1.0F, 1.0F};
    const std::vector<float> odd = {1.0F, 1.0F, 1.0F};
    CHECK_THAT(fails(4, {{"rows", 3}}, {.found = bytes_of(two), .expected = bytes_of(two)}),
               ContainsSubstring("expected 12 bytes of the output, found 8"));
    CHECK_THAT(
        fails(4, {{"rows", 2}},
              {.found = bytes_of(two), .expected = bytes_of(two), .workspace = bytes_of(odd)}),
        ContainsSubstring("expected workspace p to hold 2 equal rows, found 12 bytes"));
    CHECK_THAT(
        fails(4, {{"rows", 2}},
              {.found = bytes_of(two), .expected = bytes_of(two), .workspace = bytes_of(nan)}),
        ContainsSubstring("the reference's probability of value 1 is nan"));
    CHECK(fails(4, {{"rows", 2}},
                {.found = bytes_of(two), .expected = bytes_of(two), .workspace = bytes_of(p)}) ==
          "accepted");
    CHECK_THAT(fails(5, {{"rows", 2}}, {.found = bytes_of(two), .expected = bytes_of(two)}),
               ContainsSubstring("a comparator plugin compares it"));
    CHECK_THAT(test::error_of([&] {
                   (void)comparison(task, 0, {{"rows", 2}});
               }).value_or(""),
               ContainsSubstring("axis d"));
}
