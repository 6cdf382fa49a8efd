// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "emulator/async_tensor.hpp"
#include "emulator/matrix_fragment.hpp"
#include "emulator/matrix_wgmma.hpp"
#include "support/catch.hpp"
#include "unit/emulator_matrix.hpp"

using namespace kernelforge::emulator;
using namespace kernelforge::test;

namespace {

Type type_of(const std::string& name) {
    if (name == "f16") return Type::f16;
    if (name == "bf16") return Type::bf16;
    if (name == "tf32") return Type::tf32;
    if (name == "e4m3") return Type::e4m3;
    if (name == "e5m2") return Type::e5m2;
    if (name == "s8") return Type::s8;
    if (name == "u8") return Type::u8;
    if (name == "s32") return Type::s32;
    if (name == "f64") return Type::f64;
    return Type::f32;
}

// A matrix [lines, depth] as kernels lay it out: a line is a row of A or a column of B. Swizzles
// are written with indices (line or k modulo 8), as in the candidates of linear_residual, and not
// with addresses.
struct Operand2 {
    std::string type = "f16";
    int lines = 64, depth = 16;
    int swizzle = 128;  // bytes
    bool transposed = false;
    std::uint32_t base = 1024;
    std::vector<std::uint64_t> codes;

    [[nodiscard]] int size() const { return element_bits(type) / 8; }
    [[nodiscard]] std::uint64_t code(int line, int k) const {
        return codes[static_cast<std::size_t>(line * depth + k)];
    }
    [[nodiscard]] std::vector<double> values() const {
        std::vector<double> result;
        for (const std::uint64_t bits : codes) result.push_back(value_of(type, bits));
        return result;
    }

    // K-major: rows of `swizzle` bytes hold that much of K, a tile of all lines for each further
    // part. MN-major: rows of `swizzle` bytes hold lines of one k, a tile of all k for each part.
    [[nodiscard]] std::uint32_t offset(int line, int k) const {
        const int across = transposed ? line : k;  // along the row in memory
        const int down = transposed ? k : line;    // from row to row
        const int rows = transposed ? depth : lines;
        const int width = swizzle == 0 ? 16 : swizzle;
        const int tile = across * size() / width;
        const int byte = across * size() % width;
        const int chunk = byte / 16;
        const int turn = swizzle == 128 ? down % 8 : swizzle == 64 ? down % 8 / 2 : down % 8 / 4;
        const int moved = swizzle == 0 ? chunk : chunk ^ turn;
        return base + static_cast<std::uint32_t>(tile * rows * width + down * width + moved * 16 +
                                                 byte % 16);
    }
    // For step `step` of 32 bytes of K.
    [[nodiscard]] std::uint64_t descriptor(int step) const {
        const int width = swizzle == 0 ? 16 : swizzle;
        const int rows = transposed ? depth : lines;
        const int per_step = 32 / size();
        std::uint32_t start = base, leading = 16, stride = static_cast<std::uint32_t>(8 * width);
        const auto tile = static_cast<std::uint32_t>(rows * width);
        if (transposed) {
            start += static_cast<std::uint32_t>(step * per_step * width);
            leading = tile;
            // Without swizzle the two change places.
            if (swizzle == 0) std::swap(leading, stride);
        } else if (swizzle == 0) {
            start += static_cast<std::uint32_t>(2 * step) * tile;
            leading = tile;
        } else {
            start += static_cast<std::uint32_t>(step * 32 / width) * tile +
                     static_cast<std::uint32_t>(step * 32 % width);
        }
        const std::uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
        return start >> 4 | std::uint64_t{leading >> 4} << 16 | std::uint64_t{stride >> 4} << 32 |
               mode << 62;
    }
    void write(std::vector<std::byte>& shared) const {
        for (int line = 0; line < lines; ++line) {
            for (int k = 0; k < depth; ++k) {
                const std::uint64_t bits = code(line, k);
                std::memcpy(shared.data() + offset(line, k), &bits,
                            static_cast<std::size_t>(size()));
            }
        }
    }
};

struct Trial {
    std::string d = "f32";
    Operand2 a, b;
    int steps = 1;
    bool a_in_registers = false;
    int scale_a = 1, scale_b = 1;
    bool accumulates = true;
    bool saturate = false;
};

MatrixOp make_op(const Trial& trial) {
    MatrixOp op;
    op.what = MatrixOp::What::wgmma;
    op.n = trial.b.lines;
    op.k = 32 / trial.a.size();
    op.a = type_of(trial.a.type);
    op.b = type_of(trial.b.type);
    op.d = type_of(trial.d);
    op.a_in_registers = trial.a_in_registers;
    op.scale_a = trial.scale_a;
    op.scale_b = trial.scale_b;
    op.transposed_a = trial.a.transposed;
    op.transposed_b = trial.b.transposed;
    op.destinations = op.n * element_bits(trial.d) / 64;
    op.saturate = trial.saturate;
    return op;
}

// Element (row, column) of D is element `i` of the lane's registers: "Register Fragments" of
// wgmma, accumulator D.
struct D {
    int warp, lane, i;
};
D place_d(int row, int column) {
    return {row / 16, row % 8 * 4 + column % 8 / 2, column / 8 * 4 + row % 16 / 8 * 2 + column % 2};
}
// A in registers, for elements of `size` bytes.
void place_a(Frame& frame, int first, const Operand2& a, int warp, int step) {
    const int each = 4 / a.size(), per_step = 32 / a.size();
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4 * each; ++i) {
            const int reg = i / each;
            const int row = warp * 16 + lane / 4 + reg % 2 * 8;
            const int k = lane % 4 * each + i % each + reg / 2 * per_step / 2;
            frame.set_element(first, lane, i, 8 * a.size(), a.code(row, step * per_step + k));
        }
    }
}

