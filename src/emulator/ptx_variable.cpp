// SPDX-License-Identifier: Apache-2.0
#include "emulator/ptx_variable.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace kernelforge::emulator::ptx {
namespace {

/// Over any device's memory; products of sizes stay within 64 bits.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 40;
constexpr std::uint64_t most_initial_bytes = std::uint64_t{1} << 28;
constexpr std::size_t most_dimensions = 16;

/// `.align`, `.v2`, the type and attributes, in any order, up to the name.
void qualifiers(Text& text, Variable& variable) {
    variable.type = Type::none;
    variable.alignment = 0;
    while (text.peek() == '.') {
        const std::string_view word = text.dotted();
        if (word == "align") {
            variable.alignment = text.count(1 << 20, "the alignment");
            if (!std::has_single_bit(variable.alignment)) {
                text.malformed("the alignment " + std::to_string(variable.alignment) +
                               " is no power of two");
            }
        } else if (word == "v2" || word == "v4" || word == "v8") {
            variable.vector = word[1] - '0';
        } else if (word == "attribute") {
            text.expect('(');
            text.skip_parentheses();
        } else if (word == "ptr") {
            // What a pointer points to is known only when it is used: `.ptr .global .align 16`.
            while (text.peek() == '.') {
                if (text.dotted() == "align") (void)text.count(1 << 20, "the alignment");
            }
        } else if (variable.type == Type::none) {
            variable.type = type_word(text, word);
        } else {
            text.malformed("expected the name of a variable, found " + quote(word));
        }
    }
    if (variable.type == Type::none) text.expected("the type of a variable");
    if (variable.type == Type::pred) text.malformed("a variable in memory cannot be a predicate");
    if (variable.alignment == 0) {
        variable.alignment = static_cast<std::uint64_t>(bytes_of(variable.type) * variable.vector);
    }
}

/// `[3][]`; an unsized dimension is 0.
std::vector<std::uint64_t> dimensions(Text& text) {
    std::vector<std::uint64_t> result;
    while (text.take('[')) {
        if (result.size() == most_dimensions) text.malformed("an array has too many dimensions");
        if (text.take(']')) {
            if (!result.empty()) text.malformed("only the first dimension may be left open");
            result.push_back(0);
            continue;
        }
        result.push_back(text.count(most_bytes, "the size of an array"));
        text.expect(']');
    }
    return result;
}

/// Reads `= {…}` into a variable. State with an invariant: `strides_` are the bytes of what one
/// brace of each level holds, the last those of an element.
class Initialiser {
  public:
    Initialiser(Text& text, Variable& variable, std::vector<std::uint64_t> strides, bool open)
        : text_(text), variable_(variable), strides_(std::move(strides)), open_(open) {}

    /// @returns the bytes that the values reach
    std::uint64_t read() {
        const std::uint64_t end = text_.take('{') ? list(0, 0) : value(0);
        if (mask_bytes_ != 0) finish_mask();
        return end;
    }

  private:
    std::uint64_t list(std::size_t level, std::uint64_t begin) {
        if (level + 1 >= strides_.size()) {
            text_.malformed("the initialiser of " + variable_.name + " has too many braces");
        }
        std::uint64_t at = begin;
        std::uint64_t reached = begin;
        while (!text_.take('}')) {
            if (!(open_ && level == 0) && at >= begin + strides_[level]) too_long();
            if (text_.take('{')) {
                reached = std::max(reached, list(level + 1, at));
                at += strides_[level + 1];
            } else {
                at = value(at);
                reached = std::max(reached, at);
            }
            if (!text_.take(',') && text_.peek() != '}') text_.expected("\",\" or \"}\"");
        }
        return open_ && level == 0 ? at : reached;
    }

    /// One scalar at byte `at`. @returns the byte after it
    std::uint64_t value(std::uint64_t at) {
        const auto bytes = static_cast<std::uint64_t>(bytes_of(variable_.type));
        if (at + bytes > most_initial_bytes) too_long();
        if (!text_.at_word()) {
            const Number number = text_.number();
            if (number.kind == Number::Kind::integer && text_.peek() == '(') {
                masked(at, number.bits);
            } else {
                store(at, number);
            }
        } else {
            relocation(at, static_cast<int>(bytes));
        }
        return at + bytes;
    }

    /// `symbol+n`, `generic(symbol)+n`.
    Relocation address() {
        Relocation result;
        std::string_view name = text_.word();
        if (name == "generic" && text_.take('(')) {
            result.generic = true;
            name = text_.word();
            if (text_.peek() == '+' || text_.peek() == '-') result.offset = text_.integer();
            text_.expect(')');
        }
        result.symbol = name;
        if (text_.peek() == '+' || text_.peek() == '-') {
            const std::int64_t more = text_.integer();
            result.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(result.offset) +
                                                      static_cast<std::uint64_t>(more));
        }
        return result;
    }

    void relocation(std::uint64_t at, int bytes) {
        if (bytes < 4) text_.malformed("an address does not fit into an element of this type");
        Relocation result = address();
        result.at = at;
        result.bytes = bytes;
        reserve(at + static_cast<std::uint64_t>(bytes));
        variable_.relocations.push_back(std::move(result));
    }

