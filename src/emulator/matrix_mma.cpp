// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/matrix_product.hpp"
#include "emulator/pure_ops.hpp"

namespace kernelforge::emulator {

namespace {

enum class BitOperation : std::uint8_t { none, bit_xor, bit_and };
enum class Family : std::uint8_t { mma, wmma };

// One form of mma.sync or wmma.mma. A and B are made of blocks of eight rows (columns of B) by 16
// bytes (f64: four elements); D of 8x8 blocks. Fragments of mma.sync, PTX ISA 9.0, "Matrix
// Fragments for mma.m16n8k16" and the like: a register is a block, A's registers go down the rows
// first, then along k; B's along k; D's down the rows. A wmma's B and D have further columns after
// that, and the fragments of f16 hold their blocks as often as their registers need.
struct Form {
    Family family = Family::mma;
    MatrixFormat a = MatrixFormat::f16, b = MatrixFormat::f16;
    Accumulator d = Accumulator::f32, c = Accumulator::f32;
    int a_blocks = 2, b_blocks = 1, k_blocks = 1;
    int a_registers = 0, b_registers = 0;
    bool saturate = false;
    BitOperation bits = BitOperation::none;
};

constexpr int d_registers(const Form& form) {
    return form.a_blocks * form.b_blocks * registers_per_block(form.d);
}
constexpr int c_registers(const Form& form) {
    return form.a_blocks * form.b_blocks * registers_per_block(form.c);
}

struct Forms {
    std::array<Form, 160> all{};
    std::size_t count = 0;