void run(Trial trial, unsigned seed) {
    CAPTURE(trial.d, trial.a.type, trial.b.type, trial.a.swizzle, trial.b.swizzle,
            trial.a.transposed, trial.b.transposed, trial.b.lines, trial.a_in_registers,
            trial.scale_a, trial.scale_b, trial.accumulates);
    std::mt19937 random(seed);
    const int depth = trial.steps * 32 / trial.a.size();
    trial.a.depth = trial.b.depth = depth;
    trial.a.base = 2048;
    trial.b.base = 2048 + 65536;
    for (Operand2* operand : {&trial.a, &trial.b}) {
        operand->codes.resize(static_cast<std::size_t>(operand->lines * depth));
        for (auto& code : operand->codes) code = random_code(operand->type, random);
    }
    std::vector<std::byte> shared(200 * 1024, std::byte{0xff});
    if (!trial.a_in_registers) trial.a.write(shared);
    trial.b.write(shared);
    const MatrixOp op = make_op(trial);
    REQUIRE_FALSE(wgmma_unsupported(op).has_value());

    const int bits = element_bits(trial.d), n = trial.b.lines;
    std::vector<std::uint64_t> c(static_cast<std::size_t>(64 * n));
    for (auto& code : c) code = random_code(trial.d, random);
    if (trial.saturate) {
        for (std::size_t i = 0; i < c.size(); ++i) c[i] = i % 2 == 0 ? 0x7fff'ff00U : 0x8000'0100U;
    }
    std::array<Frame, 4> frames;
    for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < n; ++column) {
            const D at = place_d(row, column);
            frames[static_cast<std::size_t>(at.warp)].set_element(
                0, at.lane, at.i, bits, c[static_cast<std::size_t>(row * n + column)]);
        }
    }
    std::vector<RowRef> operands;
    for (int i = 0; i < op.destinations; ++i) operands.push_back(Frame::row(i));
    constexpr int first_a = 130, row_b = 140, row_predicate = 141;
    for (int i = 0; i < (op.a_in_registers ? 4 : 1); ++i) {
        operands.push_back(Frame::row(first_a + i));
    }
    operands.push_back(Frame::row(row_b));
    operands.push_back(Frame::row(row_predicate));
    for (int warp = 0; warp < 4; ++warp) {
        Frame& frame = frames[static_cast<std::size_t>(warp)];
        for (int step = 0; step < trial.steps; ++step) {
            if (op.a_in_registers) {
                place_a(frame, first_a, trial.a, warp, step);
            } else {
                frame.set_element(first_a, 0, 0, 64, trial.a.descriptor(step));
            }
            frame.set_element(row_b, 0, 0, 64, trial.b.descriptor(step));
            frame.words(row_predicate)[0] = trial.accumulates || step > 0 ? 1U : 0U;
            const Isa isa = warp % 2 == 0 ? best_isa_here() : Isa::portable;
            const auto error =
                multiply_warp_group(op, frame.rows(), operands.data(), warp, shared, isa);
            if (error) FAIL(*error);
        }
    }
    const std::vector<double> a = trial.a.values(), b = trial.b.values();
    for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < n; ++column) {
            const auto start = c[static_cast<std::size_t>(row * n + column)];
            double sum = trial.accumulates ? value_of(trial.d, start) : 0.0;
            double magnitude = std::abs(sum);
            for (int k = 0; k < depth; ++k) {
                const double product = a[static_cast<std::size_t>(row * depth + k)] *
                                       b[static_cast<std::size_t>(column * depth + k)];
                sum += product * trial.scale_a * trial.scale_b;
                magnitude += std::abs(product);
            }
            const D at = place_d(row, column);
            const double found = value_of(
                trial.d, frames[static_cast<std::size_t>(at.warp)].element(0, at.lane, at.i, bits));
            // One rounding a step, each of a partial sum within `magnitude`.
            const double ulp = trial.d == "f16" ? 0x1p-11 : 0x1p-24;
            bool right = std::abs(found - sum) <= magnitude * (ulp * trial.steps + 0x1p-48);
            if (trial.saturate) {
                right = found == std::clamp(sum, -2147483648.0, 2147483647.0);
            } else if (trial.d == "s32") {  // wrapped sums agree modulo 2^32
                right = std::remainder(found - sum, 4294967296.0) == 0;
            }
            if (right) continue;
            CAPTURE(row, column, found, sum);
            FAIL("wrong element");
        }
    }
}

}  // namespace