    /// `0xFF00(symbol)`: one byte of an address. The eight bytes of one in order make a relocation.
    void masked(std::uint64_t at, std::uint64_t mask) {
        text_.expect('(');
        Relocation part = address();
        text_.expect(')');
        const int shift = std::countr_zero(mask);
        if (mask == 0 || mask >> shift != 0xFF || shift % 8 != 0 || bytes_of(variable_.type) != 1) {
            text_.not_emulated("an initialiser that masks other than one byte of an address");
        }
        if (mask_bytes_ == 0) {
            part.at = at;
            part.bytes = 8;
            variable_.relocations.push_back(part);
        }
        const Relocation& whole = variable_.relocations.back();
        if (shift != 8 * mask_bytes_ || whole.symbol != part.symbol ||
            whole.offset != part.offset || whole.generic != part.generic ||
            at != whole.at + static_cast<std::uint64_t>(mask_bytes_)) {
            finish_mask();
        }
        reserve(at + 1);
        mask_bytes_ = (mask_bytes_ + 1) % 8;
    }

    void finish_mask() {
        text_.not_emulated("an initialiser with single bytes of an address out of order");
    }

    void store(std::uint64_t at, const Number& number) {
        if (mask_bytes_ != 0) finish_mask();
        std::uint64_t bits = number.bits;
        const bool single = variable_.type == Type::f32;
        const bool floating = single || variable_.type == Type::f64;
        if (number.kind != Number::Kind::integer && !floating &&
            bytes_of(variable_.type) != (number.kind == Number::Kind::f32 ? 4 : 8)) {
            text_.malformed("a floating-point number initialises an integer");
        }
        if (floating && number.kind == Number::Kind::integer) {
            bits =
                std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
        }
        if (single && number.kind != Number::Kind::f32) bits = narrow(bits);
        if (!single && floating && number.kind == Number::Kind::f32) {
            bits = std::bit_cast<std::uint64_t>(
                static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
        }
        const auto bytes = static_cast<std::uint64_t>(bytes_of(variable_.type));
        reserve(at + bytes);
        for (std::uint64_t i = 0; i < bytes; ++i) {
            variable_.initial[at + i] = static_cast<char>(bits >> (8 * i));
        }
    }

    /// A double outside a float's range is undefined to convert; it becomes an infinity.
    static std::uint64_t narrow(std::uint64_t bits) {
        const double value = std::bit_cast<double>(bits);
        constexpr double most = std::numeric_limits<float>::max();
        float single = std::numeric_limits<float>::infinity();
        if (value < -most) single = -single;
        if (!(value > most) && !(value < -most)) single = static_cast<float>(value);
        return std::bit_cast<std::uint32_t>(single);
    }

    void reserve(std::uint64_t bytes) {
        if (variable_.initial.size() < bytes) variable_.initial.resize(bytes);
    }

    [[noreturn]] void too_long() {
        text_.malformed("the initialiser of " + variable_.name + " is longer than the variable");
    }

    Text& text_;
    Variable& variable_;
    std::vector<std::uint64_t> strides_;
    bool open_ = false;   ///< the first dimension follows from the values
    int mask_bytes_ = 0;  ///< of the address that is being put together
};

/// Bytes of what each level of braces holds: the whole, …, a vector, an element.
std::vector<std::uint64_t> strides_of(Text& text, const Variable& variable,
                                      const std::vector<std::uint64_t>& sizes) {
    std::vector<std::uint64_t> result = {static_cast<std::uint64_t>(bytes_of(variable.type))};
    if (variable.vector > 1) {
        result.insert(result.begin(), result.front() * static_cast<std::uint64_t>(variable.vector));
    }
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
        if (*size != 0 && result.front() > most_bytes / *size) {
            text.malformed("the variable " + variable.name + " is too large");
        }
        result.insert(result.begin(), result.front() * *size);
    }
    return result;
}

/// From the name on, without what ends it.
void declarator(Text& text, Variable& variable) {
    variable.place = text.place();
    variable.name = text.word();
    const std::vector<std::uint64_t> sizes = dimensions(text);
    std::vector<std::uint64_t> strides = strides_of(text, variable, sizes);
    variable.bytes = strides.front();
    const bool open = !sizes.empty() && sizes.front() == 0;
    if (!text.take('=')) return;
    const std::uint64_t unit = strides.size() > 1 ? strides[1] : strides[0];
    Initialiser initialiser(text, variable, std::move(strides), open);
    const std::uint64_t reached = initialiser.read();
    if (open && unit != 0) variable.bytes = (reached + unit - 1) / unit * unit;
}

}  // namespace

std::optional<Space> parse_space(std::string_view word) noexcept {
    if (word == "global") return Space::global;
    if (word == "shared") return Space::shared;
    if (word == "local") return Space::local;
    if (word == "const") return Space::constant;
    if (word == "param") return Space::param;
    return std::nullopt;
}

Type type_word(const Text& text, std::string_view word) {
    if (const std::optional<Type> type = parse_type(word)) return *type;
    if (word == "texref" || word == "samplerref" || word == "surfref" || word == "b128") {
        text.not_emulated("the type ." + std::string(word));
    }
    text.malformed("expected a type, found " + quote("." + std::string(word)));
}

std::vector<Variable> variables(Text& text, Space space, bool is_extern) {
    Variable first;
    first.space = space;
    first.is_extern = is_extern;
    qualifiers(text, first);
    std::vector<Variable> result;
    do {
        Variable next = first;
        declarator(text, next);
        result.push_back(std::move(next));
    } while (text.take(','));
    text.expect(';');
    return result;
}

Variable parameter(Text& text) {
    const std::string_view word = text.dotted();
    if (word == "reg") text.not_emulated("a parameter in a register");
    if (word != "param") text.malformed("expected .param, found " + quote(word));
    Variable result;
    result.space = Space::param;
    qualifiers(text, result);
    declarator(text, result);
    return result;
}

}  // namespace kernelforge::emulator::ptx
