// SPDX-License-Identifier: Apache-2.0
#include "emulator/matrix_wgmma.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "emulator/matrix_product.hpp"

namespace kernelforge::emulator {

namespace {

constexpr int piece_bytes = 16;
constexpr int pieces_per_row = 2;  // K is 32 bytes of elements for every type

enum class Major : std::uint8_t { k, mn };

// Address bits 4 to 6 are exchanged by those above 7, as many as the swizzle has: its pattern
// repeats after 8 * swizzle bytes. The base offset says where it starts, in units of 128 bytes.
std::uint32_t swizzled(const MatrixDescriptor& descriptor, std::uint32_t address) {
    if (descriptor.swizzle_bytes == 0) return address;
    const std::uint32_t rows = descriptor.swizzle_bytes / 16 - 1;
    return address ^ (((address >> 7) - descriptor.base_offset) & rows) << 4;
}

// Canonical layouts of the PTX ISA. K-major: piece `k_piece` of row `mn`.
std::uint32_t k_major_piece(const MatrixDescriptor& d, std::uint32_t mn, std::uint32_t k_piece) {
    const std::uint32_t pitch = d.swizzle_bytes == 0 ? piece_bytes : d.swizzle_bytes;
    const std::uint32_t next = d.swizzle_bytes == 0 ? d.leading_offset : piece_bytes;
    return swizzled(d, d.start + mn % 8 * pitch + mn / 8 * d.stride_offset + k_piece * next);
}

// MN-major: the piece of eight 16-bit elements from row 8 * `mn_piece`, of column k.
std::uint32_t mn_major_piece(const MatrixDescriptor& d, std::uint32_t mn_piece, std::uint32_t k) {
    if (d.swizzle_bytes == 0) {
        return d.start + k % 8 * piece_bytes + k / 8 * d.leading_offset +
               mn_piece * d.stride_offset;
    }
    const std::uint32_t width = d.swizzle_bytes / piece_bytes;
    return swizzled(d, d.start + mn_piece % width * piece_bytes +
                           mn_piece / width * d.leading_offset + k % 8 * d.swizzle_bytes +
                           k / 8 * d.stride_offset);
}

// Eight pieces make a block: eight rows of A or columns of B, half of K each (K-major); or eight
// columns of K, with eight rows of A or columns of B each (MN-major). `mn_block` counts eights of
// rows or columns, `half` those of K.
std::array<std::uint32_t, 8> block_pieces(const MatrixDescriptor& descriptor, Major major,
                                          std::uint32_t mn_block, std::uint32_t half) {
    std::array<std::uint32_t, 8> pieces;
    for (std::uint32_t i = 0; i < 8; ++i) {
        pieces[i] = major == Major::k ? k_major_piece(descriptor, mn_block * 8 + i, half)
                                      : mn_major_piece(descriptor, mn_block, half * 8 + i);
    }
    return pieces;
}

struct Block {
    alignas(32) std::array<std::byte, 128> bytes;
};

// False: a piece lies outside of the shared memory.
bool read_block(const std::array<std::uint32_t, 8>& pieces, std::span<const std::byte> shared,
                Block& block) {
    for (std::size_t i = 0; i < 8; ++i) {
        if (pieces[i] + std::size_t{piece_bytes} > shared.size()) return false;
        std::memcpy(&block.bytes[i * piece_bytes], shared.data() + pieces[i], piece_bytes);
    }
    return true;
}

struct Call {
    const MatrixOp& op;
    const Rows& rows;
    const RowRef* operands;
    std::uint32_t warp;

    [[nodiscard]] const RowRef* a_operand() const { return operands + op.destinations; }
    [[nodiscard]] const RowRef* b_operand() const {
        return a_operand() + (op.a_in_registers ? 4 : 1);
    }
    [[nodiscard]] MatrixDescriptor a() const { return descriptor(*a_operand()); }
    [[nodiscard]] MatrixDescriptor b() const { return descriptor(*b_operand()); }
    [[nodiscard]] Major a_major() const { return op.transposed_a ? Major::mn : Major::k; }
    [[nodiscard]] Major b_major() const { return op.transposed_b ? Major::mn : Major::k; }
    [[nodiscard]] bool accumulates() const {
        const RowRef predicate = b_operand()[1];
        if (predicate == no_row) return true;
        return ((*rows.at<std::uint32_t>(predicate) & 1U) != 0) != op.scale_d_negated;
    }

