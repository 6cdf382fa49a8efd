// SPDX-License-Identifier: Apache-2.0
#include "emulator/pure_ops.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "emulator/pure_registry.hpp"

namespace kernelforge::emulator {

namespace {

using namespace std::string_view_literals;

/// Modifiers whose place among the others means nothing.
constexpr std::array flags = {"rz"sv,  "rm"sv,     "rp"sv,        "ftz"sv, "sat"sv,
                              "NaN"sv, "approx"sv, "satfinite"sv, "relu"sv};

/// One spelling for every way to write a form: flags in a fixed order after the opcode, then the
/// other words as they come. `.rn` is dropped: it is the default where it may be left out, and
/// there is no other meaning where it may not.
std::string canonical(const std::vector<std::string_view>& words) {
    std::string key(words.front());
    const auto append = [&key](std::string_view word) { key.append(".").append(word); };
    for (const std::string_view flag : flags) {
        if (std::find(words.begin() + 1, words.end(), flag) != words.end()) append(flag);
    }
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i] == "rn" || std::find(flags.begin(), flags.end(), words[i]) != flags.end()) {
            continue;
        }
        append(words[i]);
    }
    return key;
}

/// What one `Isa` has.
class Table final : public PureRegistry {
  public:
    explicit Table(std::initializer_list<void (*)(PureRegistry&)> families) {
        for (const auto list : families) list(*this);
    }
    void add(const PureName& name, const PureEntry& entry) override {
        std::vector<std::string_view> words;
        for (const char* word : name.words) {
            if (word != nullptr && *word != '\0') words.emplace_back(word);
        }
        opcodes_.emplace(words.front());
        if (!entries_.emplace(canonical(words), entry).second) {
            throw std::logic_error("two functions for " + canonical(words));
        }
    }
    [[nodiscard]] const PureEntry* find(const std::string& key) const {
        const auto found = entries_.find(key);
        return found == entries_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] bool has_opcode(const std::string& opcode) const {
        return opcodes_.count(opcode) != 0;
    }

  private:
    std::unordered_map<std::string, PureEntry> entries_;
    std::unordered_set<std::string> opcodes_;
};

/// Instructions that would be register-to-register ones, of which no form is emulated.
bool is_refused(std::string_view opcode) {
    constexpr std::array refused = {"vadd"sv,  "vsub"sv,   "vabsdiff"sv,  "vmin"sv,   "vmax"sv,
                                    "vshl"sv,  "vshr"sv,   "vmad"sv,      "vset"sv,   "vadd2"sv,
                                    "vsub2"sv, "vavrg2"sv, "vabsdiff2"sv, "vmin2"sv,  "vmax2"sv,
                                    "vset2"sv, "vadd4"sv,  "vsub4"sv,     "vavrg4"sv, "vmin4"sv,
                                    "vmax4"sv, "vset4"sv,  "clmad"sv};
    return std::find(refused.begin(), refused.end(), opcode) != refused.end();
}

/// Made at the first use of its `Isa`; never changed after.
const Table& table_of(Isa isa) {
#ifdef KERNELFORGE_EMULATOR_HAS_AVX2
    static const Table avx2_table({avx2::list_integer, avx2::list_compare, avx2::list_convert,
                                   avx2::list_float, avx2::list_half});
    if (isa == Isa::avx2) return avx2_table;
#endif
    (void)isa;
    static const Table portable_table({portable::list_integer, portable::list_compare,
                                       portable::list_convert, portable::list_float,
                                       portable::list_half});
    return portable_table;
}

std::string name_of(const Instruction& instruction) {
    std::string name = instruction.opcode;
    for (const std::string& modifier : instruction.modifiers) name.append(".").append(modifier);
    return name;
}

bool has(const Instruction& instruction, std::string_view modifier) {
    const auto& all = instruction.modifiers;
    return std::find(all.begin(), all.end(), modifier) != all.end();
}