TEST_CASE("wgmma reads K-major operands in every swizzle", "[emulator]") {
    unsigned seed = 1;
    for (const std::string type : {"f16", "bf16", "tf32", "e4m3", "e5m2"}) {
        for (const int swizzle_a : {0, 32, 64, 128}) {
            for (const int swizzle_b : {0, 32, 64, 128}) {
                Trial trial;
                trial.a.type = trial.b.type = type;
                trial.a.swizzle = swizzle_a;
                trial.b.swizzle = swizzle_b;
                trial.b.lines = 24;
                trial.steps = 4;
                run(trial, seed++);
            }
        }
    }
}

TEST_CASE("wgmma reads transposed operands in every swizzle", "[emulator]") {
    unsigned seed = 100;
    for (const std::string type : {"f16", "bf16"}) {
        for (const int swizzle : {0, 32, 64, 128}) {
            for (const int which : {1, 2, 3}) {
                Trial trial;
                trial.a.type = trial.b.type = type;
                trial.a.swizzle = trial.b.swizzle = swizzle;
                trial.a.transposed = (which & 1) != 0;
                trial.b.transposed = (which & 2) != 0;
                trial.b.lines = 128;
                trial.steps = 2;
                run(trial, seed++);
            }
        }
    }
}

TEST_CASE("wgmma has all widths, scales, types of D and operands in registers", "[emulator]") {
    unsigned seed = 200;
    for (int n = 8; n <= 256; n += 8) {
        Trial trial;
        trial.b.lines = n;
        trial.d = n % 16 == 0 ? "f16" : "f32";
        trial.accumulates = n % 3 != 0;
        trial.scale_a = n % 5 == 0 ? -1 : 1;
        trial.scale_b = n % 7 == 0 ? -1 : 1;
        trial.a_in_registers = n % 32 == 0;
        run(trial, seed++);
    }
    for (const std::string type : {"bf16", "tf32", "e4m3", "e5m2"}) {
        Trial trial;
        trial.a.type = trial.b.type = type;
        trial.a_in_registers = true;
        trial.b.lines = 80;
        run(trial, seed++);
    }
    for (const std::string d : {"f16", "f32"}) {
        Trial trial;
        trial.d = d;
        trial.a.type = "e4m3";
        trial.b.type = "e5m2";
        trial.b.lines = 40;
        trial.steps = 2;
        run(trial, seed++);
    }
    for (const std::string a : {"s8", "u8"}) {
        for (const std::string b : {"s8", "u8"}) {
            for (const bool saturate : {false, true}) {
                Trial trial;
                trial.d = "s32";
                trial.a.type = a;
                trial.b.type = b;
                trial.b.lines = 96;
                trial.saturate = saturate;
                run(trial, seed++);
            }
        }
    }
}

