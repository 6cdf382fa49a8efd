// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/matrix_load.hpp"
#include "emulator/pure_ops.hpp"
#include "support/catch.hpp"
#include "unit/emulator_matrix.hpp"

using namespace kernelforge::emulator;
using namespace kernelforge::test;

namespace {

struct Place2 {
    int row, column;
};

// The formulas of the PTX ISA's sections "Matrix Fragments for mma.…", element by element. `g` is
// the lane's group, lane / 4; `t` its place there, lane % 4. `i` counts elements of a fragment.
Place2 place_a(const std::string& shape, int element_bits, int lane, int i) {
    const int g = lane / 4, t = lane % 4;
    if (element_bits == 64) {
        if (shape == "m8n8k4") return {g, t};
        return {i % 2 == 0 ? g : g + 8, i / 2 * 4 + t};
    }
    if (element_bits == 32) {
        if (shape == "m16n8k4") return {i == 0 ? g : g + 8, t};
        return {i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
    }
    if (element_bits == 16) {
        if (shape == "m16n8k8") return {i < 2 ? g : g + 8, t * 2 + (i & 1)};
        const bool upper = i < 2 || (i >= 4 && i < 6);
        return {upper ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
    }
    if (element_bits == 8) {
        if (shape == "m8n8k16") return {g, t * 4 + i};
        if (shape == "m16n8k16") return {i < 4 ? g : g + 8, t * 4 + (i & 3)};
        const bool upper = i < 4 || (i >= 8 && i < 12);
        return {upper ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
    }
    if (element_bits == 4) {
        if (shape == "m8n8k32") return {g, t * 8 + i};
        if (shape == "m16n8k32") return {i < 8 ? g : g + 8, t * 8 + (i & 7)};
        const bool upper = i < 8 || (i >= 16 && i < 24);
        return {upper ? g : g + 8, t * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
    }
    if (shape == "m8n8k128") return {g, t * 32 + i};
    if (shape == "m16n8k128") return {i < 32 ? g : g + 8, t * 32 + (i & 31)};
    const bool upper = i < 32 || (i >= 64 && i < 96);
    return {upper ? g : g + 8, t * 32 + (i & 31) + (i >= 64 ? 128 : 0)};
}

Place2 place_b(int element_bits, int lane, int i) {
    const int g = lane / 4, t = lane % 4;
    switch (element_bits) {
        case 64:
        case 32:
            return {t + 4 * i, g};
        case 16:
            return {t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g};
        case 8:
            return {t * 4 + (i & 3) + (i >= 4 ? 16 : 0), g};
        case 4:
            return {t * 8 + (i & 7) + (i >= 8 ? 32 : 0), g};
        default:
            return {t * 32 + (i & 31) + (i >= 32 ? 128 : 0), g};
    }
}

Place2 place_d(int lane, int i) {
    return {lane / 4 + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}

struct Case {
    std::string shape, d, a, b;
    bool saturate = false;
    std::string bits;  // "xor", "and"
};

struct Sizes {
    int m = 0, n = 0, k = 0;
};
Sizes sizes_of(const std::string& shape) {
    Sizes sizes;
    REQUIRE(std::sscanf(shape.c_str(), "m%dn%dk%d", &sizes.m, &sizes.n, &sizes.k) == 3);
    return sizes;
}

// Runs one instruction on random operands. Registers: D, A, B, C, each from a row of its own.
class Trial {
  public:
    Trial(const Case& form, Isa isa, unsigned seed) : form_(form), sizes_(sizes_of(form.shape)) {
        std::mt19937 random(seed);
        const Sizes& s = sizes_;
        a_.resize(static_cast<std::size_t>(s.m * s.k));
        b_.resize(static_cast<std::size_t>(s.k * s.n));
        c_.resize(static_cast<std::size_t>(s.m * s.n));
        for (auto& code : a_) code = random_code(form.a, random);
        for (auto& code : b_) code = random_code(form.b, random);
        for (auto& code : c_) code = random_code(form.d, random);
        if (form.d == "s32") {  // many near the ends, where saturation tells
            for (std::size_t i = 0; i < c_.size(); i += 2) {
                c_[i] = (i % 4 == 0 ? 0x7fff'ffffU - 40U : 0x8000'0028U);
            }
        }
        const int wide = form.d == "f64" ? 2 : 1;
        const int bits = element_bits(form.a), bits_d = element_bits(form.d);
        a_registers_ = s.m * s.k * bits / (1024 * wide);
        b_registers_ = s.k * s.n * bits / (1024 * wide);
        d_registers_ = s.m * s.n * bits_d / (1024 * wide);
        place_operands();
        const std::vector<int> counts{d_registers_, a_registers_, b_registers_, d_registers_};
        std::vector<std::string> modifiers{"sync", "aligned", form.shape, "row", "col"};
        if (form.saturate) modifiers.emplace_back("satfinite");
        for (const auto& type : {form.d, form.a, form.b, form.d}) modifiers.push_back(type);
        if (!form.bits.empty()) {
            modifiers.push_back(form.bits);
            modifiers.emplace_back("popc");
        }
        const auto op = find_mma(make_instruction("mma", modifiers, counts), isa);
        REQUIRE(op.has_value());
        CHECK(op->destinations == d_registers_);
        CHECK(op->whole_warp);
        CHECK(op->rows.size() ==
              static_cast<std::size_t>(2 * d_registers_ + a_registers_ + b_registers_));
        std::vector<RowRef> operands;
        for (int i = 0; i < d_registers_; ++i) operands.push_back(frame_.row(i));
        for (int i = 0; i < a_registers_; ++i) operands.push_back(frame_.row(16 + i));
        for (int i = 0; i < b_registers_; ++i) operands.push_back(frame_.row(32 + i));
        for (int i = 0; i < d_registers_; ++i) operands.push_back(frame_.row(48 + i));
        op->run(frame_.rows(), operands.data(), all_lanes);
    }

    [[nodiscard]] std::uint64_t result(int row, int column) {
        const int bits = element_bits(form_.d);
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < sizes_.m / 4; ++i) {
                const Place2 place = place_d(lane, i);
                if (place.row != row || place.column != column) continue;
                return frame_.element(0, lane, i, bits);
            }
        }
        FAIL("no lane has it");
        return 0;
    }
    // Exact for these operands but for long double's rounding.
    [[nodiscard]] long double expected(int row, int column, long double* magnitude) const {
        long double sum = value_of(form_.d, c_[at(row, column, sizes_.n)]);
        *magnitude = std::abs(sum);
        for (int k = 0; k < sizes_.k; ++k) {
            const auto left = a_[at(row, k, sizes_.k)], right = b_[at(k, column, sizes_.n)];
            long double product = 0;
            if (form_.bits.empty()) {
                product =
                    static_cast<long double>(value_of(form_.a, left)) * value_of(form_.b, right);
            } else {
                product = static_cast<int>(form_.bits == "xor" ? left ^ right : left & right);
            }
            sum += product;
            *magnitude += std::abs(product);
        }
        return sum;
    }
    [[nodiscard]] const Sizes& sizes() const { return sizes_; }

  private:
    static std::size_t at(int row, int column, int width) {
        return static_cast<std::size_t>(row * width + column);
    }
    void place_operands() {
        const int bits = element_bits(form_.a), bits_d = element_bits(form_.d);
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < sizes_.m * sizes_.k / 32; ++i) {
                const Place2 p = place_a(form_.shape, bits, lane, i);
                frame_.set_element(16, lane, i, bits, a_.at(at(p.row, p.column, sizes_.k)));
            }
            for (int i = 0; i < sizes_.k * sizes_.n / 32; ++i) {
                const Place2 p = place_b(bits, lane, i);
                frame_.set_element(32, lane, i, bits, b_.at(at(p.row, p.column, sizes_.n)));
            }
            for (int i = 0; i < sizes_.m * sizes_.n / 32; ++i) {
                const Place2 p = place_d(lane, i);
                frame_.set_element(48, lane, i, bits_d, c_.at(at(p.row, p.column, sizes_.n)));
            }
        }
    }

    Case form_;
    Sizes sizes_;
    std::vector<std::uint64_t> a_, b_, c_;
    int a_registers_ = 0, b_registers_ = 0, d_registers_ = 0;
    Frame frame_;
};

// Sums in double are within 2^-48 of their terms' magnitudes; then comes one rounding.
void check(const Case& form) {
    CAPTURE(form.shape, form.d, form.a, form.b, form.saturate, form.bits);
    for (unsigned seed = 1; seed <= 3; ++seed) {
        Trial portable(form, Isa::portable, seed);
        Trial vector(form, best_isa_here(), seed);
        for (int row = 0; row < portable.sizes().m; ++row) {
            for (int column = 0; column < 8; ++column) {
                CAPTURE(row, column);
                long double magnitude = 0;
                const long double expected = portable.expected(row, column, &magnitude);
                const std::uint64_t found = portable.result(row, column);
                REQUIRE(vector.result(row, column) == found);
                if (form.d == "s32") {
                    auto whole = static_cast<std::int64_t>(expected);
                    if (form.saturate) {
                        whole = std::clamp<std::int64_t>(whole, INT32_MIN, INT32_MAX);
                    }
                    REQUIRE(found == static_cast<std::uint32_t>(whole));
                    continue;
                }
                const int precision = form.d == "f16" ? 11 : form.d == "f32" ? 24 : 53;
                const long double tolerance = std::ldexp(std::abs(expected), -precision) +
                                              std::ldexp(magnitude, form.d == "f64" ? -50 : -48) +
                                              (form.d == "f16" ? 0x1p-25L : 0.0L);
                REQUIRE(std::abs(value_of(form.d, found) - expected) <= tolerance);
            }
        }
    }
}

}  // namespace

TEST_CASE("mma of 16-bit and 32-bit floats multiplies by the fragments of the ISA", "[emulator]") {
    for (const std::string shape : {"m16n8k8", "m16n8k16"}) {
        check({shape, "f16", "f16", "f16"});
        check({shape, "f32", "f16", "f16"});
        check({shape, "f32", "bf16", "bf16"});
    }
    check({"m16n8k4", "f32", "tf32", "tf32"});
    check({"m16n8k8", "f32", "tf32", "tf32"});
}

TEST_CASE("mma of f64 multiplies by the fragments of the ISA", "[emulator]") {
    for (const std::string shape : {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"}) {
        check({shape, "f64", "f64", "f64"});
    }
}

TEST_CASE("mma of 8-bit floats multiplies by the fragments of the ISA", "[emulator]") {
    for (const std::string shape : {"m16n8k16", "m16n8k32"}) {
        for (const std::string a : {"e4m3", "e5m2"}) {
            for (const std::string b : {"e4m3", "e5m2"}) {
                check({shape, "f32", a, b});
                check({shape, "f16", a, b});
            }
        }
    }
}

TEST_CASE("mma of integers wraps or saturates", "[emulator]") {
    for (const bool saturate : {false, true}) {
        for (const std::string shape : {"m8n8k16", "m16n8k16", "m16n8k32"}) {
            for (const std::string a : {"s8", "u8"}) {
                for (const std::string b : {"s8", "u8"}) check({shape, "s32", a, b, saturate});
            }
        }
        for (const std::string shape : {"m8n8k32", "m16n8k32", "m16n8k64"}) {
            for (const std::string a : {"s4", "u4"}) {
                for (const std::string b : {"s4", "u4"}) check({shape, "s32", a, b, saturate});
            }
        }
    }
    for (const std::string shape : {"m8n8k128", "m16n8k128", "m16n8k256"}) {
        check({shape, "s32", "b1", "b1", false, "xor"});
        check({shape, "s32", "b1", "b1", false, "and"});
    }
}

TEST_CASE("ldmatrix loads what mma multiplies", "[emulator]") {
    // A row-major [16][16]; B row-major [16][8], which takes .trans.
    std::mt19937 random(5);
    std::array<std::array<std::uint16_t, 16>, 16> a{};
    std::array<std::array<std::uint16_t, 8>, 16> b{};
    for (auto& row : a) {
        for (auto& code : row) code = static_cast<std::uint16_t>(random_code("f16", random));
    }
    for (auto& row : b) {
        for (auto& code : row) code = static_cast<std::uint16_t>(random_code("f16", random));
    }
    std::array<const std::byte*, 32> rows_a{}, rows_b{};
    for (std::size_t lane = 0; lane < 32; ++lane) {
        rows_a[lane] = reinterpret_cast<const std::byte*>(&a[lane % 16][lane / 16 * 8]);
        rows_b[lane] = reinterpret_cast<const std::byte*>(&b[lane % 16][0]);
    }
    Frame frame;
    std::vector<RowRef> operands;
    for (int i = 0; i < 14; ++i) operands.push_back(frame.row(i));
    MatrixOp load;
    load.count = 4;
    load_matrices(load, frame.rows(), operands.data() + 4, rows_a.data());
    load.count = 2;
    load.transposed = true;
    load_matrices(load, frame.rows(), operands.data() + 8, rows_b.data());
    const auto op = find_mma(
        make_instruction("mma",
                         {"sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32"},
                         {4, 4, 2, 4}),
        best_isa_here());
    op->run(frame.rows(), operands.data(), all_lanes);
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
            const Place2 place = place_d(lane, i);
            double sum = 0;
            for (std::size_t k = 0; k < 16; ++k) {
                sum += value_of("f16", a[static_cast<std::size_t>(place.row)][k]) *
                       value_of("f16", b[k][static_cast<std::size_t>(place.column)]);
            }
            REQUIRE(value_of("f32", frame.element(0, lane, i, 32)) ==
                    static_cast<double>(static_cast<float>(sum)));
        }
    }
}