[[noreturn]] void refuse(const Instruction& instruction, const std::string& why) {
    throw PtxError(PtxError::Kind::not_emulated, instruction.place,
                   name_of(instruction) + " is not emulated" + why);
}
[[noreturn]] void reject(const Instruction& instruction, const std::string& why) {
    throw PtxError(PtxError::Kind::malformed, instruction.place, name_of(instruction) + ": " + why);
}

/// Width of a type by its last number, times two for `x2`: 0 for other words.
int bits_of_word(std::string_view word) {
    if (word == "pred") return 1;
    if (word == "e4m3x2" || word == "e5m2x2") return 16;
    if (word == "tf32") return 32;
    const bool twice = word.size() > 2 && word.substr(word.size() - 2) == "x2";
    if (twice) word.remove_suffix(2);
    const std::size_t letters = word.substr(0, 2) == "bf" ? 2 : 1;
    if (word.empty() || std::string_view("bfsu").find(word[0]) == std::string_view::npos) return 0;
    const std::string_view digits = word.substr(std::min(letters, word.size()));
    for (const int bits : {8, 16, 32, 64}) {
        if (digits == std::to_string(bits)) return twice ? 2 * bits : bits;
    }
    return 0;
}

int bits_of(Type type) {
    switch (type) {
        case Type::none:
            return 0;
        case Type::pred:
            return 1;
        case Type::b8:
        case Type::u8:
        case Type::s8:
        case Type::e4m3:
        case Type::e5m2:
            return 8;
        case Type::b16:
        case Type::u16:
        case Type::s16:
        case Type::f16:
        case Type::bf16:
        case Type::e4m3x2:
        case Type::e5m2x2:
            return 16;
        case Type::b64:
        case Type::u64:
        case Type::s64:
        case Type::f64:
        case Type::f32x2:
            return 64;
        default:
            return 32;
    }
}

Row row_of(Type type) {
    const int bits = bits_of(type);
    return bits == 1 ? Row::predicate : bits == 64 ? Row::b64 : Row::b32;
}

/// Operands in order, `{a, b}` flattened.
std::vector<const Operand*> flattened(const Instruction& instruction) {
    std::vector<const Operand*> all;
    for (const Operand& operand : instruction.operands) {
        if (operand.kind != Operand::Kind::vector) {
            all.push_back(&operand);
            continue;
        }
        for (const Operand& element : operand.elements) all.push_back(&element);
    }
    return all;
}

/// cvt takes registers wider than its types: the source is cut, the result is extended.
void append_register_widths(const Instruction& instruction, const std::vector<Type>& types,
                            std::vector<std::string_view>& words) {
    std::vector<std::string_view> named;
    for (const std::string& modifier : instruction.modifiers) {
        if (bits_of_word(modifier) != 0) named.emplace_back(modifier);
    }
    if (named.size() != 2 || types.size() != 2) return;
    const int to = bits_of_word(named[0]);
    const int from = bits_of_word(named[1]);
    const int destination = bits_of(types[0]);
    if (from < 64 && bits_of(types[1]) == 64) words.emplace_back("from64");
    if (destination == 64 && to < 64) words.emplace_back("to64");
    // Unsigned values have zeros above in any 32 or 16 bit row.
    if (destination == 32 && to < 32 && named[0][0] == 's') words.emplace_back("to32");
}

/// The key's words: the name as written, then what operands say of the form.
std::vector<std::string_view> words_of(const Instruction& instruction,
                                       const std::vector<Type>& types,
                                       const std::vector<const Operand*>& operands) {
    std::vector<std::string_view> words{instruction.opcode};
    words.insert(words.end(), instruction.modifiers.begin(), instruction.modifiers.end());
    if (instruction.opcode == "mov" && instruction.operands.size() == 2) {
        const bool to_vector = instruction.operands[0].kind == Operand::Kind::vector;
        const bool of_vector = instruction.operands[1].kind == Operand::Kind::vector;
        const bool two = operands.size() == 3;
        if (to_vector) words.emplace_back(two ? "unpack2" : "unpack4");
        if (of_vector) words.emplace_back(two ? "pack2" : "pack4");
    }
    if (instruction.opcode == "cvt") append_register_widths(instruction, types, words);
    const bool combined =
        has(instruction, "and") || has(instruction, "or") || has(instruction, "xor");
    if ((instruction.opcode == "setp" && operands.size() == (combined ? 5U : 4U)) ||
        (instruction.opcode == "lop3" && combined)) {
        words.emplace_back("|");
    }
    if (!operands.empty() && operands.back()->negated) words.emplace_back("!");
    return words;
}