TEST_CASE("wgmma multiplies tiles that the candidates' index formula lays out", "[emulator]") {
    // As in linear_residual: rows of 128 bytes, chunk ^ (row & 7), steps of 32 bytes, a descriptor
    // with a leading offset of 1 and a stride offset of 64 units.
    const auto swizzled = [](int row, int chunk) { return row * 128 + ((chunk ^ (row & 7)) << 4); };
    const auto descriptor = [](unsigned address) {
        return (static_cast<std::uint64_t>(address & 0x3ffffU) >> 4) | (1ULL << 16) |
               (64ULL << 32) | (1ULL << 62);
    };
    std::vector<std::byte> shared(64 * 1024);
    const unsigned xs = 1024, ws = xs + 128 * 128;
    const auto x = [](int row, int k) { return static_cast<float>((row * 3 + k * 5) % 17 - 8); };
    const auto w = [](int row, int k) { return static_cast<float>((row * 7 + k * 2) % 13 - 6); };
    for (int row = 0; row < 128; ++row) {
        for (int k = 0; k < 64; ++k) {
            const std::size_t at = static_cast<std::size_t>(swizzled(row, k / 8) + k % 8 * 2);
            for (const auto& [start, value] :
                 {std::pair{xs, x(row, k)}, std::pair{ws, w(row, k)}}) {
                const auto bits =
                    static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
                std::memcpy(shared.data() + start + at, &bits, 2);
            }
        }
    }
    Trial trial;
    trial.a.type = trial.b.type = "bf16";
    trial.b.lines = 80;
    const MatrixOp op = make_op(trial);
    std::vector<RowRef> operands;
    for (int i = 0; i < 43; ++i) operands.push_back(Frame::row(i));
    for (int group = 0; group < 2; ++group) {
        for (int warp = 0; warp < 4; ++warp) {
            Frame frame;
            frame.words(42)[0] = 1;
            for (unsigned k = 0; k < 4; ++k) {
                const auto rows = static_cast<unsigned>(group * 64 * 128);
                frame.set_element(40, 0, 0, 64, descriptor(xs + rows + k * 32));
                frame.set_element(41, 0, 0, 64, descriptor(ws + k * 32));
                REQUIRE_FALSE(multiply_warp_group(op, frame.rows(), operands.data(), warp, shared,
                                                  best_isa_here())
                                  .has_value());
            }
            for (int lane = 0; lane < 32; ++lane) {
                for (int i = 0; i < 40; ++i) {
                    const int row = group * 64 + warp * 16 + lane / 4 + i % 4 / 2 * 8;
                    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                    float sum = 0;
                    for (int k = 0; k < 64; ++k) sum += x(row, k) * w(column, k);
                    REQUIRE(value_of("f32", frame.element(0, lane, i, 32)) ==
                            static_cast<double>(sum));
                }
            }
        }
    }
}

TEST_CASE("a swizzle's pattern starts where the base offset says", "[emulator]") {
    MatrixDescriptor descriptor = decode_descriptor(std::uint64_t{3} << 49 | 1ULL << 62 | 0x18);
    CHECK(descriptor.base_offset == 3);
    CHECK(descriptor.start == 0x180);
    CHECK(descriptor.swizzle_bytes == 128);
    Trial trial;
    trial.b.lines = 8;
    const MatrixOp op = make_op(trial);
    Frame frame;
    std::vector<RowRef> operands;
    for (int i = 0; i < 7; ++i) operands.push_back(Frame::row(i));
    const std::uint64_t bits = 0x18 | 64ULL << 32 | std::uint64_t{3} << 49 | 1ULL << 62;
    frame.set_element(4, 0, 0, 64, bits);
    frame.set_element(5, 0, 0, 64, bits);
    const std::vector<std::uint32_t> reads = wgmma_reads(op, frame.rows(), operands.data(), 0);
    REQUIRE(reads.size() == 2 * (16 + 8));
    for (std::uint32_t row = 0; row < 8; ++row) {  // of A's first half of K
        CHECK(reads[row] == 0x180 + row * 128 + (row << 4));
    }
}

