// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "emulator/decode_function.hpp"
#include "emulator/decode_special.hpp"

namespace kernelforge::emulator::decoding {

namespace {

Row row_of(Type type) {
    switch (type) {
        case Type::pred:
            return Row::predicate;
        case Type::b64:
        case Type::u64:
        case Type::s64:
        case Type::f64:
        case Type::f32x2:
            return Row::b64;
        default:
            return Row::b32;
    }
}

const char* describe(Row row) {
    switch (row) {
        case Row::predicate:
            return "a predicate";
        case Row::b32:
            return "at most 32 bits";
        case Row::b64:
            return "64 bits";
        case Row::none:
            return "nothing";
    }
    return "nothing";
}

/// Immediates as the PTX ISA types them: a floating one that stands where the other width is wanted
/// is converted.
std::uint64_t immediate_bits(const Operand& operand, Row shape) {
    if (operand.kind == Operand::Kind::f64_bits && shape == Row::b32) {
        return std::bit_cast<std::uint32_t>(
            static_cast<float>(std::bit_cast<double>(operand.bits)));
    }
    if (operand.kind == Operand::Kind::f32_bits && shape == Row::b64) {
        const auto bits = static_cast<std::uint32_t>(operand.bits);
        return std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
    }
    return operand.bits;
}

bool is_immediate(const Operand& operand) {
    return operand.kind == Operand::Kind::integer || operand.kind == Operand::Kind::f32_bits ||
           operand.kind == Operand::Kind::f64_bits;
}

bool is_register(const Operand& operand) {
    return operand.kind == Operand::Kind::reg || operand.kind == Operand::Kind::predicate;
}

/// Instructions whose second operand may be a destination too (`d|p`).
bool has_second_destination(const std::string& opcode) {
    return opcode == "setp" || opcode == "shfl" || opcode == "match" || opcode == "elect";
}

}  // namespace

Place FunctionDecoder::place() const {
    Place here = now_->place;
    if (here.source_line == 0) here.source_line = line_;
    return here;
}

void FunctionDecoder::bad(const std::string& what) const {
    malformed(now_ != nullptr ? place() : function_.place,
              now_ != nullptr ? fmt::format("{} in {}", what, name()) : what);
}

void FunctionDecoder::unknown(const std::string& why) const {
    not_emulated(place(), why.empty()
                              ? fmt::format("instruction {} is not emulated", name())
                              : fmt::format("instruction {} is not emulated: {}", name(), why));
}

void FunctionDecoder::declare_registers() {
    for (const auto& [register_name, type] : function_.registers) {
        register_numbers_.emplace(register_name, static_cast<int>(register_types_.size()));
        register_types_.push_back(type);
        virtual_.registers.push_back(row_of(type));
    }
    constant_registers_.assign(register_types_.size(), no_row);
}

/// A register that one unguarded mov writes, from a value that never changes, is that value's row.
/// What is read before that mov is undefined, so it may have the value already.
void FunctionDecoder::find_constant_registers() {
    std::vector<int> writes(register_types_.size(), 0);
    const auto count = [&](const Operand& operand) {
        if (is_register(operand)) {
            const auto at = register_numbers_.find(operand.name);
            if (at != register_numbers_.end()) {
                ++writes[static_cast<std::size_t>(at->second)];
            }
        }
    };
    const auto count_all = [&](const Operand& operand) {
        count(operand);
        for (const Operand& element : operand.elements) {
            count(element);
        }
    };
    for (const Instruction& instruction : function_.instructions) {
        const bool two = has_second_destination(instruction.opcode);
        for (std::size_t i = 0; i < instruction.operands.size() && i < (two ? 2U : 1U); ++i) {
            if (instruction.operands[i].kind != Operand::Kind::address) {
                count_all(instruction.operands[i]);
            }
        }
        for (const Operand& operand : instruction.call_returns) {
            count_all(operand);
        }
    }
    for (const Instruction& instruction : function_.instructions) {
        const bool is_policy = instruction.opcode == "createpolicy";
        if ((instruction.opcode != "mov" && !is_policy) || !instruction.guard.empty() ||
            instruction.operands.size() < 2 || !is_register(instruction.operands[0])) {
            continue;
        }
        const auto at = register_numbers_.find(instruction.operands[0].name);
        if (at == register_numbers_.end() || writes[static_cast<std::size_t>(at->second)] != 1) {
            continue;
        }
        const auto number = static_cast<std::size_t>(at->second);
        const auto value =
            constant_value(instruction, virtual_.registers[number], register_types_[number]);
        if (value) {
            constant_registers_[number] = *value;
        }
    }
}

std::optional<RowRef> FunctionDecoder::constant_value(const Instruction& instruction, Row row,
                                                      Type type) {
    if (instruction.opcode == "createpolicy") {
        return fixed_.constant(row, 0);
    }
    if (instruction.operands.size() != 2) {
        return std::nullopt;
    }
    const Operand& value = instruction.operands[1];
    if (is_immediate(value)) {
        std::uint64_t bits = immediate_bits(value, row);
        if (row == Row::b32 && bytes_of(type) < 4) {
            bits &= (std::uint64_t{1} << (8 * bytes_of(type))) - 1;
        }
        return fixed_.constant(row, bits);
    }
    if (value.kind == Operand::Kind::special && row == Row::b32) {
        const std::optional<Special> special = find_special(value.name);
        if (special && special->is_fixed) {
            return fixed_.special(special->which);
        }
    }
    if (value.kind == Operand::Kind::symbol && row != Row::predicate) {
        const auto symbol = find_symbol(value.name);
        if (symbol && module_.shared_constants.count(*symbol) != 0) {
            return fixed_.constant(row, static_cast<std::uint64_t>(
                                            module_.shared_constants.at(*symbol) + value.offset));
        }
    }
    return std::nullopt;
}

int FunctionDecoder::register_of(const std::string& register_name) const {
    const auto at = register_numbers_.find(register_name);
    if (at == register_numbers_.end()) {
        bad(fmt::format("register {} is not declared", register_name));
    }
    return at->second;
}

std::optional<std::int32_t> FunctionDecoder::find_symbol(const std::string& symbol_name) const {
    if (const auto at = layout_.symbols.find(symbol_name); at != layout_.symbols.end()) {
        return at->second;
    }
    if (const auto at = module_.symbols.find(symbol_name); at != module_.symbols.end()) {
        return at->second;
    }
    return std::nullopt;
}

Type FunctionDecoder::type_of(const Operand& operand) const {
    return is_register(operand)
               ? register_types_[static_cast<std::size_t>(register_of(operand.name))]
               : Type::none;
}

Row FunctionDecoder::shape_of(const Operand& operand, Row otherwise) const {
    return is_register(operand)
               ? virtual_.registers[static_cast<std::size_t>(register_of(operand.name))]
               : otherwise;
}

RowRef FunctionDecoder::temporary(Row shape) {
    virtual_.registers.push_back(shape);
    register_types_.push_back(shape == Row::predicate ? Type::pred
                              : shape == Row::b64     ? Type::b64
                                                      : Type::b32);
    constant_registers_.push_back(no_row);
    return static_cast<RowRef>(virtual_.registers.size() - 1);
}

Operand FunctionDecoder::named_temporary(Type type) {
    const RowRef row = temporary(row_of(type));
    register_types_.back() = type;
    Operand operand;
    operand.kind = type == Type::pred ? Operand::Kind::predicate : Operand::Kind::reg;
    // A blank cannot stand in a name of the text.
    operand.name = fmt::format("decoder {}", temporaries_++);
    register_numbers_.emplace(operand.name, row);
    return operand;
}

Operand FunctionDecoder::integer(std::uint64_t bits) {
    Operand operand;
    operand.kind = Operand::Kind::integer;
    operand.bits = bits;
    return operand;
}

RowRef FunctionDecoder::source(const Operand& operand, Row shape) {
    switch (operand.kind) {
        case Operand::Kind::reg:
        case Operand::Kind::predicate: {
            const auto number = static_cast<std::size_t>(register_of(operand.name));
            if (virtual_.registers[number] != shape) {
                bad(fmt::format("register {} has {} where {} is wanted", operand.name,
                                describe(virtual_.registers[number]), describe(shape)));
            }
            return constant_registers_[number] != no_row ? constant_registers_[number]
                                                         : static_cast<RowRef>(number);
        }
        case Operand::Kind::integer:
        case Operand::Kind::f32_bits:
        case Operand::Kind::f64_bits:
            return fixed_.constant(shape, immediate_bits(operand, shape));
        case Operand::Kind::special: {
            const std::optional<Special> special = find_special(operand.name);
            if (!special || !special->is_fixed) {
                unknown(fmt::format("special register {}", operand.name));
            }
            if (shape != Row::b32) {
                bad(fmt::format("special register {} has 32 bits", operand.name));
            }
            return fixed_.special(special->which);
        }
        case Operand::Kind::symbol:
            return symbol_value(operand, shape);
        default:
            bad("an operand is no value");
    }
}

RowRef FunctionDecoder::symbol_value(const Operand& operand, Row shape) {
    const auto symbol = find_symbol(operand.name);
    if (!symbol) {
        if (module_.functions.count(operand.name) != 0) {
            unknown(fmt::format("address of function {}", operand.name));
        }
        bad(fmt::format("{} is not declared", operand.name));
    }
    if (shape == Row::predicate) {
        bad(fmt::format("{} is no predicate", operand.name));
    }
    if (const auto at = module_.shared_constants.find(*symbol);
        at != module_.shared_constants.end()) {
        return fixed_.constant(shape, static_cast<std::uint64_t>(at->second + operand.offset));
    }
    const RowRef result = temporary(shape);
    QueryOp op;
    op.what = QueryOp::What::to_space;
    op.symbol = *symbol;
    op.offset = operand.offset;
    op.space = code_.symbols[static_cast<std::size_t>(*symbol)].space;
    op.row = shape;
    const bool guarded = std::exchange(guarded_, false);
    query(op, {result, no_row});
    guarded_ = guarded;
    return result;
}

RowRef FunctionDecoder::destination(const Operand& operand, Row shape) {
    if (operand.kind == Operand::Kind::sink) {
        return no_row;
    }
    if (!is_register(operand) || operand.negated) {
        bad("a destination is no register");
    }
    const auto number = static_cast<std::size_t>(register_of(operand.name));
    if (virtual_.registers[number] != shape) {
        bad(fmt::format("register {} has {} where {} is wanted", operand.name,
                        describe(virtual_.registers[number]), describe(shape)));
    }
    if (constant_registers_[number] != no_row) {
        // The search for constant registers must have seen every write.
        bad(fmt::format("register {} is written where no result stands", operand.name));
    }
    return static_cast<RowRef>(number);
}

Address FunctionDecoder::address(const Operand& operand) const {
    if (operand.kind != Operand::Kind::address || !operand.elements.empty()) {
        bad("an operand is no address");
    }
    Address result;
    result.offset = operand.offset;
    if (operand.name.empty()) {
        return result;
    }
    const auto number = register_numbers_.find(operand.name);
    if (number != register_numbers_.end()) {
        const auto index = static_cast<std::size_t>(number->second);
        result.shape = virtual_.registers[index];
        if (result.shape == Row::predicate) {
            bad(fmt::format("predicate {} is no address", operand.name));
        }
        result.row = constant_registers_[index] != no_row ? constant_registers_[index]
                                                          : static_cast<RowRef>(index);
        return result;
    }
    const auto symbol = find_symbol(operand.name);
    if (!symbol) {
        if (module_.missing.count(operand.name) != 0) {
            bad(fmt::format("variable {} is declared, but defined nowhere", operand.name));
        }
        bad(fmt::format("{} is not declared", operand.name));
    }
    result.symbol = *symbol;
    return result;
}

void FunctionDecoder::expect_operands(std::size_t least, std::size_t most) const {
    const std::size_t found = now_->operands.size();
    if (found < least || found > most) {
        bad(least == most ? fmt::format("{} operands, expected {}", found, least)
                          : fmt::format("{} operands, expected {} to {}", found, least, most));
    }
}

int FunctionDecoder::immediate(const Operand& operand, int least, int most) const {
    const auto value = static_cast<std::int64_t>(operand.bits);
    if (operand.kind != Operand::Kind::integer) {
        bad("an operand is no constant");
    }
    if (value < least || value > most) {
        bad(fmt::format("constant {}, expected {} to {}", value, least, most));
    }
    return static_cast<int>(value);
}

Space FunctionDecoder::space(Space otherwise) const {
    static constexpr std::array<std::pair<std::string_view, Space>, 9> words{{
        {"global", Space::global},
        {"shared", Space::shared},
        {"shared::cta", Space::shared},
        {"shared::cluster", Space::shared},
        {"local", Space::local},
        {"const", Space::constant},
        {"param", Space::param},
        {"param::entry", Space::param},
        {"param::func", Space::param},
    }};
    for (const auto& [word, result] : words) {
        if (has(word)) {
            return result;
        }
    }
    return otherwise;
}

/// The last modifier that is a type: that of the value.
Type FunctionDecoder::value_type() const {
    for (auto at = now_->modifiers.rbegin(); at != now_->modifiers.rend(); ++at) {
        if (const auto type = parse_type(*at)) {
            return *type;
        }
    }
    unknown("its type");
}

}  // namespace kernelforge::emulator::decoding