void check_operands(const Instruction& instruction, const std::vector<const Operand*>& operands,
                    const std::vector<Type>& types, PureOp& op) {
    const std::size_t hidden =
        static_cast<std::size_t>(op.writes_carry) + static_cast<std::size_t>(op.reads_carry);
    const std::size_t expected = op.rows.size() - hidden;
    if (operands.size() != expected) {
        reject(instruction, "expected " + std::to_string(expected) + " operands, found " +
                                std::to_string(operands.size()));
    }
    const std::size_t written =
        static_cast<std::size_t>(op.destinations) - static_cast<std::size_t>(op.writes_carry);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        Row& row = op.rows[i < written || !op.writes_carry ? i : i + 1];
        const std::string which = "operand " + std::to_string(i + 1);
        if (operands[i]->kind == Operand::Kind::sink) {
            if (i >= written) reject(instruction, which + " is _, and it is a source");
            row = Row::none;
        } else if (i < types.size() && types[i] != Type::none && row_of(types[i]) != row) {
            reject(instruction, which + " has a register of another width than its type");
        }
        if (operands[i]->negated && i + 1 < operands.size()) {
            reject(instruction, which + " cannot be negated");
        }
    }
}

/// Cache policies change no value: any 64 bits will do.
void write_policy(const Rows& rows, const RowRef* operands, std::uint32_t mask) {
    if (operands[0] == no_row) return;
    auto* policy = rows.at<std::uint64_t>(operands[0]);
    for (int i = 0; i < warp_lanes; ++i) {
        if (((mask >> i) & 1U) != 0) policy[i] = 0;
    }
}

PureOp create_policy(const Instruction& instruction, const std::vector<const Operand*>& operands) {
    if (!has(instruction, "fractional") && !has(instruction, "cvt")) refuse(instruction, "");
    if (operands.empty()) reject(instruction, "expected a destination");
    PureOp op{.run = write_policy, .destinations = 1, .rows = {Row::b64}};
    op.rows.resize(operands.size(), has(instruction, "cvt") ? Row::b64 : Row::b32);
    return op;
}

}  // namespace

Isa best_isa() noexcept {
#ifdef KERNELFORGE_EMULATOR_HAS_AVX2
    static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 __builtin_cpu_supports("f16c");
    if (has_avx2) return Isa::avx2;
#endif
    return Isa::portable;
}

std::optional<PureOp> find_pure(const Instruction& instruction,
                                const std::vector<Type>& operand_types, Isa isa) {
    const std::vector<const Operand*> operands = flattened(instruction);
    if (instruction.opcode == "createpolicy") return create_policy(instruction, operands);
    if (is_refused(instruction.opcode)) refuse(instruction, "");
    const Table& table = table_of(isa);
    if (!table.has_opcode(instruction.opcode)) return find_mma(instruction, isa);

    const PureEntry* entry = table.find(canonical(words_of(instruction, operand_types, operands)));
    if (entry == nullptr) refuse(instruction, " in this form");
    PureOp op;
    op.run = entry->run;
    op.destinations = entry->destinations;
    op.rows.assign(entry->rows, entry->rows + entry->count);
    op.reads_carry = entry->reads_carry;
    op.writes_carry = entry->writes_carry;
    check_operands(instruction, operands, operand_types, op);
    return op;
}

}  // namespace kernelforge::emulator