TEST_CASE("wgmma tells of descriptors that leave shared memory and keeps D", "[emulator]") {
    Trial trial;
    trial.b.lines = 8;
    const MatrixOp op = make_op(trial);
    Frame frame;
    std::vector<RowRef> operands;
    for (int i = 0; i < 7; ++i) operands.push_back(Frame::row(i));
    const std::vector<std::byte> shared(8192);
    const std::uint64_t inside = 64ULL << 32 | 1ULL << 62;
    frame.words(0)[0] = 7;
    frame.set_element(4, 0, 0, 64, inside);
    frame.set_element(5, 0, 0, 64, inside | (8192 - 512) >> 4);
    const auto run_warp = [&](int warp) {
        return multiply_warp_group(op, frame.rows(), operands.data(), warp, shared,
                                   best_isa_here());
    };
    REQUIRE(run_warp(0).has_value());
    CHECK_THAT(*run_warp(0), ContainsSubstring("descriptor of B (start 0x1e00"));
    CHECK(frame.words(0)[0] == 7);
    frame.set_element(5, 0, 0, 64, inside);
    frame.set_element(4, 0, 0, 64, inside | 1024 >> 4);
    CHECK_FALSE(run_warp(2).has_value());
    CHECK_THAT(*run_warp(3), ContainsSubstring("descriptor of A"));
}

TEST_CASE("forms of wgmma that do not exist are refused", "[emulator]") {
    const auto fault = [](auto change) {
        Trial trial;
        trial.b.lines = 64;
        MatrixOp op = make_op(trial);
        change(op);
        return wgmma_unsupported(op).value_or("");
    };
    CHECK(fault([](MatrixOp&) {}).empty());
    CHECK_THAT(fault([](MatrixOp& op) { op.n = 20; }), ContainsSubstring("n is 20"));
    CHECK_THAT(fault([](MatrixOp& op) { op.k = 8; }), ContainsSubstring("k is 8"));
    CHECK_THAT(fault([](MatrixOp& op) { op.b = Type::bf16; }), ContainsSubstring("types"));
    CHECK_THAT(fault([](MatrixOp& op) { op.destinations = 16; }), ContainsSubstring("registers"));
    CHECK_THAT(fault([](MatrixOp& op) { op.scale_a = 2; }), ContainsSubstring("scales"));
    CHECK_THAT(fault([](MatrixOp& op) { op.saturate = true; }), ContainsSubstring("saturate"));
    CHECK_THAT(fault([](MatrixOp& op) {
                   op.a = op.b = Type::tf32;
                   op.k = 8;
                   op.transposed_b = true;
               }),
               ContainsSubstring("16 bits"));
    CHECK_THAT(fault([](MatrixOp& op) {
                   op.a = op.b = Type::s8;
                   op.d = Type::s32;
                   op.k = 32;
                   op.n = 40;
               }),
               ContainsSubstring("n is 40"));
}

TEST_CASE("wgmma multiplies tiles that tensor copies have swizzled", "[emulator]") {
    // x [64, 64] and w [32, 64] of f16 in global memory, tiles of 64 columns.
    std::mt19937 random(9);
    std::vector<std::byte> shared(32 * 1024);
    std::array<std::vector<std::uint16_t>, 2> global{std::vector<std::uint16_t>(64 * 64),
                                                     std::vector<std::uint16_t>(32 * 64)};
    for (std::size_t which = 0; which < 2; ++which) {
        for (auto& code : global[which]) {
            code = static_cast<std::uint16_t>(random_code("f16", random));
        }
        TensorMapParameters parameters;
        parameters.data_type = 6;
        parameters.rank = 2;
        parameters.address = 0x7f00'0000'0000;
        parameters.dimensions = {64, which == 0 ? 64U : 32U};
        parameters.strides = {128};
        parameters.box = {64, which == 0 ? 64U : 32U};
        parameters.element_strides = {1, 1};
        parameters.swizzle = 3;
        const EncodedTensorMap encoded = encode_tensor_map(parameters);
        REQUIRE_FALSE(encoded.error.has_value());
        const auto map = decode_tensor_map(encoded.bytes.data());
        const std::array<std::int32_t, 2> origin{0, 0};
        for (const TilePiece& piece : tile_pieces(*map, origin, which == 0 ? 1024U : 16384U)) {
            std::memcpy(shared.data() + piece.shared,
                        reinterpret_cast<const std::byte*>(global[which].data()) +
                            (piece.global - parameters.address),
                        piece.bytes);
        }
    }
    Trial trial;
    trial.b.lines = 32;
    const MatrixOp op = make_op(trial);
    std::vector<RowRef> operands;
    for (int i = 0; i < 19; ++i) operands.push_back(Frame::row(i));
    Frame frame;
    frame.words(18)[0] = 1;
    for (unsigned k = 0; k < 4; ++k) {
        const std::uint64_t mode = 64ULL << 32 | 1ULL << 62;
        frame.set_element(16, 0, 0, 64, mode | (1024 + k * 32) >> 4);
        frame.set_element(17, 0, 0, 64, mode | (16384 + k * 32) >> 4);
        REQUIRE_FALSE(
            multiply_warp_group(op, frame.rows(), operands.data(), 1, shared, best_isa_here())
                .has_value());
    }
    for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 16; ++i) {
            const int row = 16 + lane / 4 + i % 4 / 2 * 8;
            const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            double sum = 0, magnitude = 0;
            for (int k = 0; k < 64; ++k) {
                const double product =
                    value_of("f16", global[0][static_cast<std::size_t>(row * 64 + k)]) *
                    value_of("f16", global[1][static_cast<std::size_t>(column * 64 + k)]);
                sum += product;
                magnitude += std::abs(product);
            }
            REQUIRE(std::abs(value_of("f32", frame.element(0, lane, i, 32)) - sum) <=
                    magnitude * 0x1p-22);
        }
    }
}

