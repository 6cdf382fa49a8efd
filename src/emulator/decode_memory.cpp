// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "emulator/decode_function.hpp"

namespace kernelforge::emulator::decoding {

namespace {

std::optional<Scope> scope_of(const Instruction& instruction) {
    static constexpr std::array<std::pair<std::string_view, Scope>, 4> words{
        {{"cta", Scope::cta},
         {"cluster", Scope::cluster},
         {"gpu", Scope::gpu},
         {"sys", Scope::sys}}};
    for (const auto& [word, scope] : words) {
        if (instruction.has(word)) {
            return scope;
        }
    }
    return std::nullopt;
}

MemoryOp::Combine combine_of(const Instruction& instruction) {
    using C = MemoryOp::Combine;
    static constexpr std::array<std::pair<std::string_view, C>, 10> words{
        {{"exch", C::exchange},
         {"cas", C::compare_exchange},
         {"add", C::add},
         {"min", C::min},
         {"max", C::max},
         {"inc", C::inc},
         {"dec", C::dec},
         {"and", C::bit_and},
         {"or", C::bit_or},
         {"xor", C::bit_xor}}};
    for (const auto& [word, combine] : words) {
        if (instruction.has(word)) {
            return combine;
        }
    }
    return C::none;
}

bool is_floating(Type type) {
    return type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2 ||
           type == Type::f32 || type == Type::f64;
}

/// Combinations that the PTX ISA 9.0 has for sm_90 ("atom", "red").
bool is_combination(MemoryOp::Combine combine, Type type) {
    using C = MemoryOp::Combine;
    const int bytes = bytes_of(type);
    switch (combine) {
        case C::none:
            return false;
        case C::exchange:
            return bytes >= 4;
        case C::compare_exchange:
            return bytes >= 2;
        case C::bit_and:
        case C::bit_or:
        case C::bit_xor:
            return bytes >= 4 && !is_floating(type);
        case C::inc:
        case C::dec:
            return type == Type::u32 || type == Type::b32;
        case C::min:
        case C::max:
            return bytes >= 4 ? type != Type::f32 && type != Type::f64 : is_floating(type);
        case C::add:
            return bytes >= 4 || is_floating(type);
    }
    return false;
}

}  // namespace

MemoryOp FunctionDecoder::memory_op(MemoryOp::What what) const {
    MemoryOp op;
    op.what = what;
    op.space = space(Space::generic);
    op.type = value_type();
    if (bytes_of(op.type) == 0) {
        bad("its type has no size");
    }
    for (const auto& [word, elements] :
         {std::pair{"v2", 2}, std::pair{"v4", 4}, std::pair{"v8", 8}}) {
        if (has(word)) {
            op.elements = elements;
        }
    }
    op.is_signed = is_signed(op.type);
    op.alignment = bytes_of(op.type) * op.elements;
    if (op.alignment > 32) {
        bad(fmt::format("a vector of {} bytes", op.alignment));
    }
    return op;
}

void FunctionDecoder::memory_order(MemoryOp& op, Order otherwise) const {
    op.order = otherwise;
    for (const auto& [word, order] :
         {std::pair{"volatile", Order::is_volatile}, std::pair{"mmio", Order::relaxed},
          std::pair{"relaxed", Order::relaxed}, std::pair{"acquire", Order::acquire},
          std::pair{"release", Order::release}, std::pair{"acq_rel", Order::acq_rel}}) {
        if (has(word)) {
            op.order = order;
        }
    }
    // A volatile access is a relaxed one of the system (PTX ISA, memory consistency model).
    op.scope = scope_of(*now_).value_or(op.order == Order::is_volatile ? Scope::sys : Scope::gpu);
}

void FunctionDecoder::place_address(MemoryOp& op, const Address& where) const {
    op.address_row = where.shape;
    op.symbol = where.symbol;
    op.offset = where.offset;
    if (where.symbol < 0) {
        return;
    }
    const Symbol& variable = code_.symbols[static_cast<std::size_t>(where.symbol)];
    if (op.space == Space::generic) {
        op.space = variable.space;
    } else if (op.space != variable.space) {
        bad(fmt::format("{} is in another state space", variable.name));
    }
    // Other variables may be overrun by a candidate; that is found when it happens.
    if (op.space == Space::param) {
        const auto bytes = static_cast<std::int64_t>(bytes_of(op.type) * op.elements);
        if (op.offset < 0 || op.offset + bytes > static_cast<std::int64_t>(variable.bytes)) {
            bad(fmt::format("bytes {} to {} of {}, which has {}", op.offset, op.offset + bytes,
                            variable.name, variable.bytes));
        }
    }
}

void FunctionDecoder::emit_memory(const MemoryOp& op, const std::vector<RowRef>& operands,
                                  int destinations) {
    code_.memory.push_back(op);
    Effects effects;
    effects.destinations = static_cast<std::uint16_t>(destinations);
    emit(Kind::memory, code_.memory.size() - 1, operands, effects);
}

namespace {

/// The values of a vector operand, or the operand itself.
std::vector<Operand> values_of(const Operand& operand) {
    return operand.kind == Operand::Kind::vector ? operand.elements : std::vector{operand};
}

}  // namespace

/// Shape of data operands: that of the first register, else what holds the type.
Row FunctionDecoder::data_shape(const std::vector<Operand>& values, Type type) const {
    const Row otherwise = bytes_of(type) == 8 ? Row::b64 : Row::b32;
    for (const Operand& value : values) {
        const Row shape = shape_of(value, Row::none);
        if (shape == Row::predicate || (shape == Row::b32 && otherwise == Row::b64)) {
            bad(fmt::format("register {} does not hold its type", value.name));
        }
        if (shape != Row::none) {
            return shape;
        }
    }
    return otherwise;
}

void FunctionDecoder::load() {
    // A cache policy may stand behind.
    expect_operands(2, 3);
    MemoryOp op = memory_op(MemoryOp::What::load);
    memory_order(op, Order::weak);
    op.read_only = has("nc") || now_->opcode == "ldu";
    op.speculative = speculative_;
    const Operands values = values_of(now_->operands[0]);
    if (values.size() != static_cast<std::size_t>(op.elements)) {
        bad(fmt::format("{} destinations, expected {}", values.size(), op.elements));
    }
    op.data_row = data_shape(values, op.type);
    std::vector<RowRef> rows;
    for (const Operand& value : values) {
        rows.push_back(destination(value, op.data_row));
    }
    const Address where = address(now_->operands[1]);
    place_address(op, where);
    rows.push_back(where.row);
    emit_memory(op, rows, op.elements);
}

void FunctionDecoder::store() {
    if (has("async") || has("bulk")) {
        unknown();
    }
    expect_operands(2, 3);
    MemoryOp op = memory_op(MemoryOp::What::store);
    memory_order(op, Order::weak);
    const Address where = address(now_->operands[0]);
    place_address(op, where);
    if (op.space == Space::constant) {
        bad("a store into constant memory");
    }
    const Operands values = values_of(now_->operands[1]);
    if (values.size() != static_cast<std::size_t>(op.elements)) {
        bad(fmt::format("{} values, expected {}", values.size(), op.elements));
    }
    op.data_row = data_shape(values, op.type);
    std::vector<RowRef> rows{where.row};
    for (const Operand& value : values) {
        rows.push_back(source(value, op.data_row));
    }
    emit_memory(op, rows, 0);
}

void FunctionDecoder::atomic() {
    if (has("async")) {
        unknown();
    }
    const bool is_reduction = now_->opcode == "red";
    MemoryOp op = memory_op(is_reduction ? MemoryOp::What::reduction : MemoryOp::What::atomic);
    memory_order(op, Order::relaxed);
    op.combine = combine_of(*now_);
    if (!is_combination(op.combine, op.type)) {
        unknown("that operation on that type");
    }
    const bool is_exchange = op.combine == MemoryOp::Combine::compare_exchange ||
                             op.combine == MemoryOp::Combine::exchange;
    if (op.elements > 1 && (is_exchange || op.space == Space::shared)) {
        unknown("vectors of it");
    }
    const std::size_t values = op.combine == MemoryOp::Combine::compare_exchange ? 2 : 1;
    const std::size_t first = is_reduction ? 0 : 1;
    const std::size_t policy = has("L2::cache_hint") ? 1 : 0;
    expect_operands(first + 1 + values + policy, first + 1 + values + policy);
    std::vector<RowRef> rows;
    if (op.combine == MemoryOp::Combine::none || (is_reduction && is_exchange)) {
        unknown();
    }
    op.data_row = data_shape(values_of(now_->operands[first + 1]), op.type);
    if (!is_reduction) {
        Operands results = values_of(now_->operands[0]);
        results.resize(static_cast<std::size_t>(op.elements));  // `_` alone: all of them
        for (const Operand& result : results) {
            rows.push_back(destination(result, op.data_row));
        }
    }
    const int destinations = static_cast<int>(rows.size());
    const Address where = address(now_->operands[first]);
    place_address(op, where);
    if (op.space == Space::constant || op.space == Space::param || op.space == Space::local) {
        bad("an atomic operation outside of global and shared memory");
    }
    rows.push_back(where.row);
    for (std::size_t i = first + 1; i <= first + values; ++i) {
        const Operands elements = values_of(now_->operands[i]);
        if (elements.size() != static_cast<std::size_t>(op.elements)) {
            bad(fmt::format("{} values, expected {}", elements.size(), op.elements));
        }
        for (const Operand& element : elements) {
            rows.push_back(source(element, op.data_row));
        }
    }
    emit_memory(op, rows, destinations);
}

}  // namespace kernelforge::emulator::decoding