  private:
    [[nodiscard]] MatrixDescriptor descriptor(RowRef row) const {
        return decode_descriptor(*rows.at<std::uint64_t>(row));
    }
};

std::string outside(char name, const MatrixDescriptor& descriptor, std::size_t bytes) {
    return fmt::format(
        "the descriptor of {} (start {:#x}, leading offset {}, stride offset {}, swizzle {}) "
        "reaches beyond the {} bytes of shared memory",
        name, descriptor.start, descriptor.leading_offset, descriptor.stride_offset,
        descriptor.swizzle_bytes, bytes);
}

constexpr int most_depth = 32;

// A's 16 rows of the warp to a [16, depth]. @returns false: outside
bool read_a(const Call& call, std::span<const std::byte> shared, Isa isa, int width, double* a) {
    const ProductFunctions read = product_functions(*matrix_format(call.op.a), isa);
    const int depth = 2 * width;
    for (int i = 0; i < 4; ++i) {
        const int half = i / 2, rows = i % 2;
        double* to = a + rows * 8 * depth + half * width;
        if (call.op.a_in_registers) {
            read.decode_rows(call.rows.at<std::byte>(call.a_operand()[i]), to, depth);
            continue;
        }
        Block block;
        if (!read_block(block_pieces(call.a(), call.a_major(),
                                     call.warp * 2 + static_cast<std::uint32_t>(rows),
                                     static_cast<std::uint32_t>(half)),
                        shared, block)) {
            return false;
        }
        const auto decode = call.op.transposed_a ? read.decode_columns : read.decode_rows;
        decode(block.bytes.data(), to, depth);
    }
    // One sign for both: (-a) * b is a * (-b).
    if (call.op.scale_a * call.op.scale_b < 0) {
        for (int i = 0; i < 16 * depth; ++i) a[i] = -a[i];
    }
    return true;
}

// Eight columns of B to b [depth, 8]. @returns false: outside
bool read_b(const Call& call, const MatrixDescriptor& descriptor, std::span<const std::byte> shared,
            const ProductFunctions& read, int width, std::uint32_t panel, double* b) {
    for (std::uint32_t half = 0; half < pieces_per_row; ++half) {
        Block block;
        if (!read_block(block_pieces(descriptor, call.b_major(), panel, half), shared, block)) {
            return false;
        }
        const auto decode = call.op.transposed_b ? read.decode_rows : read.decode_columns;
        decode(block.bytes.data(), b + static_cast<int>(half) * width * 8, 8);
    }
    return true;
}

Accumulator accumulator_of(Type type) {
    return type == Type::f16   ? Accumulator::f16
           : type == Type::s32 ? Accumulator::s32
                               : Accumulator::f32;
}

// Highest and lowest place that a descriptor reaches, for all of its blocks: checked before D is
// touched, so that an error leaves it.
bool reaches_outside(const MatrixDescriptor& descriptor, Major major, std::uint32_t first_block,
                     std::uint32_t blocks, std::size_t bytes) {
    for (std::uint32_t block = first_block; block < first_block + blocks; ++block) {
        for (std::uint32_t half = 0; half < pieces_per_row; ++half) {
            for (const std::uint32_t piece : block_pieces(descriptor, major, block, half)) {
                if (piece + std::size_t{piece_bytes} > bytes) return true;
            }
        }
    }
    return false;
}

void append_pieces(std::vector<std::uint32_t>& reads, const MatrixDescriptor& descriptor,
                   Major major, std::uint32_t first_block, std::uint32_t blocks) {
    for (std::uint32_t block = first_block; block < first_block + blocks; ++block) {
        for (std::uint32_t half = 0; half < pieces_per_row; ++half) {
            const auto pieces = block_pieces(descriptor, major, block, half);
            reads.insert(reads.end(), pieces.begin(), pieces.end());
        }
    }
}

bool is_8_bit_float(Type type) {
    return type == Type::e4m3 || type == Type::e5m2;
}
bool is_8_bit_integer(Type type) {
    return type == Type::s8 || type == Type::u8;
}

bool types_exist(const MatrixOp& op) {
    const bool half = op.d == Type::f16, single = op.d == Type::f32;
    if (is_8_bit_integer(op.a)) return is_8_bit_integer(op.b) && op.d == Type::s32;
    if (is_8_bit_float(op.a)) return is_8_bit_float(op.b) && (half || single);
    if (op.a != op.b) return false;
    if (op.a == Type::f16) return half || single;
    return (op.a == Type::bf16 || op.a == Type::tf32) && single;
}

}  // namespace

MatrixDescriptor decode_descriptor(std::uint64_t bits) noexcept {
    const auto field = [bits](int first) {
        return static_cast<std::uint32_t>(bits >> first & 0x3fffU) << 4;
    };
    constexpr std::array<std::uint32_t, 4> swizzles{0, 128, 64, 32};
    MatrixDescriptor descriptor;
    descriptor.start = field(0);
    descriptor.leading_offset = field(16);
    descriptor.stride_offset = field(32);
    descriptor.base_offset = static_cast<std::uint32_t>(bits >> 49 & 7U);
    descriptor.swizzle_bytes = swizzles[bits >> 62];
    return descriptor;
}

std::optional<std::string> wgmma_unsupported(const MatrixOp& op) {
    if (!types_exist(op)) return "this combination of types is not emulated";
    const int depth = 2 * elements_per_row(*matrix_format(op.a));
    if (op.k != depth) return fmt::format("k is {}, expected {}", op.k, depth);
    const bool narrow = is_8_bit_integer(op.a);
    const bool steps = op.n % 8 == 0 && op.n >= 8 && op.n <= 256;
    if (!steps || (narrow && op.n > 32 && op.n % 16 != 0)) {
        return fmt::format("n is {}, which these types do not have", op.n);
    }
    const int destinations = op.d == Type::f16 ? op.n / 4 : op.n / 2;
    if (op.destinations != destinations) {
        return fmt::format("it has {} destination registers, expected {}", op.destinations,
                           destinations);
    }
    if ((op.transposed_a || op.transposed_b) && op.a != Type::f16 && op.a != Type::bf16) {
        return "only operands of 16 bits can be transposed";
    }
    if (op.transposed_a && op.a_in_registers) return "an operand in registers is not transposed";
    if (op.scale_a * op.scale_a != 1 || op.scale_b * op.scale_b != 1) {
        return "scales are 1 or -1";
    }
    if (op.saturate && !narrow) return "only sums of integers saturate";
    return std::nullopt;
}

std::optional<std::string> multiply_warp_group(const MatrixOp& op, const Rows& rows,
                                               const RowRef* operands, int warp,
                                               std::span<const std::byte> shared, Isa isa) {
    if (auto wrong = wgmma_unsupported(op)) return wrong;
    const Call call{op, rows, operands, static_cast<std::uint32_t>(warp)};
    const int width = elements_per_row(*matrix_format(op.a));
    double a[16 * most_depth];
    if (!read_a(call, shared, isa, width, a)) return outside('A', call.a(), shared.size());
    const MatrixDescriptor descriptor = call.b();
    if (reaches_outside(descriptor, call.b_major(), 0, static_cast<std::uint32_t>(op.n / 8),
                        shared.size())) {
        return outside('B', descriptor, shared.size());
    }
    const Accumulator accumulator = accumulator_of(op.d);
    const AccumulatorFunctions functions = accumulator_functions(accumulator, isa);
    const MultiplyFn multiply = find_multiply(accumulator, isa);
    const ProductFunctions read = product_functions(*matrix_format(op.b), isa);
    const int registers = registers_per_block(accumulator);
    const bool accumulates = call.accumulates();
    for (int panel = 0; panel < op.n / 8; ++panel) {
        double b[8 * most_depth];
        double d[2 * 64] = {};
        read_b(call, descriptor, shared, read, width, static_cast<std::uint32_t>(panel), b);
        const RowRef* to = operands + panel * 2 * registers;
        for (int i = 0; accumulates && i < 2; ++i) {
            functions.load(rows, to + i * registers, d + i * 64);
        }
        multiply(a, b, d, 16, 2 * width);
        for (int i = 0; i < 2; ++i) {
            functions.store(rows, to + i * registers, d + i * 64, all_lanes, op.saturate);
        }
    }
    return std::nullopt;
}

std::vector<std::uint32_t> wgmma_reads(const MatrixOp& op, const Rows& rows, const RowRef* operands,
                                       int warp) {
    const Call call{op, rows, operands, static_cast<std::uint32_t>(warp)};
    std::vector<std::uint32_t> reads;
    reads.reserve(static_cast<std::size_t>(2 * (16 + op.n)));
    if (!op.a_in_registers) append_pieces(reads, call.a(), call.a_major(), call.warp * 2, 2);
    append_pieces(reads, call.b(), call.b_major(), 0, static_cast<std::uint32_t>(op.n / 8));
    return reads;
}

}  // namespace kernelforge::emulator