namespace {

struct WmmaMatrix {
    MatrixOp op;
    std::string type;
    int rows = 0, columns = 0, stride = 0;
    std::vector<std::uint64_t> codes;  // in memory, by `stride`

    [[nodiscard]] std::size_t index(int row, int column) const {
        return static_cast<std::size_t>(op.column_major ? column * stride + row
                                                        : row * stride + column);
    }
    void load(Frame& frame, int first) const {
        const int bits = element_bits(type);
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < fragment_elements(op); ++i) {
                const FragmentElement at =
                    fragment_element(op, lane, i, static_cast<std::uint64_t>(stride));
                REQUIRE(at.offset % static_cast<std::uint64_t>(bits / 8) == 0);
                const auto code = codes.at(at.offset / static_cast<std::uint64_t>(bits / 8));
                REQUIRE(at.shift == (bits == 64 ? 0 : i % (32 / bits) * bits));
                frame.set_element(first, lane, i, bits, code);
            }
        }
    }
};

WmmaMatrix make_wmma(MatrixOp::Fragment fragment, const std::string& type,
                     const std::array<int, 3>& shape, bool column_major, std::mt19937& random) {
    WmmaMatrix matrix;
    matrix.type = type;
    matrix.op.d = type_of(type);
    matrix.op.m = shape[0];
    matrix.op.n = shape[1];
    matrix.op.k = shape[2];
    matrix.op.fragment = fragment;
    matrix.op.column_major = column_major;
    matrix.rows = fragment == MatrixOp::Fragment::b ? shape[2] : shape[0];
    matrix.columns = fragment == MatrixOp::Fragment::a ? shape[2] : shape[1];
    matrix.stride = (column_major ? matrix.rows : matrix.columns) + 8;
    matrix.codes.resize(
        static_cast<std::size_t>(matrix.stride * (column_major ? matrix.columns : matrix.rows)));
    for (auto& code : matrix.codes) code = random_code(type, random);
    return matrix;
}

}  // namespace