TEST_CASE("mma leaves lanes outside of its mask and may overwrite its operands", "[emulator]") {
    const auto op = find_mma(
        make_instruction("mma",
                         {"sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32"},
                         {4, 4, 2, 4}),
        best_isa_here());
    REQUIRE(op.has_value());
    Frame frame;
    for (int i = 0; i < 10; ++i) {
        for (int lane = 0; lane < 32; ++lane) frame.words(i)[lane] = i < 6 ? 0x3c00'3c00U : 0U;
    }
    // D is A's rows; C is zero. Every element of the product of ones is 16.
    const std::array<RowRef, 14> operands{frame.row(0), frame.row(1), frame.row(2), frame.row(3),
                                          frame.row(0), frame.row(1), frame.row(2), frame.row(3),
                                          frame.row(4), frame.row(5), frame.row(6), frame.row(7),
                                          frame.row(8), frame.row(9)};
    op->run(frame.rows(), operands.data(), 0x0000'ffffU);
    for (int i = 0; i < 4; ++i) {
        CHECK(frame.words(i)[0] == std::bit_cast<std::uint32_t>(16.0F));
        CHECK(frame.words(i)[15] == std::bit_cast<std::uint32_t>(16.0F));
        CHECK(frame.words(i)[16] == 0x3c00'3c00U);
    }
}

TEST_CASE("mma makes canonical NaNs and keeps infinities", "[emulator]") {
    for (const Isa isa : {Isa::portable, best_isa_here()}) {
        for (const std::string d : {"f32", "f16"}) {
            const int count = d == "f32" ? 4 : 2;
            const auto op = find_mma(
                make_instruction("mma",
                                 {"sync", "aligned", "m16n8k16", "row", "col", d, "f16", "f16", d},
                                 {count, 4, 2, count}),
                isa);
            Frame frame;
            std::vector<RowRef> operands;
            for (int i = 0; i < 6 + 2 * count; ++i) operands.push_back(frame.row(i));
            frame.set_element(count, 0, 0, 16, 0x7c00);      // A[0][0] = inf
            frame.set_element(count, 4, 0, 16, 0xfc00);      // A[1][0] = -inf
            frame.set_element(count + 4, 0, 0, 16, 0x3c00);  // B[0][0] = 1, the others 0
            op->run(frame.rows(), operands.data(), all_lanes);
            const int bits = d == "f32" ? 32 : 16;
            CHECK(frame.element(0, 0, 0, bits) == (d == "f32" ? 0x7f80'0000U : 0x7c00U));
            CHECK(frame.element(0, 4, 0, bits) == (d == "f32" ? 0xff80'0000U : 0xfc00U));
            CHECK(frame.element(0, 0, 1, bits) == (d == "f32" ? 0x7fff'ffffU : 0x7fffU));
            CHECK(frame.element(0, 8, 0, bits) == 0);
        }
    }
}

TEST_CASE("wmma.mma multiplies matrices that any one assignment to lanes gives", "[emulator]") {
    // Ones and one accumulator of 0.5 each: the layout cannot matter.
    for (const std::string shape : {"m16n16k16", "m32n8k16", "m8n32k16"}) {
        for (const std::string c : {"f16", "f32"}) {
            for (const std::string d : {"f16", "f32"}) {
                CAPTURE(shape, c, d);
                const int count_d = d == "f32" ? 8 : 4, count_c = c == "f32" ? 8 : 4;
                const auto op = find_mma(
                    make_instruction("wmma", {"mma", "sync", "aligned", "row", "col", shape, d, c},
                                     {count_d, 8, 8, count_c}),
                    best_isa_here());
                REQUIRE(op.has_value());
                Frame frame;
                std::vector<RowRef> operands;
                for (int i = 0; i < 16 + count_c + count_d; ++i) {
                    operands.push_back(frame.row(i));
                    const std::uint32_t word = i < count_d + 16 ? 0x3c00'3c00U
                                               : c == "f16"     ? 0x3800'3800U
                                                                : 0x3f00'0000U;
                    for (int lane = 0; lane < 32; ++lane) frame.words(i)[lane] = word;
                }
                op->run(frame.rows(), operands.data(), all_lanes);
                for (int i = 0; i < count_d; ++i) {
                    for (int lane = 0; lane < 32; ++lane) {
                        const std::uint32_t word = d == "f32" ? 0x4184'0000U : 0x4c20'4c20U;
                        REQUIRE(frame.words(i)[lane] == word);
                    }
                }
            }
        }
    }
}

TEST_CASE("forms of mma that are not emulated are refused by name", "[emulator]") {
    const auto message = [](const std::vector<std::string>& modifiers,
                            const std::vector<int>& counts) -> std::string {
        try {
            static_cast<void>(find_mma(make_instruction("mma", modifiers, counts), Isa::portable));
        } catch (const PtxError& error) {
            return error.what();
        }
        return "";
    };
    CHECK_THAT(message({"sync", "aligned", "m8n8k4", "row", "col", "f32", "f16", "f16", "f32"},
                       {8, 2, 2, 8}),
               ContainsSubstring("sm_70"));
    CHECK_THAT(
        message({"sp", "sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32"},
                {4, 2, 2, 4, 1, 1}),
        ContainsSubstring(".sp "));
    CHECK_THAT(message({"sync", "aligned", "kind::f8f6f4", "m16n8k32", "row", "col", "f32", "e2m1",
                        "e2m1", "f32"},
                       {4, 4, 2, 4}),
               ContainsSubstring("kind::f8f6f4"));
    CHECK_THAT(message({"sync", "aligned", "m16n8k32", "row", "col", "f32", "bf16", "bf16", "f32"},
                       {4, 4, 2, 4}),
               ContainsSubstring("combination"));
    CHECK_THAT(message({"sync", "aligned", "m16n8k16", "row", "col", "f32", "bf16", "bf16", "f32"},
                       {4, 2, 2, 4}),
               ContainsSubstring("4, 4, 2 and 4 registers"));
    CHECK_THAT(message({"sync", "aligned", "m16n8k16", "col", "col", "f32", "bf16", "bf16", "f32"},
                       {4, 4, 2, 4}),
               ContainsSubstring(".row.col"));
    CHECK_THAT(message({"sync", "aligned"}, {4, 4, 2, 4}), ContainsSubstring("no shape"));
    CHECK_FALSE(find_mma(make_instruction("add", {"f32"}, {1, 1, 1}), Isa::portable).has_value());
    CHECK_FALSE(find_mma(make_instruction("wmma", {"load"}, {8, 1}), Isa::portable).has_value());
}
