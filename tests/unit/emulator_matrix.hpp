// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/lanes.hpp"
#include "emulator/ptx_module.hpp"
#include "emulator/pure_ops.hpp"

// What the tests of matrix instructions share: register rows, and formats by their definitions.

namespace kernelforge::test {

[[nodiscard]] inline emulator::Isa best_isa_here() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return emulator::Isa::avx2;
    }
#endif
    return emulator::Isa::portable;
}

/// Register rows of a warp, of 256 bytes each, so that they hold b32 and b64.
class Frame {
  public:
    [[nodiscard]] emulator::Rows rows() { return {bytes_->data(), nullptr}; }
    [[nodiscard]] static emulator::RowRef row(int index) { return index * 256; }
    [[nodiscard]] std::uint32_t* words(int index) { return rows().at<std::uint32_t>(row(index)); }
    /// Element `i` of a fragment of `bits`-bit elements whose registers start at `first`, in the
    /// order in which the ISA counts: the low bits of a register first.
    [[nodiscard]] std::uint64_t element(int first, int lane, int i, int bits) {
        if (bits == 64) return rows().at<std::uint64_t>(row(first + i))[lane];
        const int each = 32 / bits;
        const std::uint64_t word = words(first + i / each)[lane];
        return word >> (i % each * bits) & ((std::uint64_t{1} << bits) - 1);
    }
    void set_element(int first, int lane, int i, int bits, std::uint64_t value) {
        if (bits == 64) {
            rows().at<std::uint64_t>(row(first + i))[lane] = value;
            return;
        }
        const int each = 32 / bits, shift = i % each * bits;
        std::uint32_t& word = words(first + i / each)[lane];
        const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1) << shift;
        word = (word & ~mask) | (static_cast<std::uint32_t>(value) << shift & mask);
    }

  private:
    struct alignas(128) Bytes : std::array<std::byte, 200 * 256> {};
    std::unique_ptr<Bytes> bytes_ = std::make_unique<Bytes>();
};

struct FormatParts {
    int mantissa = 0, exponent = 0, bias = 0;
};
[[nodiscard]] inline FormatParts format_parts(const std::string& type) {
    if (type == "f16") return {10, 5, 15};
    if (type == "bf16") return {7, 8, 127};
    if (type == "tf32" || type == "f32") return {23, 8, 127};
    if (type == "f64") return {52, 11, 1023};
    if (type == "e4m3") return {3, 4, 7};
    if (type == "e5m2") return {2, 5, 15};
    return {};
}

[[nodiscard]] inline int element_bits(const std::string& type) {
    if (type == "b1") return 1;
    if (type == "s4" || type == "u4") return 4;
    if (type == "s8" || type == "u8") return 8;
    if (type == "s32") return 32;
    const FormatParts parts = format_parts(type);
    return parts.mantissa + parts.exponent + 1;
}

/// Value of the bits of a type, from its definition. The low 13 bits of tf32 do not count.
[[nodiscard]] inline double value_of(const std::string& type, std::uint64_t bits) {
    if (type == "b1" || type[0] == 'u') return static_cast<double>(bits);
    if (type[0] == 's') {
        const int width = element_bits(type);
        const auto value = static_cast<std::int64_t>(bits);
        return static_cast<double>(
            value < std::int64_t{1} << (width - 1) ? value : value - (std::int64_t{1} << width));
    }
    if (type == "tf32") bits &= ~std::uint64_t{0x1fff};
    const FormatParts p = format_parts(type);
    const auto exponent =
        static_cast<int>(bits >> p.mantissa & ((std::uint64_t{1} << p.exponent) - 1));
    const double fraction =
        std::ldexp(static_cast<double>(bits & ((std::uint64_t{1} << p.mantissa) - 1)), -p.mantissa);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - p.bias)
                                           : std::ldexp(1 + fraction, exponent - p.bias);
    return (bits >> (p.mantissa + p.exponent) & 1U) != 0 ? -magnitude : magnitude;
}

/// Random bits of a type: any integer; floats from about 1/16 to 8 in magnitude.
[[nodiscard]] inline std::uint64_t random_code(const std::string& type, std::mt19937& random) {
    const int width = element_bits(type);
    const std::uint64_t any = (std::uint64_t{random()} << 32 | random()) &
                              (width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1);
    const FormatParts p = format_parts(type);
    if (p.exponent == 0) return any;
    const auto exponent = static_cast<std::uint64_t>(p.bias - 4 + static_cast<int>(random() % 7));
    const std::uint64_t mask = ((std::uint64_t{1} << p.exponent) - 1) << p.mantissa;
    return (any & ~mask) | exponent << p.mantissa;
}

/// An instruction with vector operands of so many registers each.
[[nodiscard]] inline emulator::Instruction make_instruction(
    const std::string& opcode, const std::vector<std::string>& modifiers,
    const std::vector<int>& registers) {
    emulator::Instruction instruction;
    instruction.opcode = opcode;
    instruction.modifiers = modifiers;
    for (const int count : registers) {
        emulator::Operand operand;
        operand.kind = emulator::Operand::Kind::vector;
        operand.elements.resize(static_cast<std::size_t>(count));
        instruction.operands.push_back(operand);
    }
    return instruction;
}

}  // namespace kernelforge::test