TEST_CASE("wmma multiplies what it loads and stores the product", "[emulator]") {
    struct Case {
        std::string d, ab;
        std::array<int, 3> shape;
        int d_registers, a_registers, b_registers;
    };
    const std::vector<Case> cases{
        {"f32", "f16", {16, 16, 16}, 8, 8, 8},  {"f16", "f16", {16, 16, 16}, 4, 8, 8},
        {"f32", "f16", {32, 8, 16}, 8, 8, 8},   {"f32", "f16", {8, 32, 16}, 8, 8, 8},
        {"f32", "bf16", {16, 16, 16}, 8, 4, 4}, {"f32", "bf16", {32, 8, 16}, 8, 8, 2},
        {"f32", "bf16", {8, 32, 16}, 8, 2, 8},  {"s32", "s8", {16, 16, 16}, 8, 2, 2},
        {"s32", "u8", {32, 8, 16}, 8, 4, 1},    {"s32", "s8", {8, 32, 16}, 8, 1, 4},
        {"f32", "tf32", {16, 16, 8}, 8, 4, 4},  {"f64", "f64", {8, 8, 4}, 2, 1, 1}};
    std::mt19937 random(3);
    for (const Case& form : cases) {
        for (int majors = 0; majors < 8; ++majors) {
            CAPTURE(form.d, form.ab, form.shape, majors);
            using Fragment = MatrixOp::Fragment;
            const auto a = make_wmma(Fragment::a, form.ab, form.shape, (majors & 1) != 0, random);
            const auto b = make_wmma(Fragment::b, form.ab, form.shape, (majors & 2) != 0, random);
            const auto c =
                make_wmma(Fragment::accumulator, form.d, form.shape, (majors & 4) != 0, random);
            REQUIRE_FALSE(fragment_unsupported(a.op, form.a_registers).has_value());
            REQUIRE_FALSE(fragment_unsupported(b.op, form.b_registers).has_value());
            REQUIRE_FALSE(fragment_unsupported(c.op, form.d_registers).has_value());
            CHECK(fragment_unsupported(a.op, form.a_registers + 1).has_value());
            Frame frame;
            a.load(frame, 16);
            b.load(frame, 32);
            c.load(frame, 48);
            std::vector<RowRef> operands;
            for (int i = 0; i < form.d_registers; ++i) operands.push_back(Frame::row(i));
            for (int i = 0; i < form.a_registers; ++i) operands.push_back(Frame::row(16 + i));
            for (int i = 0; i < form.b_registers; ++i) operands.push_back(Frame::row(32 + i));
            for (int i = 0; i < form.d_registers; ++i) operands.push_back(Frame::row(48 + i));
            const auto& s = form.shape;
            std::vector<std::string> modifiers{
                "mma",
                "sync",
                "aligned",
                "row",
                "col",
                "m" + std::to_string(s[0]) + "n" + std::to_string(s[1]) + "k" + std::to_string(s[2])};
            const auto types = form.ab == "f16"
                                   ? std::vector<std::string>{form.d, form.d}
                                   : std::vector<std::string>{form.d, form.ab, form.ab, form.d};
            modifiers.insert(modifiers.end(), types.begin(), types.end());
            const auto op = find_mma(make_instruction("wmma", modifiers,
                                                      {form.d_registers, form.a_registers,
                                                       form.b_registers, form.d_registers}),
                                     best_isa_here());
            REQUIRE(op.has_value());
            op->run(frame.rows(), operands.data(), all_lanes);

            const int bits = element_bits(form.d);
            std::set<std::uint64_t> written;
            for (int lane = 0; lane < 32; ++lane) {
                for (int i = 0; i < fragment_elements(c.op); ++i) {
                    const FragmentElement at =
                        fragment_element(c.op, lane, i, static_cast<std::uint64_t>(c.stride));
                    REQUIRE_FALSE(at.repeated);
                    const auto index = static_cast<int>(at.offset) / (bits / 8);
                    REQUIRE(written.insert(at.offset).second);
                    const int major = index / c.stride, minor = index % c.stride;
                    const int row = c.op.column_major ? minor : major;
                    const int column = c.op.column_major ? major : minor;
                    double sum = value_of(form.d, c.codes[c.index(row, column)]);
                    double magnitude = std::abs(sum);
                    for (int k = 0; k < s[2]; ++k) {
                        const double product = value_of(form.ab, a.codes[a.index(row, k)]) *
                                               value_of(form.ab, b.codes[b.index(k, column)]);
                        sum += product;
                        magnitude += std::abs(product);
                    }
                    const double found = value_of(form.d, frame.element(0, lane, i, bits));
                    const double unit = form.d == "f16" ? 0x1p-11 : 0x1p-24;
                    if (form.d == "s32") {
                        REQUIRE(std::remainder(found - sum, 4294967296.0) == 0);
                    } else {
                        REQUIRE(std::abs(found - sum) <= magnitude * unit);
                    }
                }
            }
            CHECK(written.size() == static_cast<std::size_t>(s[0] * s[1]));
        }
    }
}

TEST_CASE("wmma fragments of other shapes are refused", "[emulator]") {
    MatrixOp op;
    op.m = 8;
    op.n = 8;
    op.k = 32;
    op.d = Type::s8;
    CHECK_THAT(*fragment_unsupported(op, 1), ContainsSubstring("not emulated"));
}