    constexpr void add(Form form) {
        if (form.a_registers == 0) form.a_registers = form.a_blocks * form.k_blocks;
        if (form.b_registers == 0) form.b_registers = form.b_blocks * form.k_blocks;
        all[count++] = form;
    }
    constexpr void add_mma(MatrixFormat a, MatrixFormat b, Accumulator d, int a_blocks,
                           int k_blocks, bool saturate = false,
                           BitOperation bits = BitOperation::none) {
        add({Family::mma, a, b, d, d, a_blocks, 1, k_blocks, 0, 0, saturate, bits});
    }
};

constexpr void add_floats(Forms& forms) {
    using F = MatrixFormat;
    using Acc = Accumulator;
    for (const int k_blocks : {1, 2}) {
        forms.add_mma(F::f16, F::f16, Acc::f16, 2, k_blocks);
        forms.add_mma(F::f16, F::f16, Acc::f32, 2, k_blocks);
        forms.add_mma(F::bf16, F::bf16, Acc::f32, 2, k_blocks);
        forms.add_mma(F::tf32, F::tf32, Acc::f32, 2, k_blocks);
        for (const F a : {F::e4m3, F::e5m2}) {
            for (const F b : {F::e4m3, F::e5m2}) {
                forms.add_mma(a, b, Acc::f16, 2, k_blocks);
                forms.add_mma(a, b, Acc::f32, 2, k_blocks);
            }
        }
    }
    forms.add_mma(F::f64, F::f64, Acc::f64, 1, 1);
    for (const int k_blocks : {1, 2, 4}) forms.add_mma(F::f64, F::f64, Acc::f64, 2, k_blocks);
}

constexpr void add_integers(Forms& forms) {
    using F = MatrixFormat;
    constexpr std::array<std::pair<int, int>, 3> shapes{{{1, 1}, {2, 1}, {2, 2}}};
    for (const auto& [a_blocks, k_blocks] : shapes) {
        for (const auto& [s, u] : {std::pair{F::s8, F::u8}, std::pair{F::s4, F::u4}}) {
            for (const F a : {s, u}) {
                for (const F b : {s, u}) {
                    for (const bool saturate : {false, true}) {
                        forms.add_mma(a, b, Accumulator::s32, a_blocks, k_blocks, saturate);
                    }
                }
            }
        }
        for (const BitOperation bits : {BitOperation::bit_xor, BitOperation::bit_and}) {
            forms.add_mma(F::b1, F::b1, Accumulator::s32, a_blocks, k_blocks, false, bits);
        }
    }
}

constexpr void add_wmma(Forms& forms) {
    using F = MatrixFormat;
    using Acc = Accumulator;
    constexpr std::array<std::pair<int, int>, 3> shapes{{{2, 2}, {4, 1}, {1, 4}}};
    for (const auto& [m, n] : shapes) {
        for (const Acc d : {Acc::f16, Acc::f32}) {
            for (const Acc c : {Acc::f16, Acc::f32}) {
                forms.add({Family::wmma, F::f16, F::f16, d, c, m, n, 2, 8, 8});
            }
        }
        forms.add({Family::wmma, F::bf16, F::bf16, Acc::f32, Acc::f32, m, n, 2});
        for (const F format : {F::s8, F::u8}) {
            for (const bool saturate : {false, true}) {
                forms.add(
                    {Family::wmma, format, format, Acc::s32, Acc::s32, m, n, 1, 0, 0, saturate});
            }
        }
    }
    forms.add({Family::wmma, F::tf32, F::tf32, Acc::f32, Acc::f32, 2, 2, 2});
    forms.add({Family::wmma, F::f64, F::f64, Acc::f64, Acc::f64, 1, 1, 1});
}

constexpr Forms make_forms() {
    Forms forms;
    add_floats(forms);
    add_integers(forms);
    add_wmma(forms);
    return forms;
}
constexpr Forms forms = make_forms();

// Registers of a form, destinations first.
struct Operands {
    const RowRef *d, *a, *b, *c;
};

Operands split(const Form& form, const RowRef* operands) {
    const RowRef* a = operands + d_registers(form);
    const RowRef* b = a + form.a_registers;
    return {operands, a, b, b + form.b_registers};
}

// D's blocks lie one panel of eight columns after the other.
void store_blocks(const Form& form, Isa isa, const Rows& rows, const Operands& operands,
                  const double* d, std::uint32_t mask) {
    const AccumulatorFunctions functions = accumulator_functions(form.d, isa);
    for (int block = 0; block < form.a_blocks * form.b_blocks; ++block) {
        functions.store(rows, operands.d + block * registers_per_block(form.d), d + block * 64,
                        mask, form.saturate);
    }
}

void load_blocks(const Form& form, Isa isa, const Rows& rows, const Operands& operands, double* d) {
    const AccumulatorFunctions functions = accumulator_functions(form.c, isa);
    for (int block = 0; block < form.a_blocks * form.b_blocks; ++block) {
        functions.load(rows, operands.c + block * registers_per_block(form.c), d + block * 64);
    }
}

constexpr int most_d = 256;   // elements of D: m16n16
constexpr int most_a = 1024;  // of A: m16k64
constexpr int most_b = 512;   // of a panel of B: n8k64

void execute(const Form& form, Isa isa, const Rows& rows, const RowRef* operand_rows,
             std::uint32_t mask) {
    const Operands operands = split(form, operand_rows);
    const int width = elements_per_row(form.a);
    const int depth = form.k_blocks * width;
    double a[most_a];
    double b[most_b];
    double d[most_d];
    const ProductFunctions read_a = product_functions(form.a, isa);
    for (int i = 0; i < form.a_blocks * form.k_blocks; ++i) {
        const int row = i % form.a_blocks * 8;
        read_a.decode_rows(rows.at<std::byte>(operands.a[i]),
                           a + row * depth + i / form.a_blocks * width, depth);
    }
    load_blocks(form, isa, rows, operands, d);
    const ProductFunctions read_b = product_functions(form.b, isa);
    const MultiplyFn multiply = find_multiply(form.d, isa);
    for (int panel = 0; panel < form.b_blocks; ++panel) {
        for (int i = 0; i < form.k_blocks; ++i) {
            read_b.decode_columns(rows.at<std::byte>(operands.b[panel * form.k_blocks + i]),
                                  b + i * width * 8, 8);
        }
        multiply(a, b, d + panel * form.a_blocks * 64, form.a_blocks * 8, depth);
    }
    store_blocks(form, isa, rows, operands, d, mask);
}

std::uint32_t count_bits(const std::uint32_t* left, const std::uint32_t* right, BitOperation bits) {
    std::uint32_t count = 0;
    for (int i = 0; i < 4; ++i) {
        const std::uint32_t word =
            bits == BitOperation::bit_xor ? left[i] ^ right[i] : left[i] & right[i];
        count += static_cast<std::uint32_t>(std::popcount(word));
    }
    return count;
}

void execute_bits(const Form& form, Isa isa, const Rows& rows, const RowRef* operand_rows,
                  std::uint32_t mask) {
    const Operands operands = split(form, operand_rows);
    double d[most_d];
    load_blocks(form, isa, rows, operands, d);
    for (int i = 0; i < form.a_blocks * form.k_blocks; ++i) {
        const auto* a = rows.at<std::uint32_t>(operands.a[i]);
        const auto* b = rows.at<std::uint32_t>(operands.b[i / form.a_blocks]);
        double* block = d + i % form.a_blocks * 64;
        for (int row = 0; row < 8; ++row) {
            for (int n = 0; n < 8; ++n) {
                block[row * 8 + n] += count_bits(a + row * 4, b + n * 4, form.bits);
            }
        }
    }
    store_blocks(form, isa, rows, operands, d, mask);
}

template <std::size_t index, Isa isa>
void run(const Rows& rows, const RowRef* operands, std::uint32_t mask) {
    constexpr const Form& form = forms.all[index];
    if constexpr (form.bits == BitOperation::none) {
        execute(form, isa, rows, operands, mask);
    } else {
        execute_bits(form, isa, rows, operands, mask);
    }
}

template <Isa isa, std::size_t... indices>
constexpr std::array<PureFn, sizeof...(indices)> make_functions(std::index_sequence<indices...>) {
    return {run<indices, isa>...};
}
template <Isa isa>
constexpr auto functions = make_functions<isa>(std::make_index_sequence<forms.count>());

std::string shape_of(const Form& form) {
    return fmt::format("m{}n{}k{}", form.a_blocks * 8, form.b_blocks * 8,
                       form.k_blocks * elements_per_row(form.a));
}

constexpr std::string_view name_of(Accumulator accumulator) {
    switch (accumulator) {
        case Accumulator::f32:
            return "f32";
        case Accumulator::f16:
            return "f16";
        case Accumulator::s32:
            return "s32";
        case Accumulator::f64:
            return "f64";
    }
    return "";
}

// The modifiers of an instruction, sorted by what they say. `types` are in the order of the text.
struct Text {
    std::string shape;
    std::vector<std::string> types;
    std::vector<std::string> layouts;
    bool saturate = false;
    BitOperation bits = BitOperation::none;
    std::string unknown;
};

bool is_shape(const std::string& word) {
    return word.size() > 4 && word[0] == 'm' && word.find('n') != std::string::npos &&
           word.find('k') != std::string::npos && word[1] >= '0' && word[1] <= '9';
}

Text read_modifiers(const Instruction& instruction) {
    Text text;
    for (const std::string& word : instruction.modifiers) {
        if (word == "mma" || word == "sync" || word == "aligned" || word == "popc" ||
            word == "rn") {
            continue;
        }
        if (word == "row" || word == "col") {
            text.layouts.push_back(word);
        } else if (word == "satfinite") {
            text.saturate = true;
        } else if (word == "xor" || word == "and") {
            text.bits = word == "xor" ? BitOperation::bit_xor : BitOperation::bit_and;
        } else if (word == "s32" || word == "f32" || parse_matrix_format(word)) {
            text.types.push_back(word);
        } else if (is_shape(word)) {
            text.shape = word;
        } else if (text.unknown.empty()) {
            text.unknown = word;
        }
    }
    return text;
}

bool matches(const Form& form, Family family, const Text& text) {
    if (form.family != family || form.saturate != text.saturate || form.bits != text.bits ||
        shape_of(form) != text.shape) {
        return false;
    }
    // wmma.mma of f16 names the accumulators only.
    if (text.types.size() == 2) {
        return family == Family::wmma && form.a == MatrixFormat::f16 &&
               text.types[0] == name_of(form.d) && text.types[1] == name_of(form.c);
    }
    return text.types.size() == 4 && text.types[0] == name_of(form.d) &&
           parse_matrix_format(text.types[1]) == form.a &&
           parse_matrix_format(text.types[2]) == form.b && text.types[3] == name_of(form.c);
}

std::string name_of(const Instruction& instruction) {
    std::string name = instruction.opcode;
    for (const std::string& word : instruction.modifiers) name += "." + word;
    return name;
}

[[noreturn]] void refuse(PtxError::Kind kind, const Instruction& instruction,
                         std::string_view reason) {
    throw PtxError(kind, instruction.place, fmt::format("{}: {}", name_of(instruction), reason));
}

std::vector<int> operand_sizes(const Instruction& instruction) {
    std::vector<int> sizes;
    for (const Operand& operand : instruction.operands) {
        sizes.push_back(
            operand.kind == Operand::Kind::vector ? static_cast<int>(operand.elements.size()) : 1);
    }
    return sizes;
}

PureOp make_op(const Form& form, PureFn function) {
    PureOp op;
    op.run = function;
    op.destinations = d_registers(form);
    op.rows.assign(static_cast<std::size_t>(d_registers(form) + form.a_registers +
                                            form.b_registers + c_registers(form)),
                   form.d == Accumulator::f64 ? Row::b64 : Row::b32);
    op.whole_warp = true;
    return op;
}

void check_known(const Instruction& instruction, const Text& text, Family family) {
    using Kind = PtxError::Kind;
    if (!text.unknown.empty()) {
        refuse(Kind::not_emulated, instruction,
               fmt::format("the form .{} is not emulated", text.unknown));
    }
    if (text.shape.empty() || text.types.empty() || text.layouts.size() != 2) {
        refuse(Kind::malformed, instruction, "no shape, types or layouts");
    }
    if (family == Family::wmma) return;
    if (text.shape == "m8n8k4" && text.types.front() != "f64") {
        refuse(Kind::not_emulated, instruction,
               "the shape m8n8k4 of f16, made for sm_70, is not emulated");
    }
    if (text.layouts[0] != "row" || text.layouts[1] != "col") {
        refuse(Kind::malformed, instruction, "the layouts of this shape are .row.col");
    }
}

}  // namespace

std::optional<PureOp> find_mma(const Instruction& instruction, Isa isa) {
    const bool is_wmma = instruction.opcode == "wmma" && !instruction.modifiers.empty() &&
                         instruction.modifiers.front() == "mma";
    if (instruction.opcode != "mma" && !is_wmma) return std::nullopt;
    const Family family = is_wmma ? Family::wmma : Family::mma;
    const Text text = read_modifiers(instruction);
    check_known(instruction, text, family);
    for (std::size_t i = 0; i < forms.count; ++i) {
        const Form& form = forms.all[i];
        if (!matches(form, family, text)) continue;
        const std::vector<int> expected{d_registers(form), form.a_registers, form.b_registers,
                                        c_registers(form)};
        if (operand_sizes(instruction) != expected) {
            refuse(PtxError::Kind::malformed, instruction,
                   fmt::format("expected operands of {}, {}, {} and {} registers", expected[0],
                               expected[1], expected[2], expected[3]));
        }
        return make_op(form,
                       isa == Isa::avx2 ? functions<Isa::avx2>[i] : functions<Isa::portable>[i]);
    }
    refuse(PtxError::Kind::not_emulated, instruction,
           "this combination of shape and types is not emulated");
}

}  // namespace kernelforge::emulator
